// Synthetic traces: as near to the published statistics as docs/formats/traces.md states, and the same every time.
#include "trace/synthesize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <unordered_map>

#include "base/sha256.h"
#include "trace/read_trace.h"
#include "trace/statistics.h"
#include "trace/write_trace.h"

namespace tiercel {
namespace {

std::string written(const Trace& trace) {
  std::string text = trace_header_line(trace, "test");
  for (const Request& request : trace.requests) text += trace_request_line(trace, request);
  return text;
}

Trace must_make(const SynthOptions& options) {
  auto trace = synthesize(options);
  EXPECT_TRUE(trace) << trace.error().what;
  return *std::move(trace);
}

// Hit ratio of a plain LRU over blocks with the semantics of the published tables (the deepest block touched first).
double lru_hit_ratio(const Trace& trace, std::size_t capacity) {
  std::list<std::uint32_t> order;  // Most recent first.
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> resident;
  std::uint64_t hits = 0;
  for (const Request& request : trace.requests) {
    const auto blocks = trace.blocks(request);
    for (const std::uint32_t id : blocks) {
      if (!resident.contains(id)) break;
      ++hits;
    }
    for (std::size_t k = blocks.size(); k-- > 0;) {
      if (const auto found = resident.find(blocks[k]); found != resident.end())
        order.erase(found->second);
      order.push_front(blocks[k]);
      resident[blocks[k]] = order.begin();
      if (order.size() > capacity) {
        resident.erase(order.back());
        order.pop_back();
      }
    }
  }
  return static_cast<double>(hits) / static_cast<double>(trace.block_ids.size());
}

void expect_within(double value, double published, double relative, const char* what) {
  EXPECT_NEAR(value, published, published * relative) << what;
}

TEST(Synthesize, EverySeedComesNearThePublishedStatistics) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Trace trace = must_make({.seed = seed});
    const TraceStatistics stats = trace_statistics(trace);
    EXPECT_EQ(trace.requests.size(), 12'031U);
    EXPECT_EQ(trace.block_tokens, 512U);
    expect_within(trace.duration_s, 3537, 0.01, "duration");
    expect_within(stats.requests_rate.mean_per_s, 3.40, 0.01, "mean rate");
    expect_within(stats.requests_rate.p95_per_s, 4.90, 0.10, "p95 of the 10 s windows");
    expect_within(stats.requests_rate.max_per_s, 6.70, 0.20, "fullest 10 s window");
    expect_within(stats.input_tokens.mean, 12'035, 0.05, "mean input");
    expect_within(stats.input_tokens.p50, 6'909, 0.06, "p50 input");
    expect_within(stats.input_tokens.p90, 27'367, 0.06, "p90 input");
    expect_within(stats.input_tokens.p99, 85'400, 0.08, "p99 input");
    EXPECT_LE(stats.input_tokens.max, 126'195);
    expect_within(stats.output_tokens.mean, 343, 0.02, "mean output");
    expect_within(stats.output_tokens.p99, 1119, 0.03, "p99 output");
    expect_within(trace.session_count, 8'067, 0.03, "sessions");
    EXPECT_NEAR(static_cast<double>(stats.sessions->multi_turn_requests) / 12'031, 5'975.0 / 12'031,
                0.02);
    expect_within(static_cast<double>(stats.sessions->multi_turn_sessions), 2'011, 0.06,
                  "multi-turn sessions");
    EXPECT_NEAR(stats.sessions->requests.p99, 7, 1);
    expect_within(stats.sessions->gap_s.p50, 123, 0.07, "p50 gap");
    expect_within(stats.sessions->gap_s.p90, 474, 0.10, "p90 gap");
    EXPECT_NEAR(stats.blocks->infinite_hit_ratio, 0.3664, 0.03);
    EXPECT_NEAR(
        static_cast<double>(stats.blocks->used_once) / static_cast<double>(stats.blocks->unique),
        138'646.0 / 182'790, 0.04);
    expect_within(static_cast<double>(stats.blocks->accesses), 288'500, 0.05, "accesses");
    EXPECT_NEAR(stats.turns[0].mean_hit_fraction, 0.192, 0.03);
    EXPECT_NEAR(lru_hit_ratio(trace, 10'000), 0.2116, 0.03);
    EXPECT_EQ(stats.blocks->chain_violations, 0U);
  }
}

TEST(Synthesize, TheSameSeedGivesTheSameBytesAsEver) {
  // A change here changes every synthetic trace made so far: do it on purpose, and say so in the changelog.
  const std::string text = written(must_make({.seed = 1}));
  EXPECT_EQ(hex(sha256(std::as_bytes(std::span(text)))),
            "98860d280c44b13616c36f4fb60802ba080449756422ffbefbb2ecbc10e7025c");
}

TEST(Synthesize, AnotherSeedGivesAnotherTrace) {
  EXPECT_EQ(written(must_make({.seed = 7, .requests = 500})),
            written(must_make({.seed = 7, .requests = 500})));
  EXPECT_NE(written(must_make({.seed = 7, .requests = 500})),
            written(must_make({.seed = 8, .requests = 500})));
}

TEST(Synthesize, WhatIsWrittenReadsBack) {
  const Trace trace = must_make({.seed = 3, .requests = 2000});
  const auto again = parse_trace("synth.jsonl", written(trace), {});
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->block_ids, trace.block_ids);
  EXPECT_EQ(again->session_count, trace.session_count);
  EXPECT_EQ(written(*again), written(trace));
}

TEST(Synthesize, AnyCountKeepsTheRate) {
  for (const std::uint32_t count : {1U, 2U, 100U, 40'000U}) {
    const Trace trace = must_make({.seed = 5, .requests = count});
    EXPECT_EQ(trace.requests.size(), count);
    EXPECT_EQ(trace.requests.front().arrival_ns, 0);
    EXPECT_NEAR(trace.duration_s, count > 1 ? count / 3.40 : 0, 0.01);
  }
}

TEST(Synthesize, AnUnknownKindNamesThoseThatExist) {
  const auto trace = synthesize({.kind = "rag"});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Errc::invalid);
  EXPECT_NE(trace.error().what.find("\"rag\" is unknown; there is: conversation"),
            std::string::npos);
  EXPECT_FALSE(synthesize({.requests = 10'000'001}));
}

}  // namespace
}  // namespace tiercel
