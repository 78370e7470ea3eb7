#include "replay/drive_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/checksum.h"
#include "kv/record.h"
#include "replay/process_memory.h"

namespace tiercel {

namespace {

// Nobody waits without a bound: a disk that gives no answer for so long is taken out of service.
constexpr std::int64_t kAnswerWithin_ns = 60'000'000'000;
constexpr std::int64_t kPoll_ns = 100'000'000;
// Tags of work that no op of the core stands for.
constexpr std::uint64_t kTagMove = 1ULL << 63;
constexpr std::uint64_t kTagNobody = (1ULL << 63) + 1;

}  // namespace

Result<std::unique_ptr<DriveExecutor>> DriveExecutor::open(Disk& disk, const Options& options) {
  std::unique_ptr<DriveExecutor> executor(new DriveExecutor(options));
  TIERCEL_TRY_VOID(executor->set_up(disk));
  return executor;
}

Result<void> DriveExecutor::set_up(Disk& disk) {
  const std::int64_t begin_ns = clock_.now_ns();
  const CoreOptions& core = options_.scaled.core;
  if (options_.scaled.payload_bytes % kRecordAlignment != 0) {
    return fail(Errc::invalid, fmt::format("a block of {} cannot be moved by direct I/O; drive it with --payload, "
                                           "in multiples of 4 KiB",
                                           exact_byte_size(options_.scaled.payload_bytes)));
  }
  const std::uint64_t warm_bytes = align_up(core.warm_bytes, kArenaAlignment);
  const std::uint64_t move_bytes = align_up(options_.scaled.record_bytes, kArenaAlignment);
  NvmeOptions cold_options;
  std::uint64_t staging_bytes = 0;
  if (core.cold) {
    cold_options.geometry = {.capacity_bytes = options_.scaled.cold_bytes,
                             .segment_bytes = core.cold->geometry.segment_bytes,
                             .record_bytes_max = options_.scaled.record_bytes};
    cold_options.start = StoreStart::empty;
    cold_options.clock = &clock_;
    cold_options.queue_ops_max = core.cold->staging_bytes / options_.scaled.record_bytes + 65536;
    staging_bytes = align_up(NvmeTier::staging_bytes(cold_options, cold_options.geometry), kArenaAlignment);
  }
  TIERCEL_TRY(arena_, Arena::create({.bytes = core.hot_bytes + warm_bytes + move_bytes + staging_bytes}));
  TIERCEL_TRY(hot_, arena_->take(core.hot_bytes));
  if (warm_bytes > 0) {
    TIERCEL_TRY(warm_memory_, arena_->take(warm_bytes));
    warm_ = std::make_unique<RamTier>(RamTierOptions{.memory = warm_memory_, .arena = arena_.get(), .clock = &clock_});
  }
  if (core.cold) {
    TIERCEL_TRY(move_buffer_, arena_->take(move_bytes));
    TIERCEL_TRY(cold_options.staging, arena_->take(staging_bytes));
    cold_options.arena = arena_.get();
    TIERCEL_TRY(auto opened, NvmeTier::open(disk, options_.store_directory, cold_options));
    cold_ = std::move(opened.tier);
    TIERCEL_CHECK(cold_->segment_count_max() >= core.cold->geometry.segments_max);
    notes_.push_back(fmt::format("cold I/O by {}", cold_->engine_name()));
    for (std::string& note : cold_->notes()) notes_.push_back(std::move(note));
  }
  notes_.push_back(fmt::format("arena of {} on {} pages{}{}", pretty_byte_size(arena_->bytes()),
                               page_kind_name(arena_->report().pages), arena_->report().reason.empty() ? "" : ": ",
                               arena_->report().reason));
  warm_up_s_ = static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
  return {};
}

std::span<std::byte> DriveExecutor::hot_block(const Place& place) { return hot_.subspan(place.offset, place.bytes); }

std::span<std::byte> DriveExecutor::warm_record(const Place& place) {
  return warm_memory_.subspan(place.offset, place.bytes);
}

// One page per load under way; they come back in finish().
std::span<std::byte> DriveExecutor::take_head() {
  if (free_heads_.empty()) {
    return heads_memory_.emplace_back(std::make_unique<HeadPage>())->bytes;
  }
  const std::span<std::byte> head = free_heads_.back();
  free_heads_.pop_back();
  return head;
}

Tier& DriveExecutor::tier_of(const Action& action) {
  const bool on_disk = action.from == TierId::cold || action.to == TierId::cold;
  return on_disk ? static_cast<Tier&>(*cold_) : static_cast<Tier&>(*warm_);
}

Result<void> DriveExecutor::submit(Tier& tier, Op op, std::uint64_t tag) {
  op.tag = tag;
  op.fingerprint = options_.fingerprint;
  const std::int64_t deadline_ns = clock_.now_ns() + kAnswerWithin_ns;
  for (;;) {
    const auto ticket = tier.submit(std::span(&op, 1));
    if (ticket) return {};
    if (ticket.error().code != Errc::busy || clock_.now_ns() > deadline_ns) return ticket.error();
    collect(tier, true);
  }
}

void DriveExecutor::collect(Tier& tier, bool block) {
  completions_.clear();
  if (block) {
    tier.wait(completions_, kPoll_ns);
  } else {
    tier.poll(completions_);
  }
  for (const Completion& completion : completions_) {
    const auto found = running_.find(completion.tag);
    if (completion.outcome != Outcome::delivered) {
      ++errors_;
      if (notes_.size() < 32) {
        notes_.push_back(fmt::format("{}: {}", tier.capabilities().name,
                                     completion.outcome == Outcome::miss ? "miss" : completion.error.what));
      }
    }
    if (found == running_.end()) continue;  // A seal or a reclaim.
    found->second.over = true;
    found->second.failed = completion.outcome != Outcome::delivered;
    found->second.end_ns = clock_.now_ns();
  }
}

Result<void> DriveExecutor::wait_for(Tier& tier, std::uint64_t tag) {
  const std::int64_t deadline_ns = clock_.now_ns() + kAnswerWithin_ns;
  const Running& running = running_.at(tag);
  collect(tier, false);
  while (!running.over) {
    if (clock_.now_ns() > deadline_ns) {
      return fail(Errc::io, fmt::format("{}: no answer for {} s; the tier is out of service", tier.capabilities().name,
                                        kAnswerWithin_ns / 1'000'000'000));
    }
    collect(tier, true);
  }
  return {};
}

Result<void> DriveExecutor::encode(const Action& action, std::span<const std::byte> block,
                                   std::span<std::byte> head) const {
  RecordHead record;
  record.key = action.key;
  record.fingerprint = options_.fingerprint;
  record.token_count = options_.block_tokens;
  record.chunks = {Chunk{.plain_bytes = block.size(), .stored_bytes = block.size(), .checksum = checksum64(block)}};
  return encode_head(record, head);
}

Result<void> DriveExecutor::begin(const Action& action) {
  if (action.op == 0) {
    if (action.type == ActionType::compute) content_.fill(action.key, hot_block(action.target));
    if (action.type == ActionType::seal || action.type == ActionType::reclaim) {
      const OpType type = action.type == ActionType::seal ? OpType::seal : OpType::reclaim;
      TIERCEL_TRY_VOID(submit(*cold_, {.type = type, .place = action.source}, kTagNobody));
    }
    digest_.add(action);
    return {};
  }
  running_[action.op] = Running{.begin_ns = clock_.now_ns(), .executed = action};
  switch (action.type) {
    case ActionType::store:
      if (action.to == TierId::warm) return begin_store_to_warm(action);
      return submit(*cold_,
                    {.type = OpType::store,
                     .key = action.key,
                     .place = action.target,
                     .memory = {host_piece(warm_record(action.source))}},
                    action.op);
    case ActionType::load:
      return begin_load(action);
    case ActionType::move:
      return begin_move(action);
    case ActionType::commit:
      return submit(*cold_, {.type = OpType::commit}, action.op);
    default:
      TIERCEL_CHECK(false);
  }
  return {};
}

Result<void> DriveExecutor::begin_store_to_warm(const Action& action) {
  const std::span<std::byte> block = hot_block(action.source);
  const std::span<std::byte> head = take_head();
  TIERCEL_TRY_VOID(encode(action, block, head));
  running_[action.op].head = head;
  return submit(*warm_,
                {.type = OpType::store,
                 .key = action.key,
                 .place = action.target,
                 .memory = {host_piece(head), host_piece(block)}},
                action.op);
}

Result<void> DriveExecutor::begin_load(const Action& action) {
  Running& running = running_[action.op];
  if (!really_loads(action)) {
    running.over = true;
    running.executed.op = 0;  // Nothing was executed: nothing enters the digest.
    return {};
  }
  running.executed.source = really_read_place(action);
  ScatterList memory;
  if (action.to == TierId::warm) {
    memory = {host_piece(warm_record(action.target))};
  } else {
    running.head = take_head();
    memory = {host_piece(running.head), host_piece(hot_block(action.target))};
  }
  return submit(tier_of(action),
                {.type = OpType::load, .key = action.key, .place = running.executed.source, .memory = memory},
                action.op);
}

// Read, then written in its turn: stores into a segment come with growing offsets, so the write cannot wait for the virtual
// completion.
Result<void> DriveExecutor::begin_move(const Action& action) {
  const ScatterList memory{host_piece(move_buffer_.first(action.source.bytes))};
  running_[kTagMove] = Running{};
  TIERCEL_TRY_VOID(submit(
      *cold_, {.type = OpType::load, .key = action.key, .place = action.source, .memory = memory}, kTagMove));
  TIERCEL_TRY_VOID(wait_for(*cold_, kTagMove));
  if (running_[kTagMove].failed) {
    const auto head = move_buffer_.first(kRecordAlignment);
    const auto block = move_buffer_.subspan(kRecordAlignment, options_.scaled.payload_bytes);
    content_.fill(action.key, block);
    TIERCEL_TRY_VOID(encode(action, block, head));
  }
  running_.erase(kTagMove);
  TIERCEL_TRY_VOID(submit(
      *cold_, {.type = OpType::store, .key = action.key, .place = action.target, .memory = memory}, action.op));
  return wait_for(*cold_, action.op);  // The buffer is used again by the next move.
}

// What the engine does about a load that failed.
Result<void> DriveExecutor::recompute(const Action& action) {
  if (action.to == TierId::hot) {
    content_.fill(action.key, hot_block(action.target));
    return {};
  }
  const std::span<std::byte> record = warm_record(action.target);
  const auto head = record.first(kRecordAlignment);
  const auto block = record.subspan(kRecordAlignment, options_.scaled.payload_bytes);
  content_.fill(action.key, block);
  return encode(action, block, head);
}

Result<std::optional<RealSpan>> DriveExecutor::finish(const Action& action) {
  if (!running_.at(action.op).over) TIERCEL_TRY_VOID(wait_for(tier_of(action), action.op));
  const auto node = running_.extract(action.op);
  const Running& running = node.mapped();
  if (!running.head.empty()) free_heads_.push_back(running.head);
  if (running.executed.op != 0) digest_.add(running.executed);
  if (action.type == ActionType::load) {
    if (running.failed) {
      TIERCEL_TRY_VOID(recompute(action));
      if (action.to == TierId::warm) recomputed_.insert(action.block);
    } else if (action.to == TierId::hot) {
      if (recomputed_.erase(action.block) == 0) ++delivered_;
      wrong_bytes_ += content_.count_wrong(action.key, hot_block(action.target));
    }
  }
  return std::optional(RealSpan{.begin_ns = running.begin_ns, .end_ns = running.end_ns});
}

Result<void> DriveExecutor::end(ReplayOutcome& outcome) {
  outcome.decisions_sha256 = digest_.finish();
  outcome.delivered = delivered_;
  outcome.errors = errors_;
  outcome.wrong_bytes = wrong_bytes_;
  if (warm_) outcome.warm_read_bytes = warm_->stats().bytes_read;
  if (cold_) {
    const TierStats stats = cold_->stats();
    outcome.cold_read_bytes = stats.bytes_read;
    outcome.cold_written_bytes = stats.bytes_written;
    outcome.format_bytes = stats.bytes_format;
    outcome.peak_cold_bytes = cold_->physical_bytes();
  }
  outcome.rss_bytes = peak_resident_bytes();
  outcome.warm_up_s = warm_up_s_;
  outcome.notes = notes_;
  return {};
}

}  // namespace tiercel
