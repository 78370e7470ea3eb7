// An LRU with a capacity, counted in blocks, and what becomes of a victim: dropped, or demoted to the tier below.
//
// Used where tiers are exclusive and everything in them may be evicted (residency). The cache core keeps its own
// capacity in bytes and its own idea of what may go; both order by the same Lru.
// Threads one thread.
#pragma once

#include <cstdint>

#include "cache/lru.h"

namespace tiercel {

enum class OnEvict : std::uint8_t { demote, drop };

class TierLru {
 public:
  struct Options {
    std::uint64_t capacity = 0;
    OnEvict on_evict = OnEvict::drop;
    TierLru* below = nullptr;  // For demote; outlives this one.
  };

  explicit TierLru(Options options) : options_(options) {}

  bool contains(std::uint32_t id) const { return lru_.contains(id); }
  void touch(std::uint32_t id) { lru_.touch(id); }
  void remove(std::uint32_t id) { lru_.remove(id); }

  // Makes `id` the most recent; the least recent leave until the capacity holds. A tier of capacity 0 passes `id` on.
  void insert(std::uint32_t id) {
    lru_.push_front(id);
    while (lru_.size() > options_.capacity) {
      const std::uint32_t victim = lru_.back();
      lru_.remove(victim);
      if (options_.on_evict == OnEvict::demote) options_.below->insert(victim);
    }
  }

 private:
  const Options options_;
  Lru lru_;
};

}  // namespace tiercel
