// What callers ask of a cache, apart from put(): chains, matches, fetches, tickets.
#include <fmt/format.h>

#include <algorithm>

#include "cache/cache_impl.h"
#include "kv/chain.h"

namespace tiercel {
namespace {

// Blocks of fetches under way at most: what a caller hands in is remembered until it ends.
constexpr std::uint64_t kRequestsMax = 1 << 16;
// A wait looks up so often even if nobody woke it.
constexpr std::chrono::milliseconds kLook{100};

// Waits are bounded by steady time, whatever a caller asks for.
std::chrono::steady_clock::time_point deadline_of(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24);
  return std::chrono::steady_clock::now() +
         std::clamp(timeout, std::chrono::nanoseconds(0), longest);
}

std::chrono::nanoseconds look_within(std::chrono::steady_clock::time_point deadline) {
  return std::min<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), kLook);
}

}  // namespace

Chain CacheImpl::chain(std::span<const std::uint32_t> tokens) const {
  Chain chain;
  chain.block_tokens_ = options_.block_tokens;
  chain.prefixes_ = make_chain(options_.tenant_salt, options_.block_tokens, tokens);
  if (!tokens.empty())
    chain.last_tokens_ =
        static_cast<std::uint32_t>((tokens.size() - 1) % options_.block_tokens + 1);
  for (const CachedKind& cached : options_.kinds) {
    for (const PrefixHash& prefix : chain.prefixes_) {
      chain.keys_.push_back(make_key(prefix, cached.fingerprint, cached.kind));
    }
  }
  return chain;
}

Chain CacheImpl::chain(std::span<const std::span<const std::byte>> block_hashes,
                       std::uint32_t tokens_in_last) const {
  Chain chain;
  chain.block_tokens_ = options_.block_tokens;
  chain.last_tokens_ = std::clamp(tokens_in_last, 1U, options_.block_tokens);
  std::optional<PrefixHash> parent;
  for (std::size_t i = 0; i < block_hashes.size(); ++i) {
    const std::uint32_t count =
        i + 1 == block_hashes.size() ? chain.last_tokens_ : options_.block_tokens;
    parent = make_prefix_hash(options_.tenant_salt, parent, count, ChainContent::engine_hash,
                              block_hashes[i]);
    chain.prefixes_.push_back(*parent);
  }
  for (const CachedKind& cached : options_.kinds) {
    for (const PrefixHash& prefix : chain.prefixes_) {
      chain.keys_.push_back(make_key(prefix, cached.fingerprint, cached.kind));
    }
  }
  return chain;
}

ChainShape CacheImpl::shape_of(const Chain& chain) const {
  return {.block_count = chain.size(),
          .block_tokens = chain.block_tokens_,
          .last_tokens = chain.last_tokens_};
}

Result<void> CacheImpl::check_chain(const Chain& chain) const {
  const bool ours = chain.keys_.size() == options_.kinds.size() * chain.size() &&
                    (chain.size() == 0 || chain.block_tokens_ == options_.block_tokens);
  if (!ours) return fail(Errc::invalid, "chain: made by a cache of other kinds or block_tokens");
  return {};
}

Result<void> CacheImpl::check_memory(const char* call, std::uint32_t block,
                                     const ScatterList& memory, std::uint64_t bytes) {
  std::uint64_t left = bytes;
  for (const Piece& piece : memory) {
    if (piece.kind != MemoryKind::host || (piece.pointer == nullptr && piece.bytes > 0)) {
      return fail(Errc::invalid,
                  fmt::format("{}: block {}: a piece that is no host memory", call, block));
    }
    if (piece.bytes > left) {  // Subtracted, so that no sum of lengths can overflow.
      return fail(Errc::invalid,
                  fmt::format("{}: block {} has {} bytes, its pieces more", call, block, bytes));
    }
    left -= piece.bytes;
  }
  if (left > 0) {
    return fail(Errc::invalid, fmt::format("{}: block {} has {} bytes, its pieces {}", call, block,
                                           bytes, bytes - left));
  }
  return {};
}

std::optional<std::size_t> CacheImpl::kind_index(std::uint16_t id) const {
  const auto found = std::ranges::find(options_.kinds, id,
                                       [](const CachedKind& cached) { return cached.kind.id; });
  if (found == options_.kinds.end()) return std::nullopt;
  return static_cast<std::size_t>(found - options_.kinds.begin());
}

Result<std::vector<std::size_t>> CacheImpl::kind_indices(std::span<const std::uint16_t> ids) const {
  std::vector<std::size_t> indices;
  for (const std::uint16_t id : ids) {
    const auto index = kind_index(id);
    if (!index) return fail(Errc::invalid, fmt::format("kinds: this cache has no kind {}", id));
    if (std::ranges::find(indices, *index) == indices.end()) indices.push_back(*index);
  }
  for (std::size_t i = 0; ids.empty() && i < options_.kinds.size(); ++i) indices.push_back(i);
  return indices;
}

