// Sessions, the way up: what there is, what it takes, and the blocks in prefix order.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "cache/cache_impl.h"

namespace tiercel {
namespace {

// Of loads: those from warm, which lie ready, and those from the session's disk; told in prefix order.
class Teller {
 public:
  Teller(std::span<const std::uint32_t> order, std::span<const Destination> destinations,
         Finished& finished, const OnBlock& on_block)
      : order_(order), destinations_(destinations), finished_(finished), on_block_(on_block) {
    ended_.resize(destinations.size());
  }

  void end(std::uint32_t slot, Outcome outcome, const Error& error) {
    finished_.blocks[slot] = {.outcome = outcome, .error = error};
    ended_[slot] = true;
    for (; told_ < order_.size() && ended_[order_[told_]]; ++told_) {
      if (!on_block_) continue;
      const std::uint32_t next = order_[told_];
      on_block_(destinations_[next].block, finished_.blocks[next].outcome,
                finished_.blocks[next].error);
    }
  }
  bool has_ended(std::uint32_t slot) const { return ended_[slot]; }

 private:
  const std::span<const std::uint32_t> order_;
  const std::span<const Destination> destinations_;
  Finished& finished_;
  const OnBlock& on_block_;
  std::vector<bool> ended_;
  std::size_t told_ = 0;
};

}  // namespace

SessionInfo CacheImpl::info_of(const SessionManifest& manifest) const {
  SessionInfo info{.name = manifest.name,
                   .version = manifest.version,
                   .created_unix_s = manifest.created_unix_s,
                   .updated_unix_s = manifest.updated_unix_s,
                   .expires_unix_s = {},
                   .block_tokens = manifest.block_tokens,
                   .position = manifest.position,
                   .token_count = manifest.token_count,
                   .blocks = manifest.blocks.size(),
                   .missing = session_store_->missing(manifest)};
  if (manifest.expires_unix_s != 0) info.expires_unix_s = manifest.expires_unix_s;
  for (const SessionBlock& block : manifest.blocks) info.bytes += block.bytes;
  for (const SessionPiece& piece : manifest.tokens) info.bytes += piece.bytes;
  for (const SessionPiece& piece : manifest.state) info.bytes += piece.bytes;
  return info;
}

Result<std::vector<SessionInfo>> CacheImpl::sessions() {
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  expire_sessions();
  TIERCEL_TRY(const auto manifests, session_store_->list());
  std::vector<SessionInfo> infos;
  for (const SessionManifest& manifest : manifests) infos.push_back(info_of(manifest));
  return infos;
}

Result<SessionManifest> CacheImpl::find_session(const std::string& name) {
  expire_sessions();
  TIERCEL_TRY(SessionManifest manifest, session_store_->find(name));
  if (manifest.expires_unix_s != 0 && manifest.expires_unix_s <= unix_time_s_())
    return fail(Errc::invalid, fmt::format("the ttl of session \"{}\" is over", name));
  return manifest;
}

// Errors: invalid  another model's; says in what.
Result<void> CacheImpl::check_session(const SessionManifest& manifest) const {
  const auto refuse = [&](const std::string& why) {
    return fail(Errc::invalid, fmt::format("session \"{}\" was suspended by another model: {}; it "
                                           "stays as it is",
                                           manifest.name, why));
  };
  if (manifest.block_tokens != options_.block_tokens)
    return refuse(fmt::format("its blocks have {} tokens, not {}", manifest.block_tokens,
                              options_.block_tokens));
  for (const SessionKind& kind : manifest.kinds) {
    const auto own = kind_index(kind.kind.id);
    if (!own || options_.kinds[*own].kind != kind.kind)
      return refuse(fmt::format("it has a kind {} that this cache has not", kind.kind.id));
    if (options_.kinds[*own].fingerprint != kind.fingerprint)
      return refuse(fmt::format("the fingerprint of kind {} is {}, not {}", kind.kind.id,
                                hex(kind.fingerprint), hex(options_.kinds[*own].fingerprint)));
  }
  for (const CachedKind& own : options_.kinds) {
    if (manifest.position > 0 &&
        std::ranges::find(manifest.kinds, own.kind, &SessionKind::kind) == manifest.kinds.end())
      return refuse(fmt::format("it has no blocks of kind {}", own.kind.id));
  }
  for (const SessionBlock& block : manifest.blocks) {
    const CachedKind& own = options_.kinds[*kind_index(manifest.kinds[block.kind].kind.id)];
    if (own.block_bytes(block.token_count) != block.bytes)
      return refuse(fmt::format("block {} of kind {} has {} bytes, not {}", block.index,
                                own.kind.id, block.bytes, own.block_bytes(block.token_count)));
  }
  return {};
}

Result<Resumption> CacheImpl::resume(const std::string& name, std::chrono::nanoseconds timeout) {
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  Resumption resumption;
  resumption.deadline_ns = session_deadline_ns(timeout);
  TIERCEL_TRY(const SessionManifest manifest, find_session(name));
  TIERCEL_TRY_VOID(check_session(manifest));
  TIERCEL_TRY(resumption.tokens, session_store_->read_tokens(manifest, resumption.deadline_ns));
  TIERCEL_TRY(resumption.state, session_store_->read_state(manifest, resumption.deadline_ns));
  resumption.info = info_of(manifest);
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  for (const SessionBlock& block : manifest.blocks) {
    const BlockId id = core_->table().find(block.key);
    const bool warm = id != kNoBlock && core_->fastest_tier(id) == TierId::warm;
    resumption.plan.push_back({.kind = manifest.kinds[block.kind].kind.id,
                               .index = block.index,
                               .token_count = block.token_count,
                               .bytes = block.bytes,
                               .tier = warm ? SessionTier::warm : SessionTier::session,
                               .key = block.key});
  }
  estimate(resumption);
  return resumption;
}

// From what the links did so far; a copy from warm counts only where its speed is known, for it is the small part.
void CacheImpl::estimate(Resumption& resumption) const {
  std::uint64_t from_session = 0, from_warm = 0;
  for (const PlannedBlock& block : resumption.plan)
    (block.tier == SessionTier::warm ? from_warm : from_session) += record_bytes(block.bytes);
  const LinkEstimate disk = session_store_->link(), memory = warm_->link();
  if (from_session > 0 && disk.read_bytes_per_s <= 0) {
    resumption.basis = "none: the disk of the sessions has not read enough yet to tell";
    return;
  }
  double seconds = 0;
  if (from_session > 0)
    seconds = disk.latency_s + static_cast<double>(from_session) / disk.read_bytes_per_s;
  if (from_warm > 0 && memory.read_bytes_per_s > 0)
    seconds += static_cast<double>(from_warm) / memory.read_bytes_per_s;
  resumption.estimate_s = seconds;
  resumption.basis = "measured";
}

// Those of the plan's `blocks` that lie in warm now, with a lease.
Match CacheImpl::match_warm(const Resumption& resumption, std::span<const std::uint32_t> blocks) {
  Match match;
  std::vector<Pin> pins;
  const MutexLock lock(mutex_);
  if (!begin_call()) return match;
  for (const std::uint32_t block : blocks) {
    const PlannedBlock& planned = resumption.plan[block];
    const BlockId id = core_->table().find(planned.key);
    if (id == kNoBlock || core_->fastest_tier(id) != TierId::warm) continue;
    if (core_->table()[id].payload_bytes != planned.bytes) continue;
    pins.push_back(core_->pin(id));
    match.blocks_.push_back({.kind = planned.kind,
                             .index = block,  // Of the plan.
                             .token_count = planned.token_count,
                             .bytes = planned.bytes,
                             .tier = CacheTier::warm,
                             .key = planned.key});
  }
  if (pins.empty()) return match;
  LeaseOwner owner = process_;
  owner.name = "load " + resumption.info.name;
  lease(match, std::move(owner), options_.lease_time, std::move(pins));
  return match;
}

Result<Finished> CacheImpl::load(const Resumption& resumption,
                                 std::span<const Destination> destinations,
                                 const OnBlock& on_block) {
  for (const Destination& destination : destinations) {
    if (destination.block >= resumption.plan.size())
      return fail(Errc::invalid, fmt::format("load: block {} of a plan of {}", destination.block,
                                             resumption.plan.size()));
    TIERCEL_TRY_VOID(check_memory("load", destination.block, destination.memory,
                                  resumption.plan[destination.block].bytes));
  }
  TIERCEL_TRY(const SessionCall call, begin_session_call());
  std::vector<std::uint32_t> order(destinations.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t slot) { return destinations[slot].block; });
  Finished finished;
  finished.blocks.resize(destinations.size());
  Teller teller(order, destinations, finished, on_block);

