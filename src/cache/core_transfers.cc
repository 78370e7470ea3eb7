// Loads and stores: how they begin and what their completions bring about.
#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "cache/core.h"

namespace tiercel {

void Core::start_load(BlockId id, TierId from, TierId to, const Place& source,
                      const Place& target) {
  if (from == TierId::warm) warm_.pin(id);
  if (from == TierId::cold) cold_->hold(source);
  outbox_.start({.type = ActionType::load,
                 .from = from,
                 .to = to,
                 .block = id,
                 .key = table_[id].key,
                 .source = source,
                 .target = target});
}

bool Core::start_cold_to_warm(BlockId id) {
  if (warm_.here(id)) return false;  // Condemned there, and still pinned.
  const Block& block = table_[id];
  const auto target = warm_.take(block.record_bytes);
  if (!target) return false;
  warm_.enter(id, *target, Presence::arriving);
  start_load(id, TierId::cold, TierId::warm, block.cold_place, *target);
  return true;
}

// --- Stores ---

bool Core::in_lower_tier(BlockId id) const {
  return warm_.here(id) || table_[id].cold != Presence::absent;
}

void Core::store_down(std::span<const BlockId> chain) {
  if (warm_.capacity_bytes() == 0) return;
  // Touched before, so that the chain does not make room for its tail out of its own head; and after, because what is
  // stored head first would otherwise be evicted head first.
  for (const BlockId id : chain | std::views::reverse) warm_.touch(id);
  for (const BlockId id : chain) {
    if (warm_.readable(id)) {
      store_to_cold(id);
    } else if (!warm_.here(id) && hot_.readable(id)) {
      store_to_warm(id, TierId::hot);
    }
  }
  for (const BlockId id : chain | std::views::reverse) warm_.touch(id);
}

bool Core::store_to_warm(BlockId id, TierId from) {
  Block& block = table_[id];
  if (block.parent != kNoBlock && from == TierId::hot && !in_lower_tier(block.parent)) {
    ++counts_.skipped_parent;
    return false;
  }
  if (warm_in_flight_bytes_ + block.record_bytes > options_.staging_bytes) {
    ++counts_.skipped_staging;
    return false;
  }
  const auto target = warm_.take(block.record_bytes);
  if (!target) {
    ++counts_.skipped_space;
    return false;
  }
  warm_in_flight_bytes_ += target->bytes;
  warm_.enter(id, *target, Presence::arriving);
  if (from == TierId::hot) hot_.pin(id);
  outbox_.start({.type = ActionType::store,
                 .from = from,
                 .to = TierId::warm,
                 .block = id,
                 .key = block.key,
                 .source = from == TierId::hot ? block.hot.place : Place{},
                 .target = *target});
  return true;
}

void Core::store_to_cold(BlockId id) {
  Block& block = table_[id];
  if (!cold_ || block.cold != Presence::absent || block.ended) return;
  if (!cold_->writable()) {
    ++counts_.skipped_failed;
    return;
  }
  if (block.parent != kNoBlock && !block.stands_alone &&
      table_[block.parent].cold == Presence::absent) {
    ++counts_.skipped_parent;
    return;
  }
  if (!cold_->staging_has_room(block.record_bytes)) {
    ++counts_.skipped_staging;
    return;
  }
  const auto target = cold_->reserve(id);
  if (!target) {
    ++counts_.skipped_space;
    return;
  }
  warm_.pin(id);
  outbox_.start({.type = ActionType::store,
                 .from = TierId::warm,
                 .to = TierId::cold,
                 .block = id,
                 .key = block.key,
                 .source = block.warm.place,
                 .target = *target});
}

std::optional<StartedPut> Core::put(std::span<const BlockId> blocks) {
  const auto transaction = std::make_shared<Transaction>();
  std::vector<std::shared_ptr<Transaction>> joined;
  std::uint64_t bytes = 0;
  bool blocked = false;
  for (const BlockId id : blocks) {
    table_[id].ended = false;
    if (fastest_tier(id) != TierId::none) {
      // Pinned: the put must not make room for its tail out of its head.
      transaction->pins.push_back(pin(id));
    } else if (const auto other = putting_.find(id); other != putting_.end()) {
      if (std::ranges::find(joined, other->second) == joined.end()) joined.push_back(other->second);
    } else {
      blocked = blocked || warm_.here(id);  // Condemned, and somebody still reads there.
      transaction->blocks.push_back(id);
      bytes += table_[id].record_bytes;
    }
  }
  touch(blocks);
  const bool has_space = !blocked && bytes <= warm_.available_bytes();
  if (!has_space || warm_in_flight_bytes_ + bytes > options_.staging_bytes) {
    ++(has_space ? counts_.skipped_staging : counts_.skipped_space);
    for (const Pin& pin : transaction->pins) unpin(pin);
    return std::nullopt;
  }
  StartedPut started;
  for (const BlockId id : transaction->blocks) {
    if (!store_to_warm(id, TierId::caller)) {
      // Fragmentation took what the sum promised. What has begun ends unpublished.
      transaction->failed = true;
      break;
    }
    started.ops.push_back(outbox_.actions().back().op);
    transactions_.emplace(started.ops.back(), transaction);
    putting_.emplace(id, transaction);
  }
  if (started.ops.empty() && (transaction->failed || joined.empty())) {
    for (const Pin& pin : transaction->pins) unpin(pin);
    return transaction->failed ? std::nullopt : std::optional(started);
  }
  started.put = transaction->put = ++last_put_;
  transaction->pending = static_cast<std::uint32_t>(started.ops.size() + joined.size());
  for (const auto& other : joined) other->joined_by.push_back(transaction);
  transaction->chain.assign(blocks.begin(), blocks.end());
  for (const BlockId id : blocks) table_.retain(id);
  return started;
}

// --- Loads for callers ---

bool Core::fetch(BlockId id) {
  ++counts_.lookups;
  Block& block = table_[id];
  block.ended = false;
  if (warm_.readable(id)) {
    start_load(id, TierId::warm, TierId::caller, block.warm.place, {});
    return true;
  }
  if (block.cold != Presence::present) return false;
  block.hit_since_written = true;
  if (warm_.arriving(id) || start_cold_to_warm(id)) {
    ++waiting_callers_[id];
  } else {
    start_load(id, TierId::cold, TierId::caller, block.cold_place, {});
  }
  return true;
}

bool Core::prefetch(BlockId id) {
  return table_[id].cold == Presence::present && !warm_.here(id) && start_cold_to_warm(id);
}

// --- Completions ---

Completed Core::complete(std::uint64_t op, bool ok) {
  Completed completed{.action = outbox_.finish(op), .ok = ok};
  const Action& action = completed.action;
  switch (action.type) {
    case ActionType::load:
      on_load(action, ok, completed);
      break;
    case ActionType::store:
      on_store(action, ok, completed);
      break;
    case ActionType::move:
      ok && cold_->writable() ? cold_->moved(action.block, action.source, action.target)
                              : cold_->move_failed(action.block, action.source, action.target);
      cold_->commit_if_due();
      break;
    case ActionType::commit:
      ok ? cold_->commit_done() : cold_->commit_failed();
      cold_->commit_if_due();
      break;
    case ActionType::compute:
    case ActionType::drop:
    case ActionType::seal:
    case ActionType::reclaim:
      TIERCEL_CHECK(false);  // These have no op.
  }
  return completed;
}

void Core::on_load(const Action& action, bool ok, Completed& completed) {
  const BlockId id = action.block;
  if (action.from == TierId::warm) warm_.unpin(id);
  if (action.to == TierId::warm) arrived_in_warm_from_cold(id, ok, completed);
  if (action.from == TierId::cold) cold_->unhold(action.source);
  if (action.to == TierId::hot) {
    hot_.arrived(id);  // Also where the bytes proved bad: the engine has recomputed them in place.
    completed.ready_in_hot = id;
  }
  if (!ok && action.to != TierId::hot) quarantine(id, action.from);
}

void Core::arrived_in_warm_from_cold(BlockId id, bool ok, Completed& completed) {
  Block& block = table_[id];
  const auto waiting = waiting_callers_.find(id);
  const std::uint32_t callers = waiting == waiting_callers_.end() ? 0 : waiting->second;
  if (callers > 0) waiting_callers_.erase(waiting);
  if (!ok) {
    completed.failed_fetches = callers;
    TIERCEL_CHECK(
        !block
             .hot_waits_for_warm);  // With hot memory the executor recomputes: its loads do not fail.
    warm_.leave(id);                // Nobody pins what is still arriving.
    return;
  }
  warm_.arrived(id);
  for (std::uint32_t i = 0; i < callers; ++i) {
    start_load(id, TierId::warm, TierId::caller, block.warm.place, {});
  }
  if (block.hot_waits_for_warm) {
    block.hot_waits_for_warm = false;
    start_load(id, TierId::warm, TierId::hot, block.warm.place, block.hot.place);
  }
}

void Core::on_store(const Action& action, bool ok, Completed& completed) {
  const BlockId id = action.block;
  if (action.to == TierId::cold) {
    warm_.unpin(id);
    ok && cold_->writable() ? cold_->wrote(id) : cold_->failed(id);
    cold_->commit_if_due();
    return;
  }
  warm_in_flight_bytes_ -= action.target.bytes;
  if (action.from == TierId::hot) hot_.unpin(id);
  if (action.from == TierId::caller) {
    finish_store(action.op, ok, completed);
    return;
  }
  if (!ok) {
    warm_.leave(id);
    return;
  }
  warm_.arrived(id);
  ++counts_.stored_warm;
  store_to_cold(id);
}

void Core::finish_store(std::uint64_t op, bool ok, Completed& completed) {
  const auto node = transactions_.extract(op);
  node.mapped()->failed = node.mapped()->failed || !ok;
  // Those that end here, each before the puts that had joined it.
  std::vector<std::shared_ptr<Transaction>> ending;
  if (--node.mapped()->pending == 0) ending.push_back(node.mapped());
  for (std::size_t i = 0; i < ending.size(); ++i) {
    const std::shared_ptr<Transaction> transaction = ending[i];
    end_transaction(*transaction);
    completed.ended_puts.push_back(
        {.put = transaction->put,
         .published = !transaction->failed,
         .joined_failed = transaction->joined_failed,
         .stored = static_cast<std::uint32_t>(transaction->blocks.size())});
    for (const auto& follower : transaction->joined_by) {
      follower->joined_failed = follower->joined_failed || transaction->failed;
      follower->failed = follower->failed || transaction->failed;
      if (--follower->pending == 0) ending.push_back(follower);
    }
  }
}

void Core::end_transaction(Transaction& transaction) {
  for (const BlockId id : transaction.blocks) {
    const auto found = putting_.find(id);
    if (found == putting_.end() || found->second.get() != &transaction)
      continue;  // The put failed before it reached this one.
    putting_.erase(found);
    if (transaction.failed) {
      warm_.leave(id);
    } else {
      warm_.arrived(id);
    }
  }
  for (const Pin& pin : transaction.pins) unpin(pin);
  if (!transaction.failed) {
    touch(transaction.chain);
    counts_.stored_warm += transaction.blocks.size();
    for (const BlockId id : transaction.blocks) store_to_cold(id);
  }
  for (const BlockId id : transaction.chain) table_.release(id);
}

void Core::quarantine(BlockId id, TierId tier) {
  if (tier == TierId::cold && cold_) cold_->forget(id);
  if (tier == TierId::warm) warm_.condemn(id);
}

}  // namespace tiercel
