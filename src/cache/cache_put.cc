// put() and hints: names for blocks that are new, and what their sources must look like.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "cache/cache_impl.h"

namespace tiercel {

Result<void> CacheImpl::check_put(const Chain& chain, const Txn& transaction) const {
  if (transaction.position > chain.size()) {
    return fail(Errc::invalid, fmt::format("put: position {} of a chain of {} blocks",
                                           transaction.position, chain.size()));
  }
  if (transaction.hints.ends_from && *transaction.hints.ends_from > chain.size()) {
    return fail(Errc::invalid, fmt::format("put: ends_from {} of a chain of {} blocks",
                                           *transaction.hints.ends_from, chain.size()));
  }
  std::set<std::pair<std::uint16_t, std::uint32_t>> seen;
  for (const PutBlock& block : transaction.blocks) {
    const auto kind = kind_index(block.kind);
    if (!kind)
      return fail(Errc::invalid, fmt::format("put: this cache has no kind {}", block.kind));
    const CachedKind& cached = options_.kinds[*kind];
    if (block.index >= transaction.position) {
      return fail(Errc::invalid, fmt::format("put: block {} lies behind position {}", block.index,
                                             transaction.position));
    }
    if (cached.kind.reach == Reach::last && block.index + 1 != transaction.position) {
      return fail(
          Errc::invalid,
          fmt::format("put: kind {} is taken at position {}: its index is {}, not {}", block.kind,
                      transaction.position, transaction.position - 1, block.index));
    }
    if (!seen.emplace(block.kind, block.index).second) {
      return fail(Errc::invalid,
                  fmt::format("put: block {} of kind {} twice", block.index, block.kind));
    }
    TIERCEL_TRY_VOID(check_memory("put", block.index, block.source,
                                  cached.block_bytes(chain.tokens_in(block.index))));
  }
  return {};
}

// The id of a block, made if it is new, and of every block before it; a reference is held for each one returned.
BlockId CacheImpl::intern(const Chain& chain, std::size_t kind, std::uint32_t block,
                          std::vector<BlockId>& references) {
  if (kind == primary_) return intern_primary(chain, block, references);
  return make_block(chain, kind, block, intern_primary(chain, block, references), references);
}

// A known block knows its ancestors, so only what lies behind the deepest known one is made.
BlockId CacheImpl::intern_primary(const Chain& chain, std::uint32_t block,
                                  std::vector<BlockId>& references) {
  std::uint32_t first = block;
  while (first > 0 && core_->table().find(chain.key(primary_, first - 1)) == kNoBlock) --first;
  BlockId id = first == 0 ? kNoBlock : core_->table().find(chain.key(primary_, first - 1));
  for (std::uint32_t i = first; i <= block; ++i)
    id = make_block(chain, primary_, i, id, references);
  return id;
}

BlockId CacheImpl::make_block(const Chain& chain, std::size_t kind, std::uint32_t block,
                              BlockId parent, std::vector<BlockId>& references) {
  const std::uint32_t tokens = chain.tokens_in(block);
  const std::uint64_t payload = options_.kinds[kind].block_bytes(tokens);
  const BlockId id =
      core_->table().intern(chain.key(kind, block), parent, payload, record_bytes(payload));
  references.push_back(id);
  if (id >= names_.size()) names_.resize(core_->table().id_limit());
  names_[id] = {.kind = kind, .token_count = tokens, .prefix = chain.prefix(block)};
  Block& entry = core_->table()[id];
  entry.payload_bytes = payload;  // A restart may have left nothing but the name.
  entry.record_bytes = record_bytes(payload);
  entry.stands_alone = primary_stands_alone_ && kind == primary_;
  return id;
}

Result<Ticket> CacheImpl::put(const Chain& chain, const Txn& transaction, OnFinished on_finished) {
  TIERCEL_TRY_VOID(check_chain(chain));
  TIERCEL_TRY_VOID(check_put(chain, transaction));
  // Head first, parents before their children.
  std::vector<const PutBlock*> order;
  for (const PutBlock& block : transaction.blocks) order.push_back(&block);
  const std::uint16_t primary_id = options_.kinds[primary_].kind.id;
  std::ranges::stable_sort(order, {}, [primary_id](const PutBlock* block) {
    return std::pair(block->index, block->kind != primary_id);
  });

  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  std::vector<BlockId> references, ids;
  for (const PutBlock* block : order)
    ids.push_back(intern(chain, *kind_index(block->kind), block->index, references));
  const std::uint64_t skipped_space = core_->counts().skipped_space;
  const std::size_t decided = core_->outbox().actions().size();
  const auto put = core_->put(ids);
  ++stats_.puts;

  const bool under_way = put && put->put != 0;
  const Ticket ticket = new_ticket(true, 0, std::move(on_finished));
  if (under_way) tickets_by_put_.emplace(put->put, ticket);
  Pending& pending = pending_[ticket];
  const auto& actions = core_->outbox().actions();
  for (std::size_t i = decided; i < actions.size(); ++i) {
    if (actions[i].type != ActionType::store || actions[i].from != TierId::caller)
      continue;  // Drops that made room.
    const auto at =
        static_cast<std::size_t>(std::ranges::find(ids, actions[i].block) - ids.begin());
    put_sources_[actions[i].op] = {.ticket = ticket, .memory = order[at]->source};
  }
  count_hints(transaction.hints);
  if (transaction.hints.ends_from) {
    pending.ended = ended_tail(chain, *transaction.hints.ends_from);
    for (const BlockId id : pending.ended) core_->table().retain(id);
    core_->end_prompt(pending.ended);
  }
  if (!put) {
    pending.finished.put = PutOutcome::skipped;
    pending.finished.error =
        core_->counts().skipped_space > skipped_space
            ? fail(Errc::no_space,
                   "put: all of warm, or a block that proved bad, is leased or under way")
            : fail(Errc::no_space, "put: staging is full");
  } else {
    stats_.known_blocks += ids.size() - put->ops.size();
    if (!under_way) pending.finished.put = PutOutcome::known;
  }
  if (!under_way) finish(ticket);
  for (const BlockId id : references) core_->table().release(id);
  work_.notify_one();
  return ticket;
}

// What the chain holds behind `position`, deepest first, up to where another prompt goes its own way. A position is shared
// where its primary block has a child that is neither the chain's next block nor another kind's of the same position.
std::vector<BlockId> CacheImpl::ended_tail(const Chain& chain, std::uint32_t position) {
  const BlockTable& table = core_->table();
  std::vector<BlockId> tail;
  for (std::uint32_t i = chain.size(); i-- > position;) {
    const BlockId primary = table.find(chain.key(primary_, i));
    if (primary == kNoBlock) continue;
    std::uint32_t own_children = 0;
    if (i + 1 < chain.size() && table.find(chain.key(primary_, i + 1)) != kNoBlock) ++own_children;
    std::vector<BlockId> others;
    for (std::size_t kind = 0; kind < options_.kinds.size(); ++kind) {
      const BlockId id = kind == primary_ ? kNoBlock : table.find(chain.key(kind, i));
      if (id != kNoBlock) others.push_back(id);
    }
    if (table[primary].children > own_children + others.size()) break;
    tail.insert(tail.end(), others.begin(), others.end());
    tail.push_back(primary);
  }
  return tail;
}

void CacheImpl::count_hints(const Hints& hints) {
  if (hints.ends_from) ++stats_.hints_ended;
  if (hints.ttl) ++stats_.hints_ttl_unused;
  if (hints.will_return) ++stats_.hints_will_return_unused;
}

Result<void> CacheImpl::hint(const Chain& chain, const Hints& hints) {
  TIERCEL_TRY_VOID(check_chain(chain));
  if (hints.ends_from && *hints.ends_from > chain.size()) {
    return fail(Errc::invalid, fmt::format("hint: ends_from {} of a chain of {} blocks",
                                           *hints.ends_from, chain.size()));
  }
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  count_hints(hints);
  if (hints.ends_from) core_->end_prompt(ended_tail(chain, *hints.ends_from));
  return {};
}

}  // namespace tiercel
