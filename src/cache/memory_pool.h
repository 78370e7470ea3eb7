// One memory tier as the core sees it (hot or warm): who is where, in which order of use, and who may be evicted.
//
// Evictable = present, in the order, not pinned. Pins are owners, leases and copies under way. Eviction only drops: storing
// runs ahead of it (replay rules: inclusive tiers).
// Parking A search for a victim takes pinned blocks that it passes at the old end out of the order; with their last pin they
//         return to that end. So each is passed once, however many copies are under way, and the order stays as it was.
// Space   Bytes; places are offsets into the tier's arena (segment 0), chosen here.
// Threads one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "cache/block_table.h"
#include "cache/extent_allocator.h"
#include "cache/lru.h"
#include "cache/outbox.h"

namespace tiercel {

class MemoryPool {
 public:
  struct Options {
    TierId tier = TierId::none;
    BlockInMemory Block::*where = nullptr;
    std::uint64_t capacity_bytes = 0;
  };

  // `table` and `outbox` outlive the pool.
  MemoryPool(Options options, BlockTable& table, Outbox& outbox);

  // Space that take() could get, now and by evicting.
  std::uint64_t available_bytes() const { return space_.free_bytes() + evictable_bytes_; }
  std::uint64_t used_bytes() const { return space_.used_bytes(); }
  std::uint64_t peak_bytes() const { return space_.peak_bytes(); }
  std::uint64_t capacity_bytes() const { return space_.capacity_bytes(); }
  std::uint64_t evicted_blocks() const { return evicted_blocks_; }

  // Reserves `bytes`, dropping least recently used blocks until they fit. nullopt: too much is pinned.
  std::optional<Place> take(std::uint64_t bytes);
  void give_back(const Place& place) { space_.release(place.offset, place.bytes); }

  // The block now has `place`; it counts as most recently used. A reference of the table is held until it leaves.
  void enter(BlockId id, const Place& place, Presence presence);
  void arrived(BlockId id);  // arriving -> present.
  void leave(
      BlockId
          id);  // Gone, its space free. Requires no pins. Says nothing: the caller emits the drop, if it is one.

  void pin(BlockId id);
  void unpin(BlockId id);  // The last pin of a condemned block takes it along.

  // The block's bytes proved bad: it is unreadable from now on, and gone as soon as nobody pins it.
  void condemn(BlockId id);

  // Owned blocks stand outside the order, so that a full pool is not searched in vain; they come back as most recent.
  void remove_from_order(BlockId id);
  void return_to_order(BlockId id);
  void touch(BlockId id);
  void make_first_victim(BlockId id);

  bool readable(BlockId id) const {
    return at(id).presence == Presence::present && !at(id).condemned;
  }
  bool here(BlockId id) const { return at(id).presence != Presence::absent; }
  bool arriving(BlockId id) const { return at(id).presence == Presence::arriving; }
  bool evictable(BlockId id) const;
  std::uint64_t evictable_bytes(BlockId id) const { return evictable(id) ? at(id).place.bytes : 0; }
  const BlockInMemory& at(BlockId id) const { return table_[id].*options_.where; }

 private:
  BlockInMemory& entry(BlockId id) { return table_[id].*options_.where; }
  bool evict_one();
  void unpark(BlockId id);

  const Options options_;
  BlockTable& table_;
  Outbox& outbox_;
  ExtentAllocator space_;
  Lru order_;
  std::uint64_t evictable_bytes_ = 0;
  std::uint64_t evicted_blocks_ = 0;
};

}  // namespace tiercel
