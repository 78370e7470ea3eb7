#include "replay/indicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_set>

namespace tiercel {
namespace {

constexpr std::uint64_t kPeakShareDivisor = 20;  // 5 %.

using Rows = std::vector<const RequestOutcome*>;

std::int64_t window_of(const RequestOutcome& request) { return request.arrival_ns / kWindowNs; }

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

bool refilled(const RequestOutcome& request) {
  return request.refill_tier != RefillTier::none &&
         (request.fate == Fate::completed || request.refill_ns > 0);
}

struct PeakWindows {
  std::uint64_t windows = 0, taken = 0;
  std::unordered_set<std::int64_t> chosen;
};

// Memory follows the requests, not the span of time: a trace may be sparse over years.
PeakWindows choose_peak_windows(std::span<const RequestOutcome> requests) {
  PeakWindows peak;
  if (requests.empty()) return peak;
  std::map<std::int64_t, std::uint64_t> arrivals;
  for (const RequestOutcome& request : requests) ++arrivals[window_of(request)];
  peak.windows = static_cast<std::uint64_t>(arrivals.rbegin()->first) + 1;
  peak.taken = std::max<std::uint64_t>(1, peak.windows / kPeakShareDivisor);
  std::vector<std::pair<std::int64_t, std::uint64_t>> order(arrivals.begin(), arrivals.end());
  std::ranges::stable_sort(order, std::ranges::greater(),
                           &std::pair<std::int64_t, std::uint64_t>::second);
  // Where more windows are taken than have arrivals, the rest are empty ones and add no request.
  if (order.size() > peak.taken) order.resize(peak.taken);
  for (const auto& [window, count] : order) peak.chosen.insert(window);
  return peak;
}

Rejections count_rejections(const Rows& rows) {
  Rejections out{.arrivals = rows.size()};
  for (const RequestOutcome* request : rows) {
    out.count += request->fate == Fate::rejected;
    out.too_large += request->fate == Fate::too_large;
    out.preemptions += request->preemptions;
  }
  return out;
}

RefillSeconds refill_seconds(const Rows& rows) {
  std::vector<double> warm, cold;
  for (const RequestOutcome* request : rows) {
    if (!refilled(*request)) continue;
    (request->refill_tier == RefillTier::cold ? cold : warm).push_back(seconds(request->refill_ns));
  }
  return {.warm = percentiles(std::move(warm)), .cold = percentiles(std::move(cold))};
}

TurnBin summarize_bin(std::uint32_t turn_first, const Rows& rows) {
  TurnBin bin{.turn_first = turn_first, .n = rows.size()};
  std::vector<double> latencies;
  for (const RequestOutcome* request : rows) {
    latencies.push_back(seconds(request->wait_ns + request->refill_ns));
    if (request->refill_tier == RefillTier::warm) bin.warm_refill_s += seconds(request->refill_ns);
    if (request->refill_tier == RefillTier::cold) bin.cold_refill_s += seconds(request->refill_ns);
  }
  bin.p95_s = percentiles(std::move(latencies)).p95;
  return bin;
}

Drift turn_drift(const Rows& rows) {
  std::map<std::uint32_t, Rows> bins;  // By the first turn of the bin.
  for (const RequestOutcome* request : rows) {
    if (request->fate != Fate::completed) continue;
    bins[std::bit_floor(std::max(request->turn, 1U))].push_back(request);
  }
  constexpr std::uint32_t kBaseTurn = 2;
  Drift drift;
  const std::size_t base_requests = bins[kBaseTurn].size();
  if (base_requests < kDriftRequestsMin) {
    drift.reason = fmt::format("turns 2-3 have {} completed requests, fewer than {}", base_requests,
                               kDriftRequestsMin);
    return drift;
  }
  drift.base = summarize_bin(kBaseTurn, bins[kBaseTurn]);
  for (const auto& [turn_first, members] : bins) {
    if (turn_first <= kBaseTurn || members.size() < kDriftRequestsMin) continue;
    drift.last = summarize_bin(turn_first, members);
  }
  if (drift.last.n == 0) {
    drift.reason =
        fmt::format("no bin of later turns has {} completed requests", kDriftRequestsMin);
  } else if (drift.base.p95_s < seconds(kDriftBaseNsMin)) {
    drift.reason = fmt::format("P95 of wait + refill in turns 2-3 is {:.3g} ms, below 1 ms",
                               drift.base.p95_s * 1e3);
  } else {
    drift.ratio = drift.last.p95_s / drift.base.p95_s;
  }
  return drift;
}

IndicatorSlice slice_of(const Rows& rows) {
  return {.rejections = count_rejections(rows),
          .refill = refill_seconds(rows),
          .drift = turn_drift(rows)};
}

double refill_share(const Rows& rows) {
  double refill = 0, held = 0;
  for (const RequestOutcome* request : rows) {
    if (request->fate != Fate::completed) continue;
    refill += seconds(request->refill_ns);
    held += seconds(std::max(request->run_ns, request->refill_ns + request->prefill_ns));
  }
  return held > 0 ? refill / held : 0;
}

}  // namespace

double Rejections::ratio() const {
  return arrivals == 0 ? 0 : static_cast<double>(count) / static_cast<double>(arrivals);
}

double Rejections::too_large_ratio() const {
  return arrivals == 0 ? 0 : static_cast<double>(too_large) / static_cast<double>(arrivals);
}

double nearest_rank(std::span<const double> sorted, unsigned percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

Percentiles percentiles(std::vector<double> values) {
  Percentiles out{.n = values.size()};
  if (values.empty()) return out;
  std::ranges::sort(values);
  out.p50 = nearest_rank(values, 50);
  out.p95 = nearest_rank(values, 95);
  out.p99 = nearest_rank(values, 99);
  return out;
}

Indicators compute_indicators(const ReplayOutcome& outcome) {
  const PeakWindows peak = choose_peak_windows(outcome.requests);
  Rows all, at_peak;
  std::unordered_set<std::int64_t> rejecting;
  for (const RequestOutcome& request : outcome.requests) {
    all.push_back(&request);
    if (peak.chosen.contains(window_of(request))) at_peak.push_back(&request);
    if (request.fate == Fate::rejected) rejecting.insert(window_of(request));
  }
  return {.overall = slice_of(all),
          .p95_traffic = slice_of(at_peak),
          .windows = peak.windows,
          .peak_windows = peak.taken,
          .rejecting_windows = rejecting.size(),
          .refill_share = refill_share(all)};
}

}  // namespace tiercel
