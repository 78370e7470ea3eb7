// The published traces (Mooncake, Azure, Weka): known figures of each that this room computes, to the digits given here.
// Needs the data folder (TIERCEL_SHARED, default ../shared); skipped with a reason where it is absent.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "trace/arrivals.h"
#include "trace/read_trace.h"
#include "trace/statistics.h"

namespace tiercel {
namespace {

std::string shared_trace(const std::string& name) {
  const char* root = std::getenv("TIERCEL_SHARED");
  return (root != nullptr ? std::string(root) : std::string(TIERCEL_SOURCE_DIR "/../shared")) +
         "/traces/" + name;
}

double rounded(double value, int digits) {
  return std::round(value * std::pow(10, digits)) / std::pow(10, digits);
}

struct Lengths {
  double mean, p50, p90, p95, p99, max;
};

// Published figures are rounded to whole tokens; halves went either way.
void expect_lengths(const Distribution& p, const Lengths& published) {
  EXPECT_NEAR(p.mean, published.mean, 0.501);
  EXPECT_NEAR(p.p50, published.p50, 0.501);
  EXPECT_NEAR(p.p90, published.p90, 0.501);
  EXPECT_NEAR(p.p95, published.p95, 0.501);
  EXPECT_NEAR(p.p99, published.p99, 0.501);
  EXPECT_EQ(p.max, published.max);
}

void expect_rates(const TraceStatistics& stats,
                  const Lengths& published) {  // mean, p95, max req/s; mean, max tok/s.
  EXPECT_NEAR(stats.requests_rate.mean_per_s, published.mean, 0.00501);
  EXPECT_NEAR(stats.requests_rate.p95_per_s, published.p50, 0.00501);
  EXPECT_NEAR(stats.requests_rate.max_per_s, published.p90, 0.00501);
  EXPECT_NEAR(stats.input_token_rate.mean_per_s, published.p95, 0.501);
  EXPECT_NEAR(stats.input_token_rate.max_per_s, published.p99, 0.501);
}

struct Turn {
  std::uint32_t from;
  std::uint64_t requests;
  double mean_input;
  double hits;
};

void expect_turns(const TraceStatistics& stats, const std::vector<Turn>& published) {
  ASSERT_EQ(stats.turns.size(), published.size());
  for (std::size_t i = 0; i < published.size(); ++i) {
    EXPECT_EQ(stats.turns[i].from, published[i].from);
    EXPECT_EQ(stats.turns[i].requests, published[i].requests);
    EXPECT_NEAR(stats.turns[i].mean_input_tokens, published[i].mean_input, 0.501);
    EXPECT_NEAR(stats.turns[i].mean_hit_fraction, published[i].hits, 0.000501);
  }
}

class SharedTrace : public testing::Test {
 protected:
  // Reads it into trace_ and stats_, or skips.
  void read(const std::string& name, const TraceOptions& options = {}) {
    const std::string path = shared_trace(name);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << " (set TIERCEL_SHARED)";
    auto trace = read_trace(path, options);
    ASSERT_TRUE(trace) << trace.error().what;
    trace_ = *std::move(trace);
    stats_ = trace_statistics(trace_);
    ready_ = true;
  }
  const BlockStatistics& blocks() const { return *stats_.blocks; }

