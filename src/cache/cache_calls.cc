// What callers ask of a cache: chains, matches, leases, reports.
#include <fmt/format.h>

#include <algorithm>

#include "cache/cache_impl.h"
#include "kv/chain.h"

namespace tiercel {

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
  LeaseOwner owner = options.owner_pid == 0 ? process_ : process_of(options.owner_pid);
  owner.name = options.owner;
  if (options.owner_pid != 0 && owner.process_start == 0) {
    return fail(Errc::invalid,
                fmt::format("owner_pid: the system tells nothing of a process {}, so "
                            "nobody would see its end; leave it out, and the lease "
                            "is this process's",
                            options.owner_pid));
  }

  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  Match match = search(chain, indices, kinds);
  ++stats_.matches;
  stats_.missed_blocks += chain.size() - match.position_;
  for (const MatchedBlock& block : match.blocks_)
    ++(block.tier == CacheTier::warm ? stats_.warm : stats_.cold).hits;
  if (match.blocks_.empty()) return match;
  const std::vector<BlockId> ids = ids_of(match);
  std::vector<Pin> pins;
  for (const BlockId id : ids) pins.push_back(core_->pin(id));
  core_->touch(ids);
  lease(match, std::move(owner), lease_time, std::move(pins));
  return match;
}

void CacheImpl::lease(Match& match, LeaseOwner owner, std::chrono::nanoseconds time,
                      std::vector<Pin> pins) {
  const std::int64_t now_ns = clock_->now_ns();
  match.lease_ = leases_.take(std::move(owner), now_ns, now_ns + time.count(), std::move(pins));
  match.cache_ = weak_from_this();
}

// What a match lists, without its lease.
Match CacheImpl::search(const Chain& chain, std::span<const std::size_t> indices,
                        std::span<const Kind> kinds) {
  const ChainShape shape = shape_of(chain);
  Core& core = *core_;
  Match match;
  match.position_ = match_position(kinds, shape, [&](std::size_t kind, std::uint32_t block) {
    const BlockId id = core.table().find(chain.key(indices[kind], block));
    return id != kNoBlock && core.fastest_tier(id) != TierId::none;
  });
  match.tokens_ = chain.tokens_before(match.position_);
  for (std::uint32_t block = 0; block < match.position_; ++block) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (block < first_needed(kinds[i], shape, match.position_)) continue;
      const Key& key = chain.key(indices[i], block);
      const bool warm = core.fastest_tier(core.table().find(key)) == TierId::warm;
      match.blocks_.push_back(
          {.kind = kinds[i].id,
           .index = block,
           .token_count = chain.tokens_in(block),
           .bytes = options_.kinds[indices[i]].block_bytes(chain.tokens_in(block)),
           .tier = warm ? CacheTier::warm : CacheTier::cold,
           .key = key});
    }
  }
  return match;
}

std::vector<BlockId> CacheImpl::ids_of(const Match& match) {
  std::vector<BlockId> ids;
  for (const MatchedBlock& block : match.blocks_) ids.push_back(core_->table().find(block.key));
  return ids;
}

void CacheImpl::release(LeaseId lease) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  unpin(leases_.release(lease));
}

Result<std::uint32_t> CacheImpl::prefetch(const Chain& chain) {
  TIERCEL_TRY_VOID(check_chain(chain));
  TIERCEL_TRY(const std::vector<std::size_t> indices, kind_indices({}));
  std::vector<Kind> kinds;
  for (const CachedKind& cached : options_.kinds) kinds.push_back(cached.kind);
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  const Match match = search(chain, indices, kinds);
  // Held, so that its tail does not push its head out.
  const std::vector<BlockId> ids = ids_of(match);
  std::vector<Pin> pins;
  for (const BlockId id : ids) pins.push_back(core_->pin(id));
  std::uint32_t count = 0;
  for (const BlockId id : ids) count += core_->prefetch(id) ? 1 : 0;
  core_->touch(ids);
  unpin(pins);
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
    stats.cold.capacity_bytes = plan_.cold_bytes;
    stats.cold.used_bytes = core_->cold()->physical_bytes();
    add_tier(*cold_, stats.cold);
    const TierStats counted = cold_->stats();
    stats.quarantined += counted.quarantined;
    stats.scrubbed_bytes = counted.scrubbed_bytes;
    const ColdLog::Counts& counts = core_->cold()->counts();
    stats.cold_stored_blocks = counts.stored;
    stats.cold_evicted_blocks = counts.evicted;
    stats.commits = counts.commits;
  }
  if (session_store_) {
    const SessionStoreStats counted = session_store_->stats();
    stats.sessions = counted.sessions;
    stats.session_bytes = counted.live_bytes;
    stats.session_capacity = counted.capacity_bytes;
    for (std::string& sentence : session_store_->notes())
      stats.notes.push_back(std::move(sentence));
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
