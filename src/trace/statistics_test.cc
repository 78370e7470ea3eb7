// Distribution and block counts on traces small enough to count by hand.
#include "trace/statistics.h"

#include <gtest/gtest.h>

#include "trace/read_trace.h"

namespace tiercel {
namespace {

TEST(Distribution, InterpolateBetweenTheTwoNearestRanks) {
  const Distribution p = distribution({{10}, {40}, {20}, {30}});
  EXPECT_EQ(p.mean, 25);
  EXPECT_EQ(p.p50, 25);
  EXPECT_DOUBLE_EQ(p.p90, 37);
  EXPECT_EQ(p.max, 40);
}

TEST(Distribution, AWeightIsTheValueThatManyTimes) {
  const Distribution weighted = distribution({{5, 3}, {1, 2}});
  const Distribution plain = distribution({{1}, {1}, {5}, {5}, {5}});
  EXPECT_EQ(weighted.p50, plain.p50);
  EXPECT_EQ(weighted.p90, plain.p90);
  EXPECT_EQ(weighted.mean, plain.mean);
}

TEST(Distribution, OfNothingAreZero) { EXPECT_EQ(distribution({}).max, 0); }

TraceStatistics statistics_of(const std::string& text) {
  auto trace = parse_trace("t", text, {});
  EXPECT_TRUE(trace) << trace.error().what;
  return trace_statistics(*trace);
}

constexpr const char* kHeader = "{\"schema\":\"tiercel.trace/1\",\"block_tokens\":10}\n";

TEST(BlockStatistics, OnlyLeadingBlocksHit) {
  // The third prompt knows blocks 1 and 3 of [1, 9, 3], but 9 stands between them.
  const auto stats = statistics_of(
      std::string(kHeader) +
      "{\"arrival_ns\":0,\"input_tokens\":20,\"output_tokens\":1,\"blocks\":[1,2]}\n"
      "{\"arrival_ns\":2000000000,\"input_tokens\":25,\"output_tokens\":1,\"blocks\":[1,2,3]}\n"
      "{\"arrival_ns\":5000000000,\"input_tokens\":30,\"output_tokens\":1,\"blocks\":[1,9,3]}\n");
  ASSERT_TRUE(stats.blocks);
  EXPECT_EQ(stats.blocks->accesses, 8U);
  EXPECT_EQ(stats.blocks->hits, 3U);
  EXPECT_DOUBLE_EQ(stats.blocks->infinite_hit_ratio, 3.0 / 8);
  EXPECT_DOUBLE_EQ(stats.blocks->token_weighted_hit_ratio, 30.0 / 75);
  EXPECT_EQ(stats.blocks->unique, 4U);
  EXPECT_EQ(stats.blocks->used_once, 1U);
  EXPECT_EQ(stats.blocks->requests_without_hit, 1U);
  EXPECT_EQ(stats.blocks->chain_violations, 1U) << "3 followed 2, now it follows 9";
  EXPECT_EQ(stats.blocks->reuse_gap_s.max, 3);
}

TEST(Rates, EmptyWindowsCountAndYearsOfThemCostNothing) {
  // One request at zero, one nine years later.
  const auto stats = statistics_of(
      "{\"schema\":\"tiercel.trace/1\",\"block_tokens\":0}\n"
      "{\"arrival_ns\":0,\"input_tokens\":20,\"output_tokens\":1}\n"
      "{\"arrival_ns\":283824000000000000,\"input_tokens\":20,\"output_tokens\":1}\n");
  EXPECT_EQ(stats.requests_rate.max_per_s, 0.1);
  EXPECT_EQ(stats.requests_rate.p95_per_s, 0);
  EXPECT_FALSE(stats.blocks);
  EXPECT_FALSE(stats.sessions);
}

}  // namespace
}  // namespace tiercel
