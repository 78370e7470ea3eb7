#include "replay/residency.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <queue>
#include <ranges>
#include <vector>

#include "cache/tier_lru.h"

namespace tiercel {
namespace {

// Leading blocks for which `resident` holds.
template <class Resident>
std::uint64_t leading(std::span<const std::uint32_t> blocks, Resident resident) {
  std::uint64_t count = 0;
  while (count < blocks.size() && resident(blocks[count])) ++count;
  return count;
}

std::uint64_t one_tier_hits(const Trace& trace, std::uint64_t capacity, bool touch) {
  TierLru tier({.capacity = capacity, .on_evict = OnEvict::drop});
  std::uint64_t hits = 0;
  for (const Request& request : trace.requests) {
    const auto blocks = trace.blocks(request);
    hits += leading(blocks, [&](std::uint32_t id) { return tier.contains(id); });
    for (const std::uint32_t id : blocks | std::views::reverse) {
      if (!tier.contains(id)) {
        tier.insert(id);
      } else if (touch) {
        tier.touch(id);
      }
    }
  }
  return hits;
}

// Belady: of all resident blocks evict the one whose next use lies farthest ahead. A use is (request, depth), so the
// largest pair is the farthest and, among blocks of one request, the deepest.
class Belady {
 public:
  Belady(const Trace& trace, std::uint64_t capacity)
      : trace_(trace), capacity_(capacity), next_use_(trace.block_ids.size()) {
    std::vector<std::uint64_t> upcoming(trace.unique_blocks, kNever);
    for (std::size_t r = trace.requests.size(); r-- > 0;) {
      const auto blocks = trace.blocks(trace.requests[r]);
      for (std::size_t depth = 0; depth < blocks.size(); ++depth) {
        next_use_[trace.requests[r].block_first + depth] = upcoming[blocks[depth]];
        upcoming[blocks[depth]] = (static_cast<std::uint64_t>(r) << 32) | depth;
      }
    }
    resident_until_.assign(trace.unique_blocks, kAbsent);
  }

  std::uint64_t hits() {
    std::uint64_t hits = 0;
    for (const Request& request : trace_.requests) {
      const auto blocks = trace_.blocks(request);
      hits += leading(blocks, [&](std::uint32_t id) { return resident_until_[id] != kAbsent; });
      for (std::size_t depth = blocks.size(); depth-- > 0;) {
        become_resident(blocks[depth], next_use_[request.block_first + depth]);
      }
    }
    return hits;
  }

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kAbsent = kNever - 1;

  void become_resident(std::uint32_t id, std::uint64_t next_use) {
    if (resident_until_[id] != kAbsent) {
      resident_until_[id] = kAbsent;
      --size_;
    }
    if (next_use == kNever || capacity_ == 0) return;  // Bypass: nothing to gain by keeping it.
    while (size_ >= capacity_) {
      const std::uint64_t farthest = uses_.top();
      const std::uint32_t victim = block_at(farthest);
      const bool stale = resident_until_[victim] != farthest;
      if (!stale && farthest < next_use) return;  // Bypass: all others are needed sooner.
      uses_.pop();
      if (stale) continue;
      resident_until_[victim] = kAbsent;
      --size_;
    }
    resident_until_[id] = next_use;
    uses_.push(next_use);
    ++size_;
  }

  std::uint32_t block_at(std::uint64_t use) const {
    return trace_.blocks(trace_.requests[use >> 32])[use & 0xffffffff];
  }

  const Trace& trace_;
  const std::uint64_t capacity_;
  std::vector<std::uint64_t> next_use_;        // Per access.
  std::vector<std::uint64_t> resident_until_;  // Per block: its next use while resident.
  std::priority_queue<std::uint64_t> uses_;    // May hold stale entries; resident_until_ decides.
  std::uint64_t size_ = 0;
};

}  // namespace

Result<ResidencyPolicy> parse_residency_policy(std::string_view name) {
  if (name == "lru") return ResidencyPolicy::lru;
  if (name == "fifo") return ResidencyPolicy::fifo;
  if (name == "opt") return ResidencyPolicy::opt;
  return fail(Errc::invalid,
              fmt::format("--policy {}: no such policy here; choose from lru, fifo, opt", name));
}

std::uint64_t residency_hits(const Trace& trace, ResidencyPolicy policy,
                             std::uint64_t capacity_blocks) {
  switch (policy) {
    case ResidencyPolicy::lru:
      return one_tier_hits(trace, capacity_blocks, true);
    case ResidencyPolicy::fifo:
      return one_tier_hits(trace, capacity_blocks, false);
    case ResidencyPolicy::opt:
      return Belady(trace, capacity_blocks).hits();
  }
  return 0;
}

std::uint64_t infinite_hits(const Trace& trace) {
  return one_tier_hits(trace, std::numeric_limits<std::uint64_t>::max(), true);
}

TierSplit residency_tiers(const Trace& trace, std::uint64_t hot_blocks, std::uint64_t warm_blocks,
                          std::optional<std::uint64_t> cold_blocks) {
  TierLru cold({.capacity = cold_blocks.value_or(std::numeric_limits<std::uint64_t>::max()),
                .on_evict = OnEvict::drop});
  TierLru warm({.capacity = warm_blocks, .on_evict = OnEvict::demote, .below = &cold});
  TierLru hot({.capacity = hot_blocks, .on_evict = OnEvict::demote, .below = &warm});
  TierSplit split;
  for (const Request& request : trace.requests) {
    const auto blocks = trace.blocks(request);
    const std::uint64_t hits = leading(blocks, [&](std::uint32_t id) {
      if (hot.contains(id)) return ++split.hot > 0;
      if (warm.contains(id)) return ++split.warm > 0;
      return cold.contains(id) && ++split.cold > 0;
    });
    split.miss += blocks.size() - hits;
    for (const std::uint32_t id : blocks | std::views::reverse) {
      if (hot.contains(id)) {
        hot.touch(id);
        continue;
      }
      if (warm.contains(id)) warm.remove(id);
      if (cold.contains(id)) cold.remove(id);
      hot.insert(id);
    }
  }
  return split;
}

}  // namespace tiercel
