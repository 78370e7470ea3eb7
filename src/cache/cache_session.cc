// Sessions, the way to bed: which blocks one needs, where each is taken from, and who ends those whose time is over.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>

#include "cache/cache_impl.h"
#include "cache/session_export.h"

namespace tiercel {
namespace {

// Blocks of cold that are brought to warm ahead of the one that is being copied.
constexpr std::uint32_t kAhead = 16;
constexpr std::chrono::nanoseconds kTimeoutMax = std::chrono::hours(24);

std::string block_name(std::uint32_t index, const Kind& kind) {
  return fmt::format("block {} of kind {}", index, kind.id);
}

// Beyond all time is never.
std::int64_t end_of(std::chrono::seconds ttl, std::int64_t now_unix_s) {
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  return ttl.count() > last - std::max<std::int64_t>(now_unix_s, 0) ? 0 : now_unix_s + ttl.count();
}

void gather(const ScatterList& source, std::span<std::byte> payload) {
  for (const Piece& piece : source) {
    std::copy_n(piece.pointer, piece.bytes, payload.begin());
    payload = payload.subspan(piece.bytes);
  }
}

}  // namespace

// --- Calls and their time ---

CacheImpl::SessionCall::~SessionCall() {
  if (cache_ == nullptr) return;
  const MutexLock lock(cache_->mutex_);
  --cache_->session_calls_;
  cache_->finished_.notify_all();
}

Result<CacheImpl::SessionCall> CacheImpl::begin_session_call() {
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  if (!session_store_) {
    return fail(Errc::invalid,
                "sessions: this cache has no share for them; set session_bytes, a part of "
                "cold_bytes");
  }
  ++session_calls_;
  return SessionCall(this);
}

std::int64_t CacheImpl::session_deadline_ns(std::chrono::nanoseconds timeout) const {
  return session_clock_->now_ns() +
         std::clamp(timeout, std::chrono::nanoseconds(0), kTimeoutMax).count();
}

std::chrono::nanoseconds CacheImpl::time_left(std::int64_t deadline_ns) const {
  return std::chrono::nanoseconds(
      std::max<std::int64_t>(deadline_ns - session_clock_->now_ns(), 0));
}

// Looks once in a while; a call looks too, so that none meets a session whose time is over.
void CacheImpl::keep_sessions() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (!closing_) keeper_wakes_.wait_for(mutex_, expire_every_);
      if (closing_) return;
    }
    expire_sessions();
  }
}

void CacheImpl::expire_sessions() {
  const auto expired = session_store_->expire(unix_time_s_());
  if (expired || expired.error().code == Errc::busy) return;  // Busy: soon again.
  const std::string sentence = fmt::format("sessions whose ttl is over: {}", expired.error().what);
  const MutexLock lock(mutex_);
  if (std::ranges::find(stats_.notes, sentence) == stats_.notes.end()) note(sentence);
}

// --- What a session needs ---

Result<std::vector<CacheImpl::NeededBlock>> CacheImpl::needed_blocks(
    const Chain& chain, const Suspension& suspension) const {
  const std::uint32_t position = suspension.position;
  if (position > chain.size()) {
    return fail(Errc::invalid, fmt::format("suspend: position {} of a chain of {} blocks", position,
                                           chain.size()));
  }
  std::map<std::pair<std::size_t, std::uint32_t>, const ScatterList*> sources;
  for (const PutBlock& block : suspension.blocks) {
    const auto kind = kind_index(block.kind);
    if (!kind)
      return fail(Errc::invalid, fmt::format("suspend: this cache has no kind {}", block.kind));
    if (block.index >= position)
      return fail(Errc::invalid,
                  fmt::format("suspend: block {} lies behind position {}", block.index, position));
    TIERCEL_TRY_VOID(check_memory("suspend", block.index, block.source,
                                  options_.kinds[*kind].block_bytes(chain.tokens_in(block.index))));
    if (!sources.emplace(std::pair(*kind, block.index), &block.source).second)
      return fail(Errc::invalid,
                  fmt::format("suspend: block {} of kind {} twice", block.index, block.kind));
  }
  std::vector<NeededBlock> needed;
  for (std::uint32_t index = 0; index < position; ++index) {
    for (std::size_t kind = 0; kind < options_.kinds.size(); ++kind) {
      if (index < first_needed(options_.kinds[kind].kind, shape_of(chain), position)) continue;
      const auto source = sources.find({kind, index});
      needed.push_back({.kind = kind,
                        .index = index,
                        .source = source == sources.end() ? nullptr : source->second,
                        .in_match = {}});
    }
  }
  return needed;
}