Result<void> CacheImpl::begin_call() {
  if (closing_) return fail(Errc::cancelled, "the cache is closed");
  advance_time();
  return {};
}

void CacheImpl::advance_time() {
  const std::int64_t now_ns = clock_->now_ns();
  core_->advance(now_ns);
  unpin(leases_.expire(now_ns));
}

void CacheImpl::unpin(const std::vector<Pin>& pins) {
  for (const Pin& pin : pins) core_->unpin(pin);
}

Result<Match> CacheImpl::match(const Chain& chain, const MatchOptions& options) {
  TIERCEL_TRY_VOID(check_chain(chain));
  TIERCEL_TRY(const std::vector<std::size_t> indices, kind_indices(options.kinds));
  const std::chrono::nanoseconds lease_time = options.lease_time.value_or(options_.lease_time);
  if (lease_time.count() <= 0)
    return fail(Errc::invalid, "lease_time: there is no lease without a time");
  std::vector<Kind> kinds;
  for (const std::size_t index : indices) kinds.push_back(options_.kinds[index].kind);
  const ChainShape shape = shape_of(chain);

  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  Core& core = *core_;
  Match match;
  match.position_ = match_position(kinds, shape, [&](std::size_t kind, std::uint32_t block) {
    const BlockId id = core.table().find(chain.key(indices[kind], block));
    return id != kNoBlock && core.fastest_tier(id) != TierId::none;
  });
  match.tokens_ = chain.tokens_before(match.position_);
  std::vector<Pin> pins;
  for (std::uint32_t block = 0; block < match.position_; ++block) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (block < first_needed(kinds[i], shape, match.position_)) continue;
      const Key& key = chain.key(indices[i], block);
      pins.push_back(core.pin(core.table().find(key)));
      const bool warm = pins.back().tier == TierId::warm;
      ++(warm ? stats_.warm : stats_.cold).hits;
      match.blocks_.push_back(
          {.kind = kinds[i].id,
           .index = block,
           .token_count = chain.tokens_in(block),
           .bytes = options_.kinds[indices[i]].block_bytes(chain.tokens_in(block)),
           .tier = warm ? CacheTier::warm : CacheTier::cold,
           .key = key});
    }
  }
  ++stats_.matches;
  stats_.missed_blocks += chain.size() - match.position_;
  if (!pins.empty()) {
    const std::int64_t now_ns = clock_->now_ns();
    LeaseOwner owner = process_;
    owner.name = options.owner;
    match.lease_ =
        leases_.take(std::move(owner), now_ns, now_ns + lease_time.count(), std::move(pins));
    match.cache_ = weak_from_this();
  }
  return match;
}

void CacheImpl::release(LeaseId lease) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  unpin(leases_.release(lease));
}

Ticket CacheImpl::new_ticket(bool is_put, std::uint32_t left, OnFinished on_finished) {
  const Ticket ticket = next_ticket_++;
  Pending& pending = pending_[ticket];
  pending.finished.ticket = ticket;
  pending.is_put = is_put;
  pending.left = left;
  pending.on_finished = std::move(on_finished);
  if (is_put) open_puts_.insert(ticket);
  return ticket;
}

Result<Ticket> CacheImpl::fetch(const Match& match, std::span<const Destination> destinations,
                                OnFinished on_finished) {
  for (const Destination& destination : destinations) {
    if (destination.block >= match.blocks_.size()) {
      return fail(Errc::invalid, fmt::format("fetch: block {} of a match of {}", destination.block,
                                             match.blocks_.size()));
    }
    TIERCEL_TRY_VOID(check_memory("fetch", destination.block, destination.memory,
                                  match.blocks_[destination.block].bytes));
  }
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  if (requests_open_ + destinations.size() > kRequestsMax) {
    return fail(Errc::busy, fmt::format("fetch: {} blocks are under way, at most {} may be",
                                        requests_open_, kRequestsMax));
  }
  const Ticket ticket =
      new_ticket(false, static_cast<std::uint32_t>(destinations.size()), std::move(on_finished));
  pending_[ticket].finished.blocks.resize(destinations.size());
  std::uint32_t slot = 0;
  for (const Destination& destination : destinations) {
    const Key& key = match.blocks_[destination.block].key;
    const BlockId id = core_->table().find(key);
    Request request{.ticket = ticket, .slot = slot++, .block = id, .memory = destination.memory};
    ++requests_open_;
    if (id != kNoBlock) core_->table().retain(id);
    if (id == kNoBlock || !core_->fetch(id)) {
      end_request(request, Outcome::miss, {});
    } else {
      requests_[id].push_back(std::move(request));
    }
  }
  if (destinations.empty()) finish(ticket);
  work_.notify_one();
  return ticket;
}

