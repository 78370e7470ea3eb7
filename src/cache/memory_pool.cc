#include "cache/memory_pool.h"

namespace tiercel {

MemoryPool::MemoryPool(Options options, BlockTable& table, Outbox& outbox)
    : options_(options), table_(table), outbox_(outbox), space_(options.capacity_bytes) {}

bool MemoryPool::evictable(BlockId id) const {
  const BlockInMemory& block = at(id);
  return readable(id) && block.pins == 0 && order_.contains(id);
}

bool MemoryPool::evict_one() {
  BlockId victim = order_.back();
  while (victim != Lru::kNone && !evictable(victim)) {
    const BlockId next = order_.before(victim);
    order_.remove(victim);
    entry(victim).parked = true;
    victim = next;
  }
  if (victim == Lru::kNone) return false;
  ++evicted_blocks_;
  outbox_.emit({.type = ActionType::drop,
                .from = options_.tier,
                .block = victim,
                .key = table_[victim].key,
                .source = at(victim).place});
  leave(victim);
  return true;
}

std::optional<Place> MemoryPool::take(std::uint64_t bytes) {
  if (bytes > available_bytes())
    return std::nullopt;  // Evict nobody for a request that cannot be met.
  for (;;) {
    if (const auto offset = space_.allocate(bytes)) return Place{.offset = *offset, .bytes = bytes};
    if (!evict_one()) return std::nullopt;
  }
}

void MemoryPool::enter(BlockId id, const Place& place, Presence presence) {
  BlockInMemory& block = entry(id);
  TIERCEL_CHECK(block.presence == Presence::absent && block.pins == 0);
  block.presence = presence;
  block.place = place;
  table_.retain(id);
  order_.push_front(id);
  evictable_bytes_ += evictable_bytes(id);
}

void MemoryPool::arrived(BlockId id) {
  BlockInMemory& block = entry(id);
  TIERCEL_CHECK(block.presence == Presence::arriving);
  block.presence = Presence::present;
  unpark(id);
  evictable_bytes_ += evictable_bytes(id);
}

// It was among the oldest when it was passed over, and is again.
void MemoryPool::unpark(BlockId id) {
  BlockInMemory& block = entry(id);
  if (!block.parked || block.pins > 0) return;
  block.parked = false;
  order_.push_back(id);
}

void MemoryPool::leave(BlockId id) {
  BlockInMemory& block = entry(id);
  TIERCEL_CHECK(block.presence != Presence::absent && block.pins == 0);
  evictable_bytes_ -= evictable_bytes(id);
  if (order_.contains(id)) order_.remove(id);
  space_.release(block.place.offset, block.place.bytes);
  block.parked = false;
  block.presence = Presence::absent;
  block.condemned = false;
  table_.release(id);
}

void MemoryPool::pin(BlockId id) {
  evictable_bytes_ -= evictable_bytes(id);
  ++entry(id).pins;
}

void MemoryPool::unpin(BlockId id) {
  TIERCEL_CHECK(at(id).pins > 0);
  --entry(id).pins;
  if (at(id).condemned && at(id).pins == 0) {
    leave(id);
    return;
  }
  unpark(id);
  evictable_bytes_ += evictable_bytes(id);
}

void MemoryPool::condemn(BlockId id) {
  if (!readable(id)) return;
  evictable_bytes_ -= evictable_bytes(id);
  entry(id).condemned = true;
  if (at(id).pins == 0) leave(id);
}

void MemoryPool::remove_from_order(BlockId id) {
  evictable_bytes_ -= evictable_bytes(id);
  if (order_.contains(id)) order_.remove(id);
  entry(id).parked = false;
}

void MemoryPool::return_to_order(BlockId id) {
  order_.push_front(id);
  evictable_bytes_ += evictable_bytes(id);
}

void MemoryPool::touch(BlockId id) {
  if (order_.contains(id)) {
    order_.touch(id);
  } else if (entry(id).parked) {
    entry(id).parked = false;
    order_.push_front(id);
  }
}

void MemoryPool::make_first_victim(BlockId id) {
  if (!order_.contains(id)) return;
  order_.remove(id);
  order_.push_back(id);
}

}  // namespace tiercel
