#include "replay/drive_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/checksum.h"
#include "kv/record.h"
#include "replay/process_memory.h"
#include "tier/store_directory.h"

namespace tiercel {

namespace {

constexpr std::int64_t kPoll_ns = 100'000'000;
constexpr std::size_t kNotesMax = 32;

}  // namespace

Result<std::uint64_t> reusable_store_bytes(Disk& disk, const std::string& directory) {
  const auto superblock = read_superblock(disk, directory);
  if (!superblock && superblock.error().code == Errc::invalid) return 0;  // open() will refuse it.
  if (!superblock && superblock.error().code != Errc::corrupt) return superblock.error();
  TIERCEL_TRY(const auto names, disk.list(directory));
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    if (!parse_segment_file_name(name)) continue;
    TIERCEL_TRY(const auto file, disk.open(directory + "/" + name, {}));
    TIERCEL_TRY(const FileStatus status, file->status());
    bytes += status.allocated_bytes;
  }
  return bytes;
}

Result<std::unique_ptr<DriveExecutor>> DriveExecutor::open(Disk& disk, const Options& options) {
  std::unique_ptr<DriveExecutor> executor(new DriveExecutor(options));
  TIERCEL_TRY_VOID(executor->set_up(disk));
  return executor;
}

Result<void> DriveExecutor::set_up(Disk& disk) {
  const std::int64_t begin_ns = clock_.now_ns();
  const CoreOptions& core = options_.scaled.core;
  if (options_.scaled.payload_bytes % kRecordAlignment != 0) {
    return fail(Errc::invalid,
                fmt::format("a block of {} cannot be moved by direct I/O; drive it with --payload, "
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
                             .record_bytes_max = options_.scaled.record_bytes,
                             .purpose = StorePurpose::replay};  // Never the store of a cache.
    cold_options.start = StoreStart::empty;
    cold_options.clock = &clock_;
    cold_options.queue_ops_max = core.cold->staging_bytes / options_.scaled.record_bytes + 65536;
    staging_bytes =
        align_up(NvmeTier::staging_bytes(cold_options, cold_options.geometry), kArenaAlignment);
  }
  TIERCEL_TRY(arena_,
              Arena::create({.bytes = core.hot_bytes + warm_bytes + move_bytes + staging_bytes}));
  TIERCEL_TRY(hot_, arena_->take(core.hot_bytes));
  TIERCEL_TRY(const std::span<std::byte> warm_memory, arena_->take(warm_bytes));
  TIERCEL_TRY(const std::span<std::byte> move_buffer, arena_->take(move_bytes));
  if (warm_bytes > 0) {
    warm_ = std::make_unique<RamTier>(
        RamTierOptions{.memory = warm_memory, .arena = arena_.get(), .clock = &clock_});
  }
  if (core.cold) {
    TIERCEL_TRY(cold_options.staging, arena_->take(staging_bytes));
    cold_options.arena = arena_.get();
    TIERCEL_TRY(auto opened, NvmeTier::open(disk, options_.store_directory, cold_options));
    cold_ = std::move(opened.tier);
    TIERCEL_CHECK(cold_->segment_count_max() >= core.cold->geometry.segments_max);
    notes_.push_back(fmt::format("cold I/O by {}", cold_->engine_name()));
    for (std::string& note : cold_->notes()) notes_.push_back(std::move(note));
  }
  notes_.push_back("hot is hot(host): bare blocks in host memory; no GPU was used");
  notes_.push_back(fmt::format("arena of {} on {} pages{}{}", pretty_byte_size(arena_->bytes()),
                               page_kind_name(arena_->report().pages),
                               arena_->report().reason.empty() ? "" : ": ",
                               arena_->report().reason));
  tiers_ = std::make_unique<TierExecutor>(
      TierExecutor::Options{.warm = warm_.get(),
                            .cold = cold_.get(),
                            .warm_memory = warm_memory,
                            .move_buffer = move_buffer,
                            .clock = &clock_,
                            .rebuild = [this](const Action& action, std::span<std::byte> record) {
                              count_error("cold: a move could not read its record");
                              return recompute(action, record).has_value();
                            }});
  warm_up_s_ = static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
  return {};
}

std::span<std::byte> DriveExecutor::hot_block(const Place& place) {
  return hot_.subspan(place.offset, place.bytes);
}

void DriveExecutor::count_error(const std::string& what) {
  ++errors_;
  if (notes_.size() < kNotesMax) notes_.push_back(what);
}

void DriveExecutor::collect(std::int64_t timeout_ns) {
  done_.clear();
  tiers_->collect(done_, timeout_ns);
  for (const TierDone& done : done_) {
    Running& running = running_.at(done.op);
    running.over = true;
    running.failed = done.outcome != Outcome::delivered;
    running.end_ns = clock_.now_ns();
    if (running.failed) {
      count_error(fmt::format("{} {} -> {}: {}", action_name(running.executed.type),
                              tier_name(running.executed.from), tier_name(running.executed.to),
                              done.outcome == Outcome::miss ? "miss" : done.error.what));
    }
  }
}

TierWork DriveExecutor::work_of(const Action& action) {
  TierWork work{.action = action, .fingerprint = options_.fingerprint};
  work.head.token_count = options_.block_tokens;
  if (action.from == TierId::hot) work.memory = {host_piece(hot_block(action.source))};
  if (action.to == TierId::hot) work.memory = {host_piece(hot_block(action.target))};
  return work;
}

Result<void> DriveExecutor::begin(const Action& action) {
  if (action.op == 0) {
    if (action.type == ActionType::compute) content_.fill(action.key, hot_block(action.target));
    if (action.type == ActionType::seal || action.type == ActionType::reclaim)
      tiers_->begin(work_of(action));
    digest_.add(action);
    return {};
  }
  Running& running = running_[action.op] = Running{.begin_ns = clock_.now_ns(), .executed = action};
  if (action.type == ActionType::load) {
    if (!really_loads(action)) {
      running.over = true;
      running.executed.op = 0;  // Nothing was executed: nothing enters the digest.
      return {};
    }
    running.executed.source = really_read_place(action);
  }
  tiers_->begin(work_of(running.executed));
  collect(0);  // Copies in RAM are over already: their end is now, not when somebody asks.
  return {};
}

void DriveExecutor::work_until(std::int64_t real_ns) {
  for (;;) {
    const std::int64_t left_ns = real_ns - clock_.now_ns();
    if (left_ns <= 0) return;
    if (tiers_->under_way() == 0) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
    } else {
      collect(std::min(left_ns, kPoll_ns));
    }
  }
}

