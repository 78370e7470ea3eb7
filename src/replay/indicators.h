// The three indicators of a replay, overall and at P95 traffic: what says whether the placement keeps its promise.
//
// Rejections  Requests turned away after wait_limit, over arrivals. too_large (can never fit) stands apart, and so do
//             preemptions.
// Refill      From submit of the first load to the last block delivered, over the requests that load at least one block
//             from below hot, booked to the slowest tier touched. A request that was turned away before its loads were over
//             has no refill.
// Drift       P95 of (wait + refill) of the completed requests in the last turn bin (1, 2-3, 4-7, 8-15, ...) that has at
//             least 50 of them, over the same of bin 2-3. Requests turned away are counted as rejections, not here.
// P95 traffic Of the 10-second windows from 0 to the last arrival, empty ones included, the floor(5 %) with most arrivals, at
//             least one, ties to the earlier. A request belongs to the window of its arrival.
// Percentile  Nearest rank: the ceil(p * n / 100)-th smallest of n values; always a value that occurred.
// Basis       Virtual time: `modelled`, in both drivers.
// Threads     Pure functions.
// Source      docs/formats/report.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replay/outcome.h"

namespace tiercel {

inline constexpr std::int64_t kWindowNs = 10'000'000'000;
inline constexpr std::size_t kDriftRequestsMin = 50;
inline constexpr std::int64_t kDriftBaseNsMin =
    1'000'000;  // Below a millisecond a ratio says nothing.

struct Rejections {
  std::uint64_t arrivals = 0, count = 0, too_large = 0, preemptions = 0;

  double ratio() const;  // count / arrivals; 0 where nothing arrived.
  double too_large_ratio() const;
};

struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;  // Meaningless at n = 0.
  std::uint64_t n = 0;
};

struct RefillSeconds {
  Percentiles warm, cold;
};

// Requests of turns [turn_first, 2 * turn_first).
struct TurnBin {
  std::uint32_t turn_first = 0;
  std::uint64_t n = 0;
  double p95_s = 0;
  double warm_refill_s = 0, cold_refill_s = 0;  // Sums: which tier to blame.
};

struct Drift {
  std::optional<double> ratio;
  std::string reason;  // Why there is no ratio.
  TurnBin base, last;  // Turns 2-3 and the last bin that counts; n = 0 where there is none.
};

struct IndicatorSlice {
  Rejections rejections;
  RefillSeconds refill;
  Drift drift;
};

struct Indicators {
  IndicatorSlice overall, p95_traffic;
  std::uint64_t windows = 0, peak_windows = 0;
  std::uint64_t rejecting_windows = 0;  // Windows with at least one rejection.
  // Share of the time that completed requests hold hot memory in which they only wait for their loads. Where run_ns is not
  // filled in, the held time is taken as refill + prefill.
  double refill_share = 0;
};

Indicators compute_indicators(const ReplayOutcome& outcome);

// Nearest rank; `sorted` ascending and not empty, percent in 1..100.
double nearest_rank(std::span<const double> sorted, unsigned percent);
Percentiles percentiles(std::vector<double> values);

}  // namespace tiercel