Result<std::optional<Finished>> CacheImpl::poll(Ticket ticket) {
  const MutexLock lock(mutex_);
  const auto found = pending_.find(ticket);
  if (found == pending_.end() || found->second.on_finished) {
    return fail(Errc::invalid, fmt::format("ticket {}: unknown, or its result was taken", ticket));
  }
  if (!found->second.done) return std::optional<Finished>();
  std::optional<Finished> finished = std::move(found->second.finished);
  pending_.erase(found);
  return finished;
}

Result<Finished> CacheImpl::wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  const auto deadline = deadline_of(timeout);
  for (;;) {
    TIERCEL_TRY(std::optional<Finished> finished, poll(ticket));
    if (finished) return std::move(*finished);
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::busy, fmt::format("ticket {}: not finished in time", ticket));
    }
    const MutexLock lock(mutex_);
    const auto found = pending_.find(ticket);
    if (found != pending_.end() && !found->second.done)
      finished_.wait_for(mutex_, look_within(deadline));
  }
}

void CacheImpl::cancel(Ticket ticket) {
  const MutexLock lock(mutex_);
  const auto found = pending_.find(ticket);
  if (found == pending_.end() || found->second.done || closed_) return;
  found->second.cancelled = true;  // Of a put: seen when its blocks would be copied.
  std::vector<Request> taken_back;
  for (auto& [block, waiting] : requests_) {
    std::erase_if(waiting, [&](Request& request) {
      if (request.ticket != ticket) return false;
      taken_back.push_back(std::move(request));
      return true;
    });
  }
  const Error error = fail(Errc::cancelled, "taken back before it began");
  for (const Request& request : taken_back) end_request(request, Outcome::error, error);
}

Result<void> CacheImpl::sync(std::chrono::nanoseconds timeout) {
  const auto deadline = deadline_of(timeout);
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  if (!plan_.has_cold) return {};
  const auto sync = syncs_.insert(syncs_.end(), SyncWait{.puts_before = next_ticket_});
  work_.notify_one();
  while (sync->stage != SyncWait::Stage::done && std::chrono::steady_clock::now() < deadline) {
    finished_.wait_for(mutex_, look_within(deadline));
  }
  const bool done = sync->stage == SyncWait::Stage::done;
  const std::optional<Error> error = sync->error;
  syncs_.erase(sync);
  if (!done) return fail(Errc::busy, "sync: not durable in time");
  if (error) return *error;
  return {};
}

Result<std::uint32_t> CacheImpl::prefetch(const Chain& chain) {
  TIERCEL_TRY(const Match match, this->match(chain, {}));
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  std::uint32_t count = 0;
  for (const MatchedBlock& block : match.blocks_) {
    const BlockId id = core_->table().find(block.key);
    if (block.tier == CacheTier::cold && id != kNoBlock && core_->prefetch(id)) ++count;
  }
  work_.notify_one();
  return count;
}

CacheStats CacheImpl::stats() const {
  const MutexLock lock(mutex_);
  CacheStats stats = stats_;
  if (closed_) return stats;
  const auto add_tier = [](const Tier& tier, TierReport& report) {
    const TierStats counted = tier.stats();
    report.bytes_read = counted.bytes_read;
    report.bytes_written = counted.bytes_written;
    report.errors = counted.errors;
    report.corrupt = counted.corrupt;
    report.link = tier.link();
  };
  stats.warm.capacity_bytes = core_->warm().capacity_bytes();
  stats.warm.used_bytes = core_->warm().used_bytes();
  add_tier(*warm_, stats.warm);
  if (cold_) {
    stats.cold.capacity_bytes = options_.cold_bytes;
    stats.cold.used_bytes = core_->cold()->physical_bytes();
    add_tier(*cold_, stats.cold);
    const ColdLog::Counts& counts = core_->cold()->counts();
    stats.cold_stored_blocks = counts.stored;
    stats.cold_evicted_blocks = counts.evicted;
    stats.commits = counts.commits;
  }
  const CoreCounts& counts = core_->counts();
  stats.skipped_staging = counts.skipped_staging;
  stats.skipped_space = counts.skipped_space;
  stats.skipped_parent = counts.skipped_parent;
  stats.skipped_failed = counts.skipped_failed;
  stats.leases = leases_.held();
  stats.leases_leaked = leases_.leaked();
  stats.leaked = leases_.leaked_names();
  return stats;
}

}  // namespace tiercel