Result<void> DriveExecutor::recompute(const Action& action, std::span<std::byte> record) {
  if (action.to == TierId::hot) {
    content_.fill(action.key, hot_block(action.target));
    return {};
  }
  const auto block = record.subspan(kRecordAlignment, options_.scaled.payload_bytes);
  content_.fill(action.key, block);
  RecordHead head;
  head.key = action.key;
  head.fingerprint = options_.fingerprint;
  head.token_count = options_.block_tokens;
  head.chunks = {Chunk{
      .plain_bytes = block.size(), .stored_bytes = block.size(), .checksum = checksum64(block)}};
  return encode_head(head, record.first(kRecordAlignment));
}

Result<std::optional<RealSpan>> DriveExecutor::finish(const Action& action) {
  const std::int64_t deadline_ns = clock_.now_ns() + kAnswerWithin_ns;
  for (bool wait = false; !running_.at(action.op).over; wait = true) {
    if (clock_.now_ns() > deadline_ns) {
      return fail(Errc::io,
                  fmt::format("{} {} -> {}: no answer for {} s; the tier is out of service",
                              action_name(action.type), tier_name(action.from),
                              tier_name(action.to), kAnswerWithin_ns / 1'000'000'000));
    }
    collect(wait ? kPoll_ns : 0);
  }
  const auto node = running_.extract(action.op);
  const Running& running = node.mapped();
  if (running.executed.op != 0) digest_.add(running.executed);
  if (action.type == ActionType::load) {
    if (running.failed) {
      const bool to_warm = action.to == TierId::warm;
      TIERCEL_TRY_VOID(
          recompute(action, to_warm ? tiers_->warm_record(action.target) : std::span<std::byte>()));
      if (to_warm) recomputed_.insert(action.block);
    } else if (action.to == TierId::hot) {
      if (recomputed_.erase(action.block) == 0) ++delivered_;
      wrong_bytes_ += content_.count_wrong(action.key, hot_block(action.target));
    }
  }
  return std::optional(RealSpan{.begin_ns = running.begin_ns, .end_ns = running.end_ns});
}

Result<void> DriveExecutor::end(ReplayOutcome& outcome) {
  for (const Error& error : tiers_->side_errors()) count_error("cold: " + error.what);
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
