#include "replay/store_fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/byte_size.h"
#include "base/check.h"
#include "cache/restore_index.h"
#include "cache/session_listing.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kWarmRecords = 64;
constexpr std::uint64_t kSegmentBytesWanted = 64 * kMiB;
constexpr std::size_t kUnderWayMax = 24;  // Ops on tiers, before the next prompt waits.
constexpr std::uint64_t kPromptsPerSuspend = 5;
constexpr std::uint64_t kSessionNames = 5;
constexpr std::uint64_t kSessionRecords = 20;  // Of one session, at most: blocks, tokens, state.
constexpr std::int64_t kPoll_ns = 10'000'000;
constexpr std::int64_t kSuspendWithin_ns = 60'000'000'000;
constexpr int kPollsMax = 6000;  // A minute of polls without an answer ends the workload.

// Put to bed once and never again, whatever the cache class does meanwhile.
constexpr const char* kKeptSession = "session-kept";

std::string session_name(std::uint64_t number) { return fmt::format("session-{}", number); }

}  // namespace

const char* fill_phase_name(FillPhase phase) {
  switch (phase) {
    case FillPhase::fill:
      return "fill";
    case FillPhase::reclaim:
      return "reclaim";
    case FillPhase::checkpoint:
      return "checkpoint";
    case FillPhase::suspend:
      return "suspend";
    case FillPhase::recover:
      return "recover";
  }
  return "?";
}

Result<FillLayout> FillLayout::of(const FillOptions& options) {
  if (options.block_bytes < FillNames::kBlockBytesMin) {
    return fail(Errc::invalid, fmt::format("--block {}: give at least {}", options.block_bytes,
                                           FillNames::kBlockBytesMin));
  }
  FillLayout layout;
  layout.record_bytes_max = record_bytes(options.block_bytes);
  // Sessions get a quarter, or what one session and its successor need, whichever is more.
  const std::uint64_t least = 2 * kSessionRecords * layout.record_bytes_max +
                              4 * segment_bytes_min(layout.record_bytes_max);
  layout.session_bytes = std::max(options.capacity_bytes / 4, least);
  if (options.capacity_bytes < 2 * least) {
    return fail(Errc::invalid, fmt::format("--cap {}: blocks of {} need at least {}",
                                           options.capacity_bytes, options.block_bytes, 2 * least));
  }
  layout.cache_bytes = options.capacity_bytes - layout.session_bytes;
  TIERCEL_TRY(
      const SegmentGeometry geometry,
      SegmentGeometry::fit(layout.cache_bytes, kSegmentBytesWanted, layout.record_bytes_max));
  layout.segment_bytes = geometry.segment_bytes;
  return layout;
}

NvmeOptions FillLayout::cold_options(const FillOptions& options) const {
  NvmeOptions nvme;
  nvme.geometry = {.capacity_bytes = cache_bytes,
                   .segment_bytes = segment_bytes,
                   .record_bytes_max = record_bytes_max};
  nvme.clock = options.clock;
  nvme.recovery_threads = options.recovery_threads;
  return nvme;
}

SessionStore::Options FillLayout::session_options(const FillOptions& options) const {
  return {.directory = session_directory(options.directory),
          .capacity_bytes = session_bytes,
          .segment_bytes = segment_bytes,
          .record_bytes_max = record_bytes_max,
          .clock = options.clock,
          .recovery_threads = options.recovery_threads};
}

StoreFill::StoreFill(Disk& disk, const FillOptions& options, FillListener& listener)
    : disk_(disk),
      options_(options),
      listener_(listener),
      names_(options.seed, options.block_bytes) {}

void StoreFill::enter(FillPhase phase) {
  if (phase_ == phase) return;
  phase_ = phase;
  listener_.on_phase(phase);
}

Result<std::unique_ptr<StoreFill>> StoreFill::open(Disk& disk, const FillOptions& options,
                                                   FillListener& listener) {
  std::unique_ptr<StoreFill> fill(new StoreFill(disk, options, listener));
  TIERCEL_TRY_VOID(fill->set_up());
  return fill;
}

