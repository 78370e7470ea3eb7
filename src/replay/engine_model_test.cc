// The engine model: the published figures of the nominal server, and each rule on a trace made for it.
#include "replay/engine_model.h"

#include <gtest/gtest.h>

#include "placement/read_placement.h"
#include "replay/indicators.h"
#include "replay/replay_run.h"
#include "replay/replay_testing.h"
#include "replay/verdict.h"

namespace tiercel {
namespace {

ReplayOutcome simulate(const Placement& placement, const Trace& trace) {
  const auto scaled = scale_placement(placement, 0);
  EXPECT_TRUE(scaled) << scaled.error().what;
  const auto keys = trace_keys(trace, placement.model.block_tokens);
  SimulatedExecutor executor;
  auto outcome = run_replay(placement, *scaled, trace, keys, executor, {});
  EXPECT_TRUE(outcome) << outcome.error().what;
  return std::move(*outcome);
}

Placement nominal(const std::vector<std::string>& sets) {
  auto placement = read_placement(TIERCEL_SOURCE_DIR "/examples/nominal.toml", sets);
  EXPECT_TRUE(placement) << placement.error().what;
  return *placement;
}

struct NominalRow {
  std::uint64_t hot_gib;
  std::uint64_t rejections, preemptions, windows;
};

// Within 20 % or 5 of the published count.
void expect_near(std::uint64_t got, std::uint64_t published) {
  const double allowed = std::max(5.0, 0.2 * static_cast<double>(published));
  EXPECT_LE(std::abs(static_cast<double>(got) - static_cast<double>(published)), allowed);
}

TEST(NominalServer, RejectsAndPreemptsAsPublishedWithoutSharing) {
  const auto trace = shared_trace("traces/mooncake_conversation_trace.jsonl.gz", 1);
  if (!trace) GTEST_SKIP() << "the shared conversation trace is not here (TIERCEL_SHARED)";
  // Exact: two people who follow the rules get the same counts.
  for (const auto& row :
       {NominalRow{150, 0, 0, 0}, NominalRow{140, 0, 0, 0}, NominalRow{130, 2, 0, 2},
        NominalRow{120, 11, 2, 8}, NominalRow{110, 50, 16, 24}, NominalRow{100, 111, 21, 54},
        NominalRow{80, 438, 48, 129}}) {
    SCOPED_TRACE(testing::Message() << row.hot_gib << " GiB");
    const Placement placement = nominal({"prefix_sharing=false", "warm.bytes=0", "cold.bytes=0",
                                         "hot.bytes=" + std::to_string(row.hot_gib) + " GiB"});
    const Indicators indicators = compute_indicators(simulate(placement, *trace));
    EXPECT_EQ(indicators.overall.rejections.count, row.rejections);
    EXPECT_EQ(indicators.overall.rejections.preemptions, row.preemptions);
    EXPECT_EQ(indicators.rejecting_windows, row.windows);
    EXPECT_EQ(indicators.overall.rejections.too_large, 0U);
  }
}

TEST(NominalServer, RejectsLessWithSharingAndLeastWithThreeTiers) {
  const auto trace = shared_trace("traces/mooncake_conversation_trace.jsonl.gz", 1);
  if (!trace) GTEST_SKIP() << "the shared conversation trace is not here (TIERCEL_SHARED)";
  const Indicators alone =
      compute_indicators(simulate(nominal({"warm.bytes=0", "cold.bytes=0"}), *trace));
  const Indicators three = compute_indicators(simulate(nominal({}), *trace));
  expect_near(alone.overall.rejections.count, 33);
  expect_near(three.overall.rejections.count, 18);
  EXPECT_LT(three.overall.rejections.count, alone.overall.rejections.count);
}

TEST(SlowDisk, ItsVerdictNamesCold) {
  const auto trace = shared_trace("traces/mooncake_conversation_trace.jsonl.gz", 1);
  if (!trace) GTEST_SKIP() << "the shared conversation trace is not here (TIERCEL_SHARED)";
  const auto placement = read_placement(TIERCEL_SOURCE_DIR "/examples/slow-disk.toml");
  ASSERT_TRUE(placement);
  const auto outcome = simulate(*placement, *trace);
  const Verdict verdict = judge(compute_indicators(outcome), outcome, *placement);
  EXPECT_FALSE(verdict.pass);
  EXPECT_EQ(verdict.fix_tier, FixTier::cold);
}

// A trace written by hand: {arrival s, input tokens, output tokens, block ids}.
struct Line {
  double arrival_s;
  std::uint32_t input, output;
  std::vector<std::uint32_t> blocks;
};

Trace make_trace(const std::vector<Line>& lines) {
  Trace trace;
  trace.format = "tiercel";
  trace.block_tokens = 512;
  trace.has_blocks = true;
  for (const Line& line : lines) {
    trace.requests.push_back({.arrival_ns = static_cast<std::int64_t>(line.arrival_s * 1e9),
                              .input_tokens = line.input,
                              .output_tokens = line.output,
                              .block_first = trace.block_ids.size(),
                              .block_count = static_cast<std::uint32_t>(line.blocks.size()),
                              .session = static_cast<std::uint32_t>(trace.requests.size())});
    for (const std::uint32_t id : line.blocks) {
      trace.block_ids.push_back(id);
      trace.unique_blocks = std::max<std::uint64_t>(trace.unique_blocks, id + 1);
    }
  }
  return trace;
}

// Hot memory for `blocks`, nothing below; 10,000 tokens/s, 30 ms per output token, limit 1 s.
Placement hot_alone(std::uint64_t blocks) {
  Placement placement = small_placement();
  placement.hot.bytes = blocks * 64 * kMiB;
  placement.warm = {};
  placement.cold = {};
  return placement;
}

TEST(EngineModel, ARequestThatHotCannotHoldIsTooLargeAtOnceAndNoRejection) {
  const auto outcome =
      simulate(hot_alone(3), make_trace({{0, 4 * 512, 1, {0, 1, 2, 3}}, {0.1, 512, 1, {4}}}));
  EXPECT_EQ(outcome.requests[0].fate, Fate::too_large);
  EXPECT_EQ(outcome.requests[1].fate, Fate::completed);
}

TEST(EngineModel, TheHeadBlocksTheLineAndWhoWaitsLongerThanTheLimitIsRejected) {
  // 0 holds both blocks for 1.024 + 100 * 0.03 s; 1 needs two, 2 only one but stands behind 1.
  const auto outcome =
      simulate(hot_alone(2),
               make_trace({{0, 1000, 24, {0, 1}}, {0.5, 1000, 1, {2, 3}}, {0.6, 512, 0, {4}}}));
  EXPECT_EQ(outcome.requests[0].fate, Fate::completed);
  EXPECT_EQ(outcome.requests[1].fate, Fate::completed);  // 0 is over after 0.1 + 0.72 s.
  EXPECT_EQ(outcome.requests[1].wait_ns, 320'000'000);
  // 2 waits for 1 (0.1 s of prefill and one token), although its block would have fitted... nowhere: hot was full.
  EXPECT_EQ(outcome.requests[2].wait_ns, 350'000'000);
  const auto late = simulate(
      hot_alone(2),
      make_trace({{0, 1000, 24, {0, 1}}, {-0.0, 1000, 24, {2, 3}}, {0.1, 1000, 24, {4, 5}}}));
  EXPECT_EQ(late.requests[1].fate, Fate::completed);
  EXPECT_EQ(late.requests[2].fate,
            Fate::rejected);  // 0 and 1 take 0.82 s each, one after the other.
  EXPECT_EQ(late.requests[2].wait_ns, 1'000'000'000);
}

TEST(EngineModel, AFullHitRecomputesItsLastToken) {
  const auto outcome = simulate(
      hot_alone(8), make_trace({{0, 1024, 1, {0, 1}}, {5, 1024, 1, {0, 1}}, {9, 1000, 1, {0, 1}}}));
  EXPECT_EQ(outcome.requests[0].prefill_ns, 102'400'000);
  EXPECT_EQ(outcome.requests[1].prefill_ns, 100'000);
  EXPECT_EQ(outcome.requests[2].prefill_ns, 100'000);
  EXPECT_EQ(outcome.hits.hot, 4U);
  EXPECT_EQ(outcome.miss, 2U);
}

TEST(EngineModel, APrefixIsReusableOnceItsPrefillIsOverAndNotBefore) {
  const auto outcome = simulate(
      hot_alone(8),
      make_trace({{0, 1024, 100, {0, 1}}, {0.05, 1024, 1, {0, 1}}, {0.2, 1024, 1, {0, 1}}}));
  EXPECT_EQ(outcome.requests[1].prefill_ns, 102'400'000);  // Computed by two at once.
  EXPECT_EQ(outcome.requests[2].prefill_ns, 100'000);
  EXPECT_EQ(outcome.hits.hot, 2U);
}

TEST(EngineModel, BlocksOfRunningRequestsThatShareAreHeldOnceThoseComputedTwiceTwice) {
  // Four blocks of hot: where 1 hits what 0 holds, 2 fits beside them; where 1 has computed its own copy, it has to wait.
  const Trace shared =
      make_trace({{0, 1000, 24, {0, 1}}, {0.2, 1000, 24, {0, 1}}, {0.3, 1000, 1, {2, 3}}});
  EXPECT_EQ(simulate(hot_alone(4), shared).requests[2].wait_ns, 0);
  const Trace twice =
      make_trace({{0, 1000, 24, {0, 1}}, {0.05, 1000, 24, {0, 1}}, {0.3, 1000, 1, {2, 3}}});
  EXPECT_EQ(simulate(hot_alone(4), twice).requests[2].wait_ns,
            520'000'000);  // Until 0 frees, at 0.82 s.
}

TEST(EngineModel, GrowthWithoutMemoryPreemptsTheYoungestWhichStartsOver) {
  // Both full to the last token; 0 needs a third block at its first output token, 1 is the youngest.
  const auto outcome =
      simulate(hot_alone(4), make_trace({{0, 1024, 10, {0, 1}}, {0.01, 1024, 10, {2, 3}}}));
  EXPECT_EQ(outcome.requests[0].preemptions, 0U);
  EXPECT_EQ(outcome.requests[1].preemptions, 1U);
  EXPECT_EQ(outcome.requests[1].fate, Fate::completed);
  // It comes back when 0 is over: 0.1024 + 10 * 0.03 s, and finds its own blocks only as far as they were computed.
  EXPECT_EQ(outcome.requests[1].wait_ns, 402'400'000 - 10'000'000);
}

TEST(EngineModel, WhoWouldPreemptItselfWhileAloneIsTooLarge) {
  const auto outcome = simulate(hot_alone(2), make_trace({{0, 1024, 1, {0, 1}}}));
  EXPECT_EQ(outcome.requests[0].fate, Fate::too_large);
  EXPECT_EQ(outcome.requests[0].preemptions, 0U);
}

TEST(EngineModel, FlopsPrefillsQueueForLanesAndLongPromptsPayForAttention) {
  Placement placement = hot_alone(32);
  placement.engine.prefill = PrefillModel::flops;
  placement.engine.prefill_lanes = 1;
  placement.engine.flops = 2e13;
  placement.model.parameters = 1e9;
  const Trace trace = make_trace({{0, 1024, 1, {0, 1}}, {0.01, 1024, 1, {2, 3}}});
  auto outcome = simulate(placement, trace);
  EXPECT_EQ(outcome.requests[0].prefill_ns, 102'400'000);  // 2 * 1e9 * 1024 / 2e13 s.
  EXPECT_EQ(outcome.requests[1].run_ns,
            2 * 102'400'000 + 30'000'000 - 10'000'000);  // Waits for the lane, then runs.
  placement.model.layers = 32;
  placement.model.hidden = 4096;
  outcome = simulate(placement, trace);
  const double attention_s = 4.0 * 32 * 4096 * (1024.0 * 1025 / 2) / 2e13;
  EXPECT_NEAR(static_cast<double>(outcome.requests[0].prefill_ns), 102.4e6 + attention_s * 1e9,
              2.0);
}

TEST(EngineModel, ALoadFromColdGoesByWayOfWarmAndIsBookedToCold) {
  // 24 blocks of hot: the fillers push {0, 1} out of hot and of the warm 60.
  std::vector<Line> lines{{0, 1024, 1, {0, 1}}};
  std::uint32_t next = 2;
  for (int i = 0; i < 12; ++i) {
    Line filler{10.0 + i * 10, 12 * 512, 1, {}};
    for (int b = 0; b < 12; ++b) filler.blocks.push_back(next++);
    lines.push_back(filler);
  }
  lines.push_back({200, 1024, 1, {0, 1}});
  const auto outcome = simulate(small_placement(), make_trace(lines));
  EXPECT_EQ(outcome.hits.cold, 2U);
  EXPECT_EQ(outcome.requests.back().refill_tier, RefillTier::cold);
  // Two blocks of 64 MiB over 3 GB/s one after the other, then the second over 20 GB/s, and a latency each.
  const double block = 64.0 * 1024 * 1024;
  EXPECT_NEAR(static_cast<double>(outcome.requests.back().refill_ns),
              2 * block / 3 + 100'000 + block / 20 + 20'000, 10.0);
}

}  // namespace
}  // namespace tiercel