// As it stands in the block's record, in every tier.
SessionSource CacheImpl::session_source(const Chain& chain, const NeededBlock& block) const {
  const CachedKind& cached = options_.kinds[block.kind];
  SessionSource source{.head = {}, .index = block.index, .bytes = 0};
  source.bytes = cached.block_bytes(chain.tokens_in(block.index));
  source.head.key = chain.key(block.kind, block.index);
  source.head.fingerprint = cached.fingerprint;
  source.head.prefix = chain.prefix(block.index);
  source.head.kind = cached.kind;
  source.head.token_count = chain.tokens_in(block.index);
  if (block.kind != primary_) {
    source.head.parent = chain.key(primary_, block.index);
  } else if (block.index > 0) {
    source.head.parent = chain.key(primary_, block.index - 1);
  }
  return source;
}

// A lease on what neither a source nor another session gives. Errors: invalid  it is nowhere.
Result<Match> CacheImpl::lease_needed(const Chain& chain, const std::string& name,
                                      std::vector<NeededBlock>& needed,
                                      std::chrono::nanoseconds lease_time) {
  Match match;
  std::vector<Pin> pins;
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  for (NeededBlock& block : needed) {
    const Key& key = chain.key(block.kind, block.index);
    if (block.source != nullptr || session_store_->holds(key)) continue;
    const CachedKind& cached = options_.kinds[block.kind];
    const BlockId id = core_->table().find(key);
    if (id == kNoBlock || core_->fastest_tier(id) == TierId::none) {
      unpin(pins);
      return fail(Errc::invalid,
                  fmt::format("suspend: {} is nowhere: not among the sources, in no session, and "
                              "not in the cache any more",
                              block_name(block.index, cached.kind)));
    }
    pins.push_back(core_->pin(id));
    block.in_match = static_cast<std::uint32_t>(match.blocks_.size());
    match.blocks_.push_back({.kind = cached.kind.id,
                             .index = block.index,
                             .token_count = chain.tokens_in(block.index),
                             .bytes = cached.block_bytes(chain.tokens_in(block.index)),
                             .key = key});
  }
  if (pins.empty()) return match;
  LeaseOwner owner = process_;
  owner.name = "suspend " + name;
  lease(match, std::move(owner), lease_time + std::chrono::nanoseconds(1), std::move(pins));
  return match;
}