Result<void> StoreFill::set_up() {
  TIERCEL_TRY(layout_, FillLayout::of(options_));
  enter(FillPhase::recover);
  const std::uint64_t warm_bytes = kWarmRecords * layout_.record_bytes_max;
  const std::uint64_t move_bytes = align_up(layout_.record_bytes_max, kArenaAlignment);
  TIERCEL_TRY(arena_, Arena::create({.bytes = warm_bytes + move_bytes}));
  TIERCEL_TRY(const std::span<std::byte> warm_memory, arena_->take(warm_bytes));
  TIERCEL_TRY(const std::span<std::byte> move_buffer, arena_->take(move_bytes));
  warm_ = std::make_unique<RamTier>(
      RamTierOptions{.memory = warm_memory, .arena = arena_.get(), .clock = options_.clock});
  TIERCEL_TRY(auto opened,
              NvmeTier::open(disk_, options_.directory, layout_.cold_options(options_)));
  cold_ = std::move(opened.tier);
  TIERCEL_TRY(sessions_, SessionStore::open(disk_, layout_.session_options(options_)));
  executor_ = std::make_unique<TierExecutor>(TierExecutor::Options{.warm = warm_.get(),
                                                                   .cold = cold_.get(),
                                                                   .warm_memory = warm_memory,
                                                                   .move_buffer = move_buffer,
                                                                   .clock = options_.clock,
                                                                   .rebuild = {},
                                                                   .checkpoints = false});
  core_ = std::make_unique<Core>(CoreOptions{
      .warm_bytes = warm_bytes,
      .cold = ColdLog::Options{.geometry = {.segment_bytes = cold_->superblock().segment_bytes,
                                            .segments_max = cold_->segment_count_max()},
                               .sync_bytes = layout_.segment_bytes / 2,
                               .sync_interval_ns = options_.sync_interval_ns,
                               .staging_bytes = warm_bytes / 2},
      .staging_bytes = warm_bytes / 2});
  core_->advance(options_.clock->now_ns());
  const RestoreHooks hooks{
      .payload_of = [this](const RecoveredRecord& record) -> std::optional<std::uint64_t> {
        if (record.fingerprint != names_.fingerprint()) return std::nullopt;
        return options_.block_bytes * record.token_count / FillNames::kBlockTokens;
      },
      .on_block =
          [this](BlockId id, const RecoveredRecord* record) {
            if (id >= heads_.size()) heads_.resize(core_->table().id_limit());
            if (record == nullptr) return;
            heads_[id] = {.key = record->key,
                          .fingerprint = record->fingerprint,
                          .prefix = record->prefix,
                          .parent = record->parent,
                          .kind = record->kind,
                          .token_count = record->token_count};
          }};
  restore_index(opened.recovered, hooks, *core_);
  source_.resize(options_.block_bytes);
  enter(FillPhase::fill);
  return find_next_prompt(opened.recovered);
}

// Behind the last prompt of which anything is left. Sessions tell about where that is: the search for it need not begin at 0.
Result<void> StoreFill::find_next_prompt(const Recovered& recovered) {
  std::unordered_set<Key> keys;
  for (const RecoveredSegment& segment : recovered.segments) {
    for (const RecoveredRecord& record : segment.records) keys.insert(record.key);
  }
  TIERCEL_TRY(const auto manifests, sessions_->list());
  for (const SessionManifest& manifest : manifests) {
    TIERCEL_TRY(const auto tokens, sessions_->read_tokens(manifest));
    if (tokens.size() < 2) continue;  // Not one of ours.
    const std::uint64_t prompt = tokens[0] | static_cast<std::uint64_t>(tokens[1]) << 32;
    next_prompt_ = std::max(next_prompt_, prompt + 1);
  }
  next_prompt_ =
      names_.end_of_prompts(next_prompt_, [&](const Key& key) { return keys.contains(key); });
  return {};
}

Result<void> StoreFill::step() {
  enter(FillPhase::fill);
  TIERCEL_TRY_VOID(put(names_.prompt(next_prompt_)));
  ++next_prompt_;
  if (next_prompt_ % kPromptsPerSuspend == 0) TIERCEL_TRY_VOID(suspend());
  return {};
}

Result<void> StoreFill::put(const std::vector<FillBlock>& blocks) {
  std::vector<BlockId> ids;
  BlockId parent = kNoBlock;
  for (const FillBlock& block : blocks) {
    parent = core_->table().intern(block.head.key, parent, block.bytes, record_bytes(block.bytes));
    if (parent >= heads_.size()) heads_.resize(core_->table().id_limit());
    heads_[parent] = block.head;
    ids.push_back(parent);
  }
  std::optional<StartedPut> started;
  Result<void> outcome;
  for (int polls = 0; outcome && !(started = core_->put(ids)); ++polls) {
    if (polls == kPollsMax) outcome = fail(Errc::io, "fill: no room in warm for a minute");
    if (outcome) outcome = pump(kPoll_ns);
  }
  for (int polls = 0; outcome && (polls == 0 || executor_->under_way() > kUnderWayMax); ++polls) {
    if (polls == kPollsMax) outcome = fail(Errc::io, "fill: the disk gave no answer for a minute");
    if (outcome) outcome = pump(kPoll_ns);
  }
  for (const BlockId id : ids) core_->table().release(id);
  return outcome;
}

