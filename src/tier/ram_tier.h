// Records in host memory: the warm tier, and hot(host), the stand-in for a device without a GPU.
//
// Shape   A part of the arena; places are {segment 0, offset into it}. A store copies the record there, a load verifies and
//         copies it out in one pass. Ops are carried out inside submit(), in order of priority; poll() and wait() deliver.
// Pace    None by default. With one set, a completion is delivered no earlier than latency + bytes / rate allow after the ops
//         before it (one FIFO link): its times are then `paced`, and reports say so.
// Misses  A place whose memory was never written is a miss.
// Threads As in tier.h.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <deque>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "tier/arena.h"
#include "tier/link_meter.h"
#include "tier/tier.h"

namespace tiercel {

struct LinkPace {
  std::int64_t latency_ns = 0;
  double bytes_per_s = 0;  // 0 = no pace.
};

struct RamTierOptions {
  std::string name = "warm";
  std::span<std::byte> memory;       // Taken from `arena`; its length is the capacity.
  const Arena* arena = nullptr;      // Resolves handles; must outlive the tier.
  const Clock* clock = nullptr;      // Must outlive the tier.
  std::size_t queue_ops_max = 4096;  // Undelivered completions count.
  LinkPace pace;
};

class RamTier final : public Tier {
 public:
  explicit RamTier(const RamTierOptions& options);

  // The device tier of a machine without a GPU; called hot(host) everywhere.
  static RamTierOptions hot_host(RamTierOptions options) {
    options.name = "hot(host)";
    return options;
  }

  const TierCapabilities& capabilities() const override { return capabilities_; }
  Result<Ticket> submit(std::span<const Op> ops) override;
  std::size_t poll(std::vector<Completion>& out) override;
  std::size_t wait(std::vector<Completion>& out, std::int64_t timeout_ns) override;
  void cancel(Ticket) override {
  }  // Every op is carried out inside submit(): it is always too late.
  TierStats stats() const override;
  LinkEstimate link() const override;

 private:
  struct Due {
    std::int64_t at_ns;
    Completion completion;
  };

  Result<void> check(const Op& op) const;
  Completion carry_out(const Op& op);
  Result<void> store(const Op& op);
  Result<bool> load(const Op& op);  // False: a miss.
  std::int64_t due_ns(std::uint64_t bytes);

  const RamTierOptions options_;
  TierCapabilities capabilities_;
  Ticket next_ticket_ = 1;
  std::deque<Due> done_;  // In order of delivery.
  std::int64_t link_free_ns_ = 0;

  mutable Mutex mutex_;
  TierStats stats_ GUARDED_BY(mutex_);
  LinkMeter meter_ GUARDED_BY(mutex_);
};

}  // namespace tiercel