Result<SessionInfo> CacheImpl::suspend(const std::string& name, const Chain& chain,
                                       const Suspension& suspension,
                                       std::chrono::nanoseconds timeout) {
  TIERCEL_TRY_VOID(check_session_name(name));
  TIERCEL_TRY_VOID(check_chain(chain));
  if (suspension.ttl && suspension.ttl->count() <= 0) {
    return fail(Errc::invalid, fmt::format("suspend: a ttl of {} s; leave it out where the session "
                                           "is to stay until it is forgotten",
                                           suspension.ttl->count()));
  }
  TIERCEL_TRY(std::vector<NeededBlock> needed, needed_blocks(chain, suspension));
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  const std::int64_t deadline_ns = session_deadline_ns(timeout);
  expire_sessions();
  TIERCEL_TRY(const Match match, lease_needed(chain, name, needed, std::min(timeout, kTimeoutMax)));
  SessionDraft draft{.name = name,
                     .block_tokens = options_.block_tokens,
                     .position = suspension.position,
                     .token_count = chain.tokens_before(suspension.position),
                     .tokens = suspension.tokens,
                     .state = suspension.state,
                     .now_unix_s = unix_time_s_()};
  if (suspension.ttl) draft.expires_unix_s = end_of(*suspension.ttl, draft.now_unix_s);
  for (const NeededBlock& block : needed) draft.blocks.push_back(session_source(chain, block));
  draft.read = [&](std::size_t i, std::span<std::byte> payload) -> Result<void> {
    const NeededBlock& block = needed[i];
    if (block.source != nullptr) {
      gather(*block.source, payload);
      return {};
    }
    if (block.in_match) return fetch_needed(match, *block.in_match, payload, deadline_ns);
    return fail(Errc::busy, fmt::format("suspend: {} was in a session that has gone meanwhile",
                                        block_name(block.index, options_.kinds[block.kind].kind)));
  };
  TIERCEL_TRY(const SessionManifest manifest, session_store_->suspend(draft, deadline_ns));
  return info_of(manifest);
}

Result<void> CacheImpl::fetch_needed(const Match& match, std::uint32_t block,
                                     std::span<std::byte> payload, std::int64_t deadline_ns) {
  {
    const MutexLock lock(mutex_);
    TIERCEL_TRY_VOID(begin_call());
    for (std::uint32_t i = block; i < std::min<std::size_t>(block + kAhead, match.blocks_.size());
         ++i) {
      const BlockId id = core_->table().find(match.blocks_[i].key);
      if (id != kNoBlock) core_->prefetch(id);
    }
  }
  const Destination destination{.block = block, .memory = {host_piece(payload)}};
  TIERCEL_TRY(const Finished finished,
              fetch_within(match, std::span(&destination, 1), deadline_ns));
  const BlockOutcome& outcome = finished.blocks[0];
  if (outcome.outcome == Outcome::delivered) return {};
  const MatchedBlock& what = match.blocks_[block];
  return fail(Errc::invalid,
              fmt::format("suspend: {} could not be had from the cache: {}",
                          block_name(what.index, {.id = what.kind}),
                          outcome.outcome == Outcome::miss ? "it is not there any more"
                                                           : outcome.error.what));
}

// Ends once the memory is the caller's again, soon after the deadline at the latest; but for a tier that does not answer: io with
// os_errno ETIMEDOUT, and the memory may still be written to.
Result<Finished> CacheImpl::fetch_within(const Match& match,
                                         std::span<const Destination> destinations,
                                         std::int64_t deadline_ns) {
  TIERCEL_TRY(const Ticket ticket, fetch(match, destinations, {}));
  auto finished = wait(ticket, time_left(deadline_ns));
  if (finished || finished.error().code != Errc::busy) return finished;
  cancel(ticket);
  finished = wait(ticket, std::chrono::nanoseconds(2 * kAnswerWithin_ns));
  if (finished || finished.error().code != Errc::busy) return finished;
  return fail(Errc::io, "the cache gave no answer in time, and may still write to the memory",
              ETIMEDOUT);
}

Result<void> CacheImpl::forget(const std::string& name) {
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  return session_store_->forget(name);
}

Result<void> CacheImpl::export_session(const std::string& name, const std::string& path) {
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  TIERCEL_TRY(const SessionManifest manifest,
              tiercel::export_session(*session_store_, *disk_, name, path));
  return {};
}

Result<SessionInfo> CacheImpl::import_session(const std::string& path, const std::string& name) {
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  TIERCEL_TRY(const SessionManifest manifest,
              tiercel::import_session(*session_store_, *disk_, path, name, unix_time_s_()));
  return info_of(manifest);
}

}  // namespace tiercel