Result<void> StoreFill::suspend() {
  enter(FillPhase::suspend);
  const std::uint64_t share =
      layout_.session_bytes / (2 * kSessionRecords * layout_.record_bytes_max);
  const std::uint64_t names = std::clamp<std::uint64_t>(share, 2, kSessionNames) - 1;
  const std::string name = sessions_->find(kKeptSession)
                               ? session_name(next_prompt_ / kPromptsPerSuspend % names)
                               : kKeptSession;
  std::uint64_t version = 1, prompt = next_prompt_ - 1;
  if (const auto before = sessions_->find(name)) {
    version = before->version + 1;
    TIERCEL_TRY(const auto tokens, sessions_->read_tokens(*before));
    // It has grown: the same prompt still.
    if (version % 2 == 0) prompt = tokens[0] | static_cast<std::uint64_t>(tokens[1]) << 32;
  }
  const FillSession session = names_.session(name, version, prompt);
  SessionDraft draft{.name = name,
                     .block_tokens = FillNames::kBlockTokens,
                     .position = session.position,
                     .token_count = session.token_count,
                     .tokens = session.tokens,
                     .state = session.state};
  for (const FillBlock& block : session.blocks)
    draft.blocks.push_back({.head = block.head, .index = block.index, .bytes = block.bytes});
  draft.read = [&](std::size_t i, std::span<std::byte> payload) -> Result<void> {
    names_.content().fill(session.blocks[i].head.key, payload);
    return {};
  };
  TIERCEL_TRY(const SessionManifest manifest,
              sessions_->suspend(draft, options_.clock->now_ns() + kSuspendWithin_ns));
  TIERCEL_CHECK(manifest.version == version);
  ++suspends_;
  listener_.on_suspended(name);
  enter(FillPhase::fill);
  return {};
}

Result<void> StoreFill::finish() {
  for (int polls = 0; polls < kPollsMax; ++polls) {
    const std::size_t before = core_->outbox().actions().size();
    core_->commit_now();
    note_commits(before);
    TIERCEL_TRY_VOID(pump(kPoll_ns));
    if (core_->idle() && !core_->anything_uncommitted()) return {};
  }
  return fail(Errc::io, "fill: the disk gave no answer for a minute");
}

// --- Between core and tiers ---

Result<void> StoreFill::pump(std::int64_t timeout_ns) {
  const std::size_t before = core_->outbox().actions().size();
  core_->advance(options_.clock->now_ns());
  note_commits(before);
  while (!core_->outbox().actions().empty()) {
    const std::vector<Action> actions = core_->outbox().actions();
    core_->outbox().clear();
    for (const Action& action : actions) begin(action);
    enter(FillPhase::fill);
  }
  done_.clear();
  executor_->collect(done_, timeout_ns);
  for (const TierDone& done : done_) TIERCEL_TRY_VOID(complete(done));
  return {};
}

void StoreFill::begin(const Action& action) {
  const bool reclaims = action.from == TierId::cold &&
                        (action.type == ActionType::drop || action.type == ActionType::move ||
                         action.type == ActionType::reclaim);
  enter(reclaims ? FillPhase::reclaim : FillPhase::fill);
  if (action.from == TierId::cold && action.type == ActionType::drop)
    listener_.on_evicting(action.key);
  TierWork work{.action = action};
  if (action.block != kNoBlock) {
    work.head = heads_[action.block];
    work.fingerprint = work.head.fingerprint;
  }
  if (action.from == TierId::caller) {  // The warm tier copies before it returns.
    const auto payload = std::span(source_).first(core_->table()[action.block].payload_bytes);
    names_.content().fill(action.key, payload);
    work.memory = {host_piece(std::span<const std::byte>(payload))};
  }
  executor_->begin(work);
}

Result<void> StoreFill::complete(const TierDone& done) {
  const std::size_t before = core_->outbox().actions().size();
  const Completed completed = core_->complete(done.op, done.outcome == Outcome::delivered);
  const Action& action = completed.action;
  if (done.outcome != Outcome::delivered) {
    return fail(done.error.code,
                fmt::format("fill: {} from {} to {}: {}", action_name(action.type),
                            tier_name(action.from), tier_name(action.to), done.error.what),
                done.error.os_errno);
  }
  if (action.type == ActionType::store && action.to == TierId::cold)
    written_.push_back(action.block);
  // Told before the next commit is looked at, which the core may have begun with the end of this one.
  std::vector<BlockId> durable;
  if (action.type == ActionType::commit) durable.swap(committing_);
  note_commits(before);
  for (const BlockId id : durable) {
    if (core_->table()[id].cold == Presence::present) listener_.on_synced(core_->table()[id].key);
  }
  if (action.type != ActionType::commit) return {};
  return checkpoint_if_due();
}

// A commit takes what was written before the core decided on it: that is at this point of the actions.
void StoreFill::note_commits(std::size_t first) {
  const std::vector<Action>& actions = core_->outbox().actions();
  for (std::size_t i = first; i < actions.size(); ++i) {
    if (actions[i].type != ActionType::commit) continue;
    TIERCEL_CHECK(committing_.empty());
    committing_.swap(written_);
  }
}

Result<void> StoreFill::checkpoint_if_due() {
  if (!cold_->checkpoint_due()) return {};
  enter(FillPhase::checkpoint);
  TIERCEL_TRY_VOID(executor_->checkpoint());
  ++checkpoints_;
  enter(FillPhase::fill);
  return {};
}

}  // namespace tiercel
