#include "replay/replay_run.h"

#include <fmt/format.h>

#include "base/byte_size.h"
#include "base/clock.h"
#include "kv/chain.h"
#include "kv/record.h"
#include "placement/contradictions.h"
#include "replay/engine_model.h"
#include "replay/link_model.h"
#include "replay/virtual_time.h"
#include "trace/arrivals.h"

namespace tiercel {
namespace {

// One run: the events, and between them the core's decisions on their way to the executor.
class Run {
 public:
  Run(const Placement& placement, const ScaledPlacement& scaled, const Trace& trace,
      std::span<const Key> keys, std::span<const std::int64_t> arrivals_ns, Executor& executor,
      const ReplayControls& controls)
      : core_(scaled.core),
        links_(placement),
        names_(intern(trace, keys, scaled)),
        engine_({.block_tokens = placement.model.block_tokens,
                 .hot_blocks = scaled.core.hot_bytes / scaled.payload_bytes,
                 .sharing = placement.prefix_sharing && trace.has_blocks},
                placement, trace, arrivals_ns, names_, core_, events_),
        executor_(executor),
        controls_(controls),
        request_count_(trace.requests.size()) {}

  Result<void> run() {
    while (!events_.empty()) {
      const Event event = events_.pop();
      if (event.time_ns >= kEndOfTime_ns) {
        return fail(Errc::invalid,
                    "the replay does not end within a century of virtual time: a bandwidth or a "
                    "rate of the placement is "
                    "too low for this trace; raise it (warm, cold: read_bandwidth, "
                    "write_bandwidth; engine)");
      }
      keep_pace(event.time_ns);
      core_.advance(event.time_ns);
      TIERCEL_TRY_VOID(handle(event));
      engine_.admit_waiting(event.time_ns);
      TIERCEL_TRY_VOID(carry_out());
      schedule_wakeup();
    }
    return {};
  }

  void write_outcome(ReplayOutcome& outcome) const {
    engine_.write_outcome(outcome);
    outcome.late = late_;
    const CoreCounts& counts = core_.counts();
    outcome.lookups = counts.lookups;
    outcome.stored_warm = counts.stored_warm;
    outcome.skipped_staging = counts.skipped_staging;
    outcome.skipped_parent = counts.skipped_parent;
    outcome.skipped_space = counts.skipped_space;
    outcome.skipped_stores = counts.skipped_staging + counts.skipped_parent + counts.skipped_space;
    outcome.evicted_hot = core_.hot().evicted_blocks();
    outcome.evicted_warm = core_.warm().evicted_blocks();
    outcome.peak_hot_bytes = core_.hot().peak_bytes();
    outcome.peak_warm_bytes = core_.warm().peak_bytes();
    if (const ColdLog* cold = core_.cold()) {
      outcome.evicted_cold = cold->counts().evicted;
      outcome.reclaims = cold->counts().reclaims;
      outcome.stored_cold = cold->counts().stored;
      outcome.moved_cold = cold->counts().moved;
      outcome.peak_cold_bytes =
          cold->physical_bytes();  // Segments keep their files: the end is the peak.
    }
  }

 private:
  // The trace's accesses in core terms. The parent of a block is its predecessor in the first request that names it.
  std::vector<BlockId> intern(const Trace& trace, std::span<const Key> keys,
                              const ScaledPlacement& scaled) {
    std::vector<BlockId> names(trace.unique_blocks, kNoBlock);
    std::vector<BlockId> accesses;
    accesses.reserve(trace.block_ids.size());
    for (const Request& request : trace.requests) {
      BlockId parent = kNoBlock;
      for (const std::uint32_t id : trace.blocks(request)) {
        if (names[id] == kNoBlock) {
          names[id] =
              core_.table().intern(keys[id], parent, scaled.payload_bytes, scaled.record_bytes);
        }
        parent = names[id];
        accesses.push_back(parent);
      }
    }
    return accesses;
  }

  Result<void> handle(const Event& event) {
    if (event.type == EventType::wakeup) {
      wakeup_ns_.reset();
      return {};
    }
    if (event.type != EventType::transfer_done) {
      if (event.type == EventType::arrival && controls_.progress) {
        controls_.progress(++arrived_, request_count_);
      }
      engine_.handle(event);
      return {};
    }
    const Completed completed = core_.complete(event.op);
    TIERCEL_TRY(const std::optional<RealSpan> span, executor_.finish(completed.action));
    if (span && started_ && span->end_ns > real_due_ns(event.time_ns)) ++late_;
    if (span && completed.action.type == ActionType::load) {
      engine_.block_loaded_really(completed.action.block, span->begin_ns, span->end_ns);
    }
    if (completed.ready_in_hot != kNoBlock) engine_.block_ready(completed.ready_in_hot);
    return {};
  }

  Result<void> carry_out() {
    Outbox& outbox = core_.outbox();
    for (const Action& action : outbox.actions()) {
      TIERCEL_TRY_VOID(executor_.begin(action));
      if (action.op == 0) continue;
      events_.push({.time_ns = links_.completion_ns(action),
                    .type = EventType::transfer_done,
                    .op = action.op},
                   LinkModel::lane_of(action));
    }
    outbox.clear();
    return {};
  }

  void schedule_wakeup() {
    const auto due = core_.next_wakeup_ns();
    if (!due || wakeup_ns_ == due) return;
    wakeup_ns_ = due;
    events_.push({.time_ns = *due, .type = EventType::wakeup});
  }