  // What lies in warm is there at once; what it does not give after all comes from the session.
  if (time_left(resumption.deadline_ns).count() > 0) {
    std::vector<std::uint32_t> blocks;
    for (const std::uint32_t slot : order) blocks.push_back(destinations[slot].block);
    const Match match = match_warm(resumption, blocks);
    std::vector<Destination> from_warm;
    std::vector<std::uint32_t> slots;
    for (const std::uint32_t slot : order) {
      if (slots.size() == match.blocks_.size()) break;
      if (match.blocks_[slots.size()].index != destinations[slot].block) continue;
      from_warm.push_back(
          {.block = static_cast<std::uint32_t>(slots.size()), .memory = destinations[slot].memory});
      slots.push_back(slot);
    }
    const auto fetched = from_warm.empty() ? Result<Finished>(Finished{})
                                           : fetch_within(match, from_warm, resumption.deadline_ns);
    for (std::size_t i = 0; fetched && i < fetched->blocks.size(); ++i) {
      if (fetched->blocks[i].outcome == Outcome::delivered)
        teller.end(slots[i], Outcome::delivered, {});
    }
    if (!fetched && fetched.error().os_errno == ETIMEDOUT) {
      for (const std::uint32_t slot : slots) teller.end(slot, Outcome::error, fetched.error());
    }
  }

  SessionManifest manifest{.name = resumption.info.name, .version = resumption.info.version};
  std::vector<std::size_t> which;
  std::vector<ScatterList> memory;
  std::vector<std::uint32_t> slots;
  for (const std::uint32_t slot : order) {
    if (teller.has_ended(slot)) continue;
    const PlannedBlock& planned = resumption.plan[destinations[slot].block];
    which.push_back(manifest.blocks.size());
    manifest.blocks.push_back({.key = planned.key,
                               .index = planned.index,
                               .token_count = planned.token_count,
                               .bytes = planned.bytes});
    memory.push_back(destinations[slot].memory);
    slots.push_back(slot);
  }
  if (slots.empty()) return finished;
  std::size_t told = 0;
  const auto read = session_store_->read(manifest, which, memory, resumption.deadline_ns,
                                         [&](std::size_t i, Outcome outcome, const Error& error) {
                                           teller.end(slots[i], outcome, error);
                                           told = i + 1;
                                         });
  for (; told < slots.size(); ++told) {  // The store was not to be had, or its disk is silent.
    const bool late = read.error().code == Errc::busy;
    teller.end(slots[told], Outcome::error,
               late ? fail(Errc::cancelled, read.error().what) : read.error());
  }
  return finished;
}

}  // namespace tiercel
