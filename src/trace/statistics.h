// What `trace info` says about a trace, and what a synthetic trace is held against.
//
// Terms   Distributions interpolate linearly between the two nearest ranks: rank (n - 1) * q, as numpy does by default.
//         A hit is a leading block that an earlier request brought (an infinite cache, prefix semantics, requests in
//         order); the denominator is every block id of the request, a partial last one included.
//         Windows are 10 s of the times in the file, from zero to the last arrival, empty ones counted.
// Empty   A figure the format cannot know is nullopt: sessions and blocks of a trace that lists none.
// Source  docs/formats/traces.md; shared_traces_test.cc holds the figures on the published traces.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/request.h"

namespace tiercel {

struct Distribution {
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

// Of a value that occurs `count` times. For percentiles over millions of values of which few differ.
struct WeightedValue {
  double value = 0;
  std::uint64_t count = 1;
};

// All zero where there are no values. Sorts them.
Distribution distribution(std::vector<WeightedValue> values);

struct RateStatistics {
  double mean_per_s = 0;  // Over duration_s; 0 where that is 0.
  double p95_per_s = 0;   // Of the windows.
  double max_per_s = 0;
};

struct SessionStatistics {
  std::uint64_t multi_turn_sessions = 0;
  std::uint64_t multi_turn_requests = 0;
  Distribution requests;  // Per session.
  Distribution gap_s;     // Between one request of a session and the next one in time.
};

struct TurnBin {
  std::uint32_t from = 1;  // Turns from .. 2 * from - 1.
  std::uint64_t requests = 0;
  double mean_input_tokens = 0;
  double mean_hit_fraction = 0;  // Mean over requests of hits / blocks; 0 where blocks are unknown.
};

struct BlockStatistics {
  std::uint64_t accesses = 0;
  std::uint64_t hits = 0;
  std::uint64_t unique = 0;
  std::uint64_t used_once = 0;
  std::uint64_t requests_without_hit = 0;
  std::uint64_t chain_violations =
      0;  // Accesses whose predecessor differs from that block's first one: 0 where ids
          // are prefix-chained, as every reader of a trace assumes.
  double infinite_hit_ratio = 0;  // hits / accesses.
  double token_weighted_hit_ratio = 0;
  Distribution
      reuse_gap_s;  // Over every access to a block seen before: time since its last access.
};

struct TraceStatistics {
  Distribution input_tokens;
  Distribution output_tokens;
  RateStatistics requests_rate;
  RateStatistics input_token_rate;
  std::optional<SessionStatistics> sessions;
  std::vector<TurnBin> turns;  // Empty where sessions are unknown.
  std::optional<BlockStatistics> blocks;
};

// False where neither the format names sessions nor blocks tell who continues whom: one session per request is then a
// stand-in of the reader, not a finding.
bool knows_sessions(const Trace& trace);

TraceStatistics trace_statistics(const Trace& trace);

}  // namespace tiercel
