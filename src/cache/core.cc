// Matching, admission to hot, publishing and letting go: what an engine asks of the core.
#include "cache/core.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"

namespace tiercel {

Core::Core(const CoreOptions& options)
    : options_(options),
      hot_({.tier = TierId::hot, .where = &Block::hot, .capacity_bytes = options.hot_bytes}, table_,
           outbox_),
      warm_({.tier = TierId::warm, .where = &Block::warm, .capacity_bytes = options.warm_bytes},
            table_, outbox_) {
  if (options.cold) cold_ = std::make_unique<ColdLog>(*options.cold, table_, outbox_);
}

void Core::advance(std::int64_t now_ns) {
  outbox_.set_now_ns(now_ns);
  if (cold_) cold_->commit_if_due();
}

std::optional<std::int64_t> Core::next_wakeup_ns() const {
  return cold_ ? cold_->commit_due_ns() : std::nullopt;
}

bool Core::commit_now() { return cold_ && cold_->commit_now(); }

TierId Core::fastest_tier(BlockId id) const {
  if (hot_.readable(id)) return TierId::hot;
  if (warm_.readable(id)) return TierId::warm;
  if (table_[id].cold == Presence::present) return TierId::cold;
  return TierId::none;
}

std::uint32_t Core::match(std::span<const BlockId> chain) {
  std::uint32_t count = 0;
  while (count < chain.size() && fastest_tier(chain[count]) != TierId::none) ++count;
  counts_.lookups += std::min<std::size_t>(chain.size(), count + 1);
  return count;
}

// The prefix's own evictable blocks are no room: they are about to be owned.
bool Core::room_for(std::span<const BlockId> prefix, std::uint32_t block_count) const {
  std::uint64_t needed = (block_count - prefix.size()) * options_.hot_block_bytes;
  std::uint64_t available = hot_.available_bytes();
  for (const BlockId id : prefix) {
    if (hot_.here(id)) {
      available -= hot_.evictable_bytes(id);
    } else {
      needed += table_[id].payload_bytes;
    }
  }
  return needed <= available;
}

void Core::own_in_hot(BlockId id) {
  Block& block = table_[id];
  if (block.hot_owners++ == 0) hot_.remove_from_order(id);
  hot_.pin(id);
}

std::optional<Admission> Core::admit(std::span<const BlockId> chain, std::uint32_t block_count) {
  const auto prefix = chain.first(match(chain));
  if (!room_for(prefix, block_count)) return std::nullopt;

  // Everything the prefix needs is pinned where it lies before the first eviction, or room for its
  // tail could be made out of its head.
  Admission admission;
  std::vector<Pin> sources;
  for (const BlockId id : prefix) {
    Block& block = table_[id];
    switch (fastest_tier(id)) {
      case TierId::hot:
        ++admission.hot_hits;
        break;
      case TierId::warm:
        ++admission.warm_hits;
        break;
      default:
        ++admission.cold_hits;
        break;
    }
    block.ended = false;
    block.hit_since_written = block.hit_since_written || block.cold == Presence::present;
    if (hot_.here(id)) {
      own_in_hot(id);
    } else {
      sources.push_back(pin(id));
    }
  }
  for (const Pin& source : sources) {
    load_into_hot(source.id);
    unpin(source);
  }
  for (const BlockId id : prefix) {
    if (!hot_.readable(id)) admission.pending.push_back(id);
  }
  for (const BlockId id : prefix | std::views::reverse) warm_.touch(id);

  for (std::size_t i = prefix.size(); i < block_count; ++i) {
    const auto place = take_private();
    TIERCEL_CHECK(place.has_value());  // room_for() counted it.
    admission.computed.push_back(*place);
  }
  return admission;
}

void Core::load_into_hot(BlockId id) {
  Block& block = table_[id];
  const auto target = hot_.take(block.payload_bytes);
  TIERCEL_CHECK(target.has_value());
  hot_.enter(id, *target, Presence::arriving);
  own_in_hot(id);
  if (warm_.readable(id)) {
    start_load(id, TierId::warm, TierId::hot, block.warm.place, *target);
  } else if (warm_.arriving(id) || start_cold_to_warm(id)) {
    block.hot_waits_for_warm = true;
  } else {  // Nothing in warm may go: past it.
    start_load(id, TierId::cold, TierId::hot, block.cold_place, *target);
  }
}

std::vector<bool> Core::publish(std::span<const BlockId> chain, std::uint32_t first,
                                std::span<const Place> places) {
  std::vector<bool> published(places.size(), false);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const BlockId id = chain[first + i];
    if (hot_.here(id)) continue;  // Computed by two at once: held twice until one frees.
    hot_.enter(id, places[i], Presence::present);
    own_in_hot(id);
    table_[id].ended = false;
    outbox_.emit({.type = ActionType::compute,
                  .to = TierId::hot,
                  .block = id,
                  .key = table_[id].key,
                  .target = places[i]});
    published[i] = true;
  }
  return published;
}

std::optional<Place> Core::take_private() { return hot_.take(options_.hot_block_bytes); }

void Core::disown(BlockId id) {
  Block& block = table_[id];
  TIERCEL_CHECK(block.hot_owners > 0);
  hot_.unpin(id);
  if (--block.hot_owners == 0) hot_.return_to_order(id);
}

void Core::end_prompt(std::span<const BlockId> tail_deepest_first) {
  std::unordered_map<BlockId, std::uint32_t> own_children;  // Those of the tail itself.
  std::vector<BlockId> ended;
  for (const BlockId id : tail_deepest_first) {
    Block& block = table_[id];
    const auto own = own_children.find(id);
    if (block.children > (own == own_children.end() ? 0 : own->second) || block.hot_owners > 0)
      break;
    block.ended = true;
    ended.push_back(id);
    if (block.parent != kNoBlock) ++own_children[block.parent];
  }
  // What is made first victim last goes first: the deepest.
  for (const BlockId id : ended | std::views::reverse) {
    hot_.make_first_victim(id);
    warm_.make_first_victim(id);
  }
}

void Core::touch(std::span<const BlockId> chain) {
  if (chain.empty()) return;
  for (const BlockId id : chain | std::views::reverse) warm_.touch(id);
  for (BlockId id = table_[chain.front()].parent; id != kNoBlock; id = table_[id].parent)
    warm_.touch(id);
}

Pin Core::pin(BlockId id) {
  if (warm_.readable(id)) {
    warm_.pin(id);
    return {.id = id, .tier = TierId::warm};
  }
  const Block& block = table_[id];
  if (block.cold != Presence::present) return {.id = id};
  cold_->hold(block.cold_place);
  return {.id = id, .tier = TierId::cold, .place = block.cold_place};
}

void Core::unpin(const Pin& pin) {
  if (pin.tier == TierId::warm) warm_.unpin(pin.id);
  if (pin.tier == TierId::cold) cold_->unhold(pin.place);
}

}  // namespace tiercel
