#include "cache/block_table.h"

#include <bit>

#include "base/check.h"

namespace tiercel {

namespace {
constexpr std::size_t kSlotsAtStart = 1024;

std::uint32_t hash_of(const Key& key) { return static_cast<std::uint32_t>(key.low64()); }
}  // namespace

const char* tier_name(TierId tier) {
  switch (tier) {
    case TierId::none:
      return "-";
    case TierId::caller:
      return "caller";
    case TierId::hot:
      return "hot";
    case TierId::warm:
      return "warm";
    case TierId::cold:
      return "cold";
  }
  return "?";
}

const char* action_name(ActionType type) {
  switch (type) {
    case ActionType::compute:
      return "compute";
    case ActionType::store:
      return "store";
    case ActionType::load:
      return "load";
    case ActionType::move:
      return "move";
    case ActionType::drop:
      return "drop";
    case ActionType::commit:
      return "commit";
    case ActionType::seal:
      return "seal";
    case ActionType::reclaim:
      return "reclaim";
  }
  return "?";
}

BlockTable::BlockTable() : slots_(kSlotsAtStart) {}

// The slot that holds `key`, or the empty one where it would go.
std::size_t BlockTable::slot_of(const Key& key) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint32_t hash = hash_of(key);
  std::size_t slot = hash & mask;
  while (slots_[slot].id != kNoBlock &&
         (slots_[slot].hash != hash || blocks_[slots_[slot].id].key != key)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

BlockId BlockTable::find(const Key& key) const { return slots_[slot_of(key)].id; }

BlockId BlockTable::intern(const Key& key, BlockId parent, std::uint64_t payload_bytes,
                           std::uint64_t record_bytes) {
  if (const BlockId known = find(key); known != kNoBlock) {
    ++blocks_[known].references;
    return known;
  }
  if ((count_ + 1) * 2 > slots_.size()) grow(slots_.size() * 2);
  BlockId id;
  if (free_.empty()) {
    id = static_cast<BlockId>(blocks_.size());
    blocks_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
    blocks_[id] = Block{};
  }
  Block& block = blocks_[id];
  block.key = key;
  block.parent = parent;
  block.references = 1;
  block.payload_bytes = payload_bytes;
  block.record_bytes = record_bytes;
  if (parent != kNoBlock) {
    ++blocks_[parent].references;
    ++blocks_[parent].children;
  }
  slots_[slot_of(key)] = {.id = id, .hash = hash_of(key)};
  ++count_;
  return id;
}

void BlockTable::release(BlockId id) {
  while (id != kNoBlock) {
    TIERCEL_CHECK(blocks_[id].references > 0);
    if (--blocks_[id].references > 0) return;
    const BlockId parent = blocks_[id].parent;
    erase(id);
    if (parent != kNoBlock) --blocks_[parent].children;
    id = parent;
  }
}

// Linear probing without tombstones: entries behind the gap move up until one sits at home.
void BlockTable::erase(BlockId id) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t gap = slot_of(blocks_[id].key);
  for (std::size_t next = (gap + 1) & mask; slots_[next].id != kNoBlock; next = (next + 1) & mask) {
    const std::size_t home = slots_[next].hash & mask;
    if (((next - home) & mask) < ((next - gap) & mask)) continue;
    slots_[gap] = slots_[next];
    gap = next;
  }
  slots_[gap] = {};
  free_.push_back(id);
  --count_;
}

void BlockTable::reserve(std::size_t blocks) {
  blocks_.reserve(blocks);
  const std::size_t slots = std::bit_ceil(blocks * 2 + 2);
  if (slots > slots_.size()) grow(slots);
}

void BlockTable::set_parent(BlockId id, BlockId parent) {
  TIERCEL_CHECK(blocks_[id].parent == kNoBlock && parent != kNoBlock);
  blocks_[id].parent = parent;
  ++blocks_[parent].references;
  ++blocks_[parent].children;
}

// Hashes lie in the slots, so the blocks themselves are not looked at.
void BlockTable::grow(std::size_t slots) {
  std::vector<Slot, HugePageAllocator<Slot>> old(slots);
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& entry : old) {
    if (entry.id == kNoBlock) continue;
    std::size_t slot = entry.hash & mask;
    while (slots_[slot].id != kNoBlock) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }
}

}  // namespace tiercel
