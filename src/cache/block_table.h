// The index: every block that is somewhere, by key and by dense id, with its place in each tier.
//
// Shape   Blocks live in one vector; an open-addressing table of ids finds them by key (keys are SHA-256, so their own bits
//         are the hash). Ids of forgotten blocks are reused.
// Life    A block stays while it has references: one per tier it is in or on its way to, per child in the table, and per
//         retain() of a user. The parent is referenced, so a block's ancestry is known as long as the block.
// Cost    find and intern are O(1); about 200 bytes a block in this form.
// Threads one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/huge_page_allocator.h"
#include "cache/action.h"
#include "kv/key.h"

namespace tiercel {

enum class Presence : std::uint8_t {
  absent,
  arriving,  // Its bytes are on the way: space is taken, nobody can read it yet.
  written,   // Cold only: written but not yet committed.
  present,   // Published: readable.
};

struct BlockInMemory {
  Presence presence = Presence::absent;
  bool parked = false;     // Out of the order until its last pin goes; see MemoryPool.
  std::uint32_t pins = 0;  // Owners, leases and copies under way: it must stay where it is.
  bool condemned =
      false;  // Its bytes proved bad: nobody may read it, and it leaves with its last pin.
  Place place;
};

struct Block {
  Key key;
  BlockId parent = kNoBlock;
  std::uint32_t references = 0;
  std::uint64_t payload_bytes = 0;  // In hot.
  std::uint64_t record_bytes = 0;   // In warm and cold: physical.

  BlockInMemory hot;
  std::uint32_t hot_owners = 0;  // Running requests that use it there; each is one of its pins.
  bool hot_waits_for_warm =
      false;  // Its bytes come from cold by way of warm; the second step has not begun.
  BlockInMemory warm;

  Presence cold = Presence::absent;
  bool hit_since_written = false;
  bool ended = false;  // A hint said that no prompt will want it again.
  bool stands_alone =
      false;  // Of use without its parent (reach window or last, in a model without `all`).
  Place cold_place;
  std::uint32_t cold_children = 0;  // Children in cold or on their way there.
  std::uint32_t children = 0;       // Children in the table.
};

class BlockTable {
 public:
  BlockTable();

  BlockId find(const Key& key) const;  // kNoBlock where it is unknown.

  // The block of `key`, made if unknown; takes a reference for the caller. `parent` and sizes count only when it is made.
  BlockId intern(const Key& key, BlockId parent, std::uint64_t payload_bytes,
                 std::uint64_t record_bytes);

  // Makes room for so many blocks beforehand: a restart knows how many will come.
  void reserve(std::size_t blocks);
  // For a restart, which meets children before their parents. Requires a block without a parent; no ring may close.
  void set_parent(BlockId id, BlockId parent);

  void retain(BlockId id) { ++blocks_[id].references; }
  void release(
      BlockId id);  // The last one forgets the block, and its ancestors that nobody else needs.

  Block& operator[](BlockId id) { return blocks_[id]; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }
  std::uint64_t size() const { return count_; }
  std::uint32_t id_limit() const { return static_cast<std::uint32_t>(blocks_.size()); }

 private:
  // The low bits say where it belongs, all of them whether it is worth a look at the block itself.
  struct Slot {
    BlockId id = kNoBlock;
    std::uint32_t hash = 0;
  };

  std::size_t slot_of(const Key& key) const;
  void grow(std::size_t slots);
  void erase(BlockId id);

  std::vector<Block, HugePageAllocator<Block>> blocks_;
  std::vector<BlockId> free_;
  std::vector<Slot, HugePageAllocator<Slot>>
      slots_;  // A power of two, at most half full; kNoBlock = empty.
  std::uint64_t count_ = 0;
};

}  // namespace tiercel