  void keep_pace(std::int64_t virtual_ns) {
    if (controls_.pace <= 0) return;
    if (!started_) started_ = {virtual_ns, SystemClock().now_ns()};
    executor_.work_until(real_due_ns(virtual_ns));
  }

  // When a moment of virtual time comes in real time, at the pace.
  std::int64_t real_due_ns(std::int64_t virtual_ns) const {
    return started_->second +
           static_cast<std::int64_t>(static_cast<double>(virtual_ns - started_->first) /
                                     controls_.pace);
  }

  Core core_;
  LinkModel links_;
  EventQueue events_;
  std::vector<BlockId> names_;
  EngineModel engine_;
  Executor& executor_;
  const ReplayControls& controls_;
  const std::size_t request_count_;
  std::size_t arrived_ = 0;
  std::uint64_t late_ = 0;
  std::optional<std::int64_t> wakeup_ns_;
  std::optional<std::pair<std::int64_t, std::int64_t>> started_;  // {virtual, real}
};

}  // namespace

Result<ScaledPlacement> scale_placement(const Placement& placement, std::uint64_t payload_bytes) {
  const std::uint64_t block_bytes = placement.block_bytes();
  if (payload_bytes == 0) payload_bytes = placement.replay_payload;
  if (payload_bytes == 0) payload_bytes = block_bytes;
  TIERCEL_TRY_VOID(check_payload(placement, payload_bytes));
  const auto scale = [&](std::uint64_t bytes) {
    return scaled_bytes(placement, payload_bytes, bytes);
  };
  ScaledPlacement scaled;
  scaled.payload_bytes = payload_bytes;
  scaled.record_bytes = record_bytes(payload_bytes, 1);
  scaled.cold_bytes = scale(placement.cold.bytes);
  scaled.core.hot_bytes = scale(placement.hot.bytes) / payload_bytes * payload_bytes;
  scaled.core.hot_block_bytes = payload_bytes;
  scaled.core.warm_bytes = scale(placement.warm.bytes);
  scaled.core.staging_bytes = scale(placement.staging_bytes);
  if (scaled.core.hot_bytes == 0) {
    return fail(Errc::invalid,
                fmt::format("hot.bytes: {} holds no block of {}; give it more",
                            exact_byte_size(placement.hot.bytes), exact_byte_size(block_bytes)));
  }
  if (placement.warm.bytes > 0 && scaled.core.staging_bytes < scaled.record_bytes) {
    return fail(
        Errc::invalid,
        fmt::format("staging.bytes: {} holds no record; give it several blocks of {}",
                    exact_byte_size(placement.staging_bytes), exact_byte_size(block_bytes)));
  }
  if (placement.cold.bytes > 0) {
    TIERCEL_TRY(
        const SegmentGeometry geometry,
        SegmentGeometry::fit(scaled.cold_bytes, placement.cold.segment_bytes, scaled.record_bytes));
    scaled.core.cold = ColdLog::Options{.geometry = geometry,
                                        .sync_bytes = scale(placement.cold.sync_bytes),
                                        .sync_interval_ns = placement.cold.sync_interval_ns,
                                        .staging_bytes = scaled.core.staging_bytes};
  }
  return scaled;
}

Fingerprint replay_fingerprint(std::uint32_t block_tokens) {
  return make_fingerprint({.model_weights_id = "replay", .block_tokens = block_tokens});
}

std::vector<Key> trace_keys(const Trace& trace, std::uint32_t block_tokens) {
  const Fingerprint fingerprint = replay_fingerprint(block_tokens);
  std::vector<Key> keys;
  keys.reserve(trace.unique_blocks);
  for (std::uint32_t id = 0; id < trace.unique_blocks; ++id) {
    const PrefixHash prefix =
        make_prefix_hash({}, std::nullopt, block_tokens, ChainContent::engine_hash,
                         std::as_bytes(std::span(&id, 1)));
    keys.push_back(make_key(prefix, fingerprint, Kind{}));
  }
  return keys;
}

Result<ReplayOutcome> run_replay(const Placement& placement, const ScaledPlacement& scaled,
                                 const Trace& trace, std::span<const Key> keys, Executor& executor,
                                 const ReplayControls& controls) {
  if (trace.has_blocks && trace.block_tokens != placement.model.block_tokens) {
    return fail(Errc::invalid,
                fmt::format("model.block_tokens is {}, the trace has blocks of {} tokens; "
                            "run with --set model.block_tokens={}",
                            placement.model.block_tokens, trace.block_tokens, trace.block_tokens));
  }
  const SystemClock clock;
  const std::int64_t begin_ns = clock.now_ns();
  const std::vector<std::int64_t> arrivals_ns = spread_arrivals(trace);
  ReplayOutcome outcome;
  outcome.driver = executor.name();
  outcome.payload_bytes = scaled.payload_bytes;
  outcome.byte_rate_factor =
      static_cast<double>(placement.block_bytes()) / static_cast<double>(scaled.payload_bytes);
  Run run(placement, scaled, trace, keys, arrivals_ns, executor, controls);
  const std::int64_t loop_begin_ns = clock.now_ns();
  TIERCEL_TRY_VOID(run.run());
  outcome.loop_s = static_cast<double>(clock.now_ns() - loop_begin_ns) * 1e-9;
  run.write_outcome(outcome);
  TIERCEL_TRY_VOID(executor.end(outcome));
  outcome.wall_s = outcome.warm_up_s + static_cast<double>(clock.now_ns() - begin_ns) * 1e-9;
  return outcome;
}

}  // namespace tiercel