  Trace trace_;
  TraceStatistics stats_;
  bool ready_ = false;
};

TEST_F(SharedTrace, MooncakeConversation) {
  read("mooncake_conversation_trace.jsonl.gz");
  if (!ready_) return;
  EXPECT_EQ(trace_.format, "mooncake");
  EXPECT_EQ(trace_.requests.size(), 12'031U);
  EXPECT_EQ(rounded(trace_.duration_s, 0), 3537);
  EXPECT_EQ(trace_.skipped_lines, 0U);
  expect_rates(stats_, {3.40, 4.90, 6.70, 40'937, 89'616, 0});
  expect_lengths(stats_.input_tokens, {12'035, 6'909, 27'367, 39'550, 85'400, 126'195});
  expect_lengths(stats_.output_tokens, {343, 350, 597, 698, 1119, 2000});
  EXPECT_EQ(trace_.session_count, 8'067U);
  EXPECT_EQ(stats_.sessions->multi_turn_sessions, 2'011U);
  EXPECT_EQ(stats_.sessions->multi_turn_requests, 5'975U);
  EXPECT_EQ(stats_.sessions->requests.p99, 7);
  EXPECT_EQ(stats_.sessions->requests.max, 43);
  EXPECT_EQ(rounded(stats_.sessions->gap_s.p50, 1), 123.0);
  EXPECT_EQ(rounded(stats_.sessions->gap_s.p90, 1), 474.0);
  EXPECT_EQ(rounded(stats_.sessions->gap_s.p99, 1), 1462.4);
  expect_turns(stats_, {{1, 8067, 11'302, 0.192},
                        {2, 3134, 12'975, 0.751},
                        {4, 670, 13'942, 0.851},
                        {8, 148, 22'551, 0.923},
                        {16, 12, 23'453, 0.948}});
  EXPECT_EQ(blocks().accesses, 288'500U);
  EXPECT_EQ(blocks().unique, 182'790U);
  EXPECT_EQ(blocks().used_once, 138'646U);
  EXPECT_EQ(rounded(blocks().infinite_hit_ratio, 4), 0.3664);
  EXPECT_EQ(rounded(blocks().token_weighted_hit_ratio, 4), 0.3736);
  EXPECT_EQ(blocks().requests_without_hit, 1U);
  EXPECT_EQ(blocks().chain_violations, 0U);
  EXPECT_EQ(rounded(blocks().reuse_gap_s.p50, 0), 114);
  EXPECT_EQ(rounded(blocks().reuse_gap_s.p90, 0), 519);
  EXPECT_EQ(rounded(blocks().reuse_gap_s.p95, 0), 627);
  EXPECT_EQ(rounded(blocks().reuse_gap_s.p99, 0), 1578);
}

TEST_F(SharedTrace, MooncakeArrivalsLieOnTheGridAndAreSpread) {
  read("mooncake_conversation_trace.jsonl.gz");
  if (!ready_) return;
  const auto spread = spread_arrivals(trace_);
  EXPECT_TRUE(std::is_sorted(spread.begin(), spread.end()));
  std::size_t moved = 0;
  std::vector<std::uint32_t> windows(360, 0);
  for (std::size_t i = 0; i < spread.size(); ++i) {
    const std::int64_t by_ns = spread[i] - trace_.requests[i].arrival_ns;
    EXPECT_GE(by_ns, -5'000'000);
    EXPECT_LT(by_ns, 3'005'000'000);
    if (by_ns > 5'000'000) ++moved;
    ++windows[static_cast<std::size_t>(spread[i] / 10'000'000'000)];
  }
  EXPECT_GT(moved, 10'000U);
  EXPECT_EQ(*std::max_element(windows.begin(), windows.end()), 57U)
      << "67 on the grid, an artefact of it";
}

TEST_F(SharedTrace, WekaThird) {
  read("weka_claude_code.tar.zst", {.every = 3});
  if (!ready_) return;
  EXPECT_EQ(trace_.format, "weka");
  EXPECT_EQ(trace_.requests.size(), 17'274U);
  EXPECT_EQ(rounded(trace_.duration_s, 0), 34'733);
  expect_rates(stats_, {0.50, 1.50, 2.60, 60'900, 345'821, 0});
  expect_lengths(stats_.input_tokens, {122'452, 104'026, 240'437, 300'722, 456'571, 894'371});
  expect_lengths(stats_.output_tokens, {413, 210, 813, 1399, 3511, 12'741});
  EXPECT_EQ(trace_.session_count, 237U);
  EXPECT_EQ(stats_.sessions->multi_turn_sessions, 237U);
  EXPECT_EQ(rounded(stats_.sessions->requests.p50, 0), 51);
  EXPECT_EQ(rounded(stats_.sessions->requests.p90, 0), 162);
  EXPECT_EQ(rounded(stats_.sessions->requests.p99, 0), 284);
  EXPECT_EQ(rounded(stats_.sessions->gap_s.p90, 1), 131.0);
  expect_turns(stats_, {{1, 237, 92'323, 0.000},
                        {2, 474, 102'498, 0.842},
                        {4, 874, 104'383, 0.949},
                        {8, 1530, 103'702, 0.968},
                        {16, 2633, 109'130, 0.974},
                        {32, 3963, 118'403, 0.977},
                        {64, 4454, 136'659, 0.970},
                        {128, 2864, 140'860, 0.967},
                        {256, 245, 106'940, 0.936}});
  EXPECT_EQ(blocks().accesses, 4'122'718U);
  EXPECT_EQ(blocks().unique, 148'855U);
  EXPECT_EQ(blocks().used_once, 9'175U);
  EXPECT_EQ(rounded(blocks().infinite_hit_ratio, 4), 0.9639);
  EXPECT_EQ(rounded(blocks().token_weighted_hit_ratio, 4), 0.9619);
  EXPECT_EQ(blocks().requests_without_hit, 260U);
  EXPECT_EQ(blocks().chain_violations, 0U);
  EXPECT_EQ(rounded(blocks().reuse_gap_s.p95, 0), 309);
}

TEST_F(SharedTrace, WekaWhole) {
  read("weka_claude_code.tar.zst");
  if (!ready_) return;
  EXPECT_EQ(trace_.requests.size(), 49'334U);
  EXPECT_EQ(trace_.session_count, 710U);
  EXPECT_EQ(rounded(trace_.duration_s, 0), 64'524);
  expect_rates(stats_, {0.76, 1.70, 2.40, 93'569, 459'280, 0});
  EXPECT_EQ(blocks().accesses, 11'767'283U);
  EXPECT_EQ(blocks().unique, 431'071U);
  EXPECT_EQ(blocks().used_once, 28'594U);
  EXPECT_EQ(rounded(blocks().infinite_hit_ratio, 4), 0.9634);
  EXPECT_EQ(rounded(blocks().token_weighted_hit_ratio, 4), 0.9614);
  EXPECT_EQ(blocks().requests_without_hit, 778U);
}

TEST_F(SharedTrace, AzureConversationAndCode) {
  read("AzureLLMInferenceTrace_conv.csv");
  if (!ready_) return;
  EXPECT_EQ(trace_.requests.size(), 19'366U);
  EXPECT_EQ(rounded(trace_.duration_s, 0), 3502);
  expect_rates(stats_, {5.53, 8.25, 9.80, 6386, 16'512, 0});
  expect_lengths(stats_.input_tokens, {1155, 1020, 2734, 4083, 4142, 14'050});
  expect_lengths(stats_.output_tokens, {211, 129, 424, 451, 601, 1000});
  EXPECT_FALSE(stats_.blocks);
  EXPECT_FALSE(stats_.sessions);
  EXPECT_TRUE(stats_.turns.empty());
  read("AzureLLMInferenceTrace_code.csv");
  EXPECT_EQ(trace_.requests.size(), 8'819U);
  expect_rates(stats_, {2.57, 12.56, 32.70, 5256, 70'266, 0});
  expect_lengths(stats_.input_tokens, {2048, 1469, 5188, 7303, 7436, 7437});
  expect_lengths(stats_.output_tokens, {28, 13, 55, 90, 251, 1899});
}

}  // namespace
}  // namespace tiercel
