#include "trace/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tiercel {
namespace {

constexpr double kNsPerS = 1e9;
constexpr std::int64_t kWindowNs = 10'000'000'000;
constexpr double kWindowS = 10;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / kNsPerS; }

// The value at 0-based `rank` of sorted weighted values.
class RankedValues {
 public:
  explicit RankedValues(std::vector<WeightedValue> values) : values_(std::move(values)) {
    std::sort(values_.begin(), values_.end(),
              [](const WeightedValue& a, const WeightedValue& b) { return a.value < b.value; });
    for (WeightedValue& value : values_) {
      sum_ += value.value * static_cast<double>(value.count);
      total_ += value.count;
      value.count = total_;  // From now on: how many values are at or below this one.
    }
  }

  double mean() const { return sum_ / static_cast<double>(total_); }
  double max() const { return values_.back().value; }
  std::uint64_t total() const { return total_; }

  double quantile(double q) const {
    const double rank = static_cast<double>(total_ - 1) * q;
    const auto below = static_cast<std::uint64_t>(rank);
    const double low = at(below);
    return low + (at(std::min(below + 1, total_ - 1)) - low) * (rank - static_cast<double>(below));
  }

 private:
  double at(std::uint64_t rank) const {
    return std::upper_bound(
               values_.begin(), values_.end(), rank,
               [](std::uint64_t r, const WeightedValue& value) { return r < value.count; })
        ->value;
  }

  std::vector<WeightedValue> values_;
  std::uint64_t total_ = 0;
  double sum_ = 0;
};

// Sums per window. Only windows that hold something are kept: a trace may span years.
RateStatistics rate(const Trace& trace, std::uint32_t (*weight)(const Request&)) {
  RateStatistics result;
  std::vector<WeightedValue> windows;
  std::int64_t last_window = -1;
  double total = 0;
  for (const Request& request : trace.requests) {
    const std::int64_t window = request.arrival_ns / kWindowNs;
    if (window != last_window) windows.push_back({.value = 0});
    last_window = window;
    windows.back().value += weight(request);
    total += weight(request);
  }
  const auto count = static_cast<std::uint64_t>(last_window + 1);
  if (count > windows.size()) windows.push_back({.value = 0, .count = count - windows.size()});
  if (count == 0) return result;
  const RankedValues ranked(std::move(windows));
  result.mean_per_s = trace.duration_s > 0 ? total / trace.duration_s : 0;
  result.p95_per_s = ranked.quantile(0.95) / kWindowS;
  result.max_per_s = ranked.max() / kWindowS;
  return result;
}

SessionStatistics session_statistics(const Trace& trace) {
  SessionStatistics result;
  std::vector<std::uint32_t> sizes(trace.session_count, 0);
  std::vector<std::int64_t> last_ns(trace.session_count, 0);
  std::vector<WeightedValue> gaps;
  for (const Request& request : trace.requests) {
    if (sizes[request.session]++ > 0) {
      gaps.push_back({.value = seconds(request.arrival_ns - last_ns[request.session])});
    }
    last_ns[request.session] = request.arrival_ns;
  }
  std::vector<WeightedValue> counts;
  for (const std::uint32_t size : sizes) {
    counts.push_back({.value = static_cast<double>(size)});
    if (size < 2) continue;
    ++result.multi_turn_sessions;
    result.multi_turn_requests += size;
  }
  result.requests = distribution(std::move(counts));
  result.gap_s = distribution(std::move(gaps));
  return result;
}

// Walks the accesses once. `hits` gets the leading hits of each request.
BlockStatistics block_statistics(const Trace& trace, std::vector<std::uint32_t>& hits) {
  constexpr std::uint32_t kUnseen = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint32_t kHead = kUnseen - 1;
  BlockStatistics result;
  result.unique = trace.unique_blocks;
  std::vector<std::uint32_t> uses(trace.unique_blocks, 0);
  std::vector<std::uint32_t> predecessor(trace.unique_blocks, kUnseen);
  std::vector<std::int64_t> last_ns(trace.unique_blocks, 0);
  std::vector<WeightedValue> gaps;
  std::uint64_t hit_tokens = 0;
  std::uint64_t tokens = 0;
  hits.reserve(trace.requests.size());
  for (const Request& request : trace.requests) {
    std::uint32_t leading = 0;
    bool miss = false;
    std::uint32_t before = kHead;
    std::int64_t gap_before_ns = -1;
    for (const std::uint32_t id : trace.blocks(request)) {
      const bool seen = uses[id]++ > 0;
      if (!seen) {
        predecessor[id] = before;
      } else if (predecessor[id] != before) {
        ++result.chain_violations;
      }
      miss = miss || !seen;
      if (!miss) ++leading;
      if (seen) {  // Blocks of one prompt mostly share their last access: count them together.
        const std::int64_t gap_ns = request.arrival_ns - last_ns[id];
        if (gap_ns == gap_before_ns) {
          ++gaps.back().count;
        } else {
          gaps.push_back({.value = seconds(gap_ns)});
        }
        gap_before_ns = gap_ns;
      }
      last_ns[id] = request.arrival_ns;
      before = id;
    }
    hits.push_back(leading);
    result.accesses += request.block_count;
    result.hits += leading;
    if (leading == 0) ++result.requests_without_hit;
    hit_tokens +=
        std::min<std::uint64_t>(request.input_tokens, std::uint64_t{leading} * trace.block_tokens);
    tokens += request.input_tokens;
  }
  result.used_once =
      static_cast<std::uint64_t>(std::count(uses.begin(), uses.end(), std::uint32_t{1}));
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  result.infinite_hit_ratio = ratio(result.hits, result.accesses);
  result.token_weighted_hit_ratio = ratio(hit_tokens, tokens);
  result.reuse_gap_s = distribution(std::move(gaps));
  return result;
}

std::vector<TurnBin> turn_bins(const Trace& trace, const std::vector<std::uint32_t>& hits) {
  std::vector<TurnBin> bins;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const Request& request = trace.requests[i];
    const auto index = static_cast<std::size_t>(std::bit_width(request.turn)) - 1;
    while (bins.size() <= index) bins.push_back({.from = 1U << bins.size()});
    TurnBin& bin = bins[index];
    ++bin.requests;
    bin.mean_input_tokens += request.input_tokens;
    if (!hits.empty() && request.block_count > 0) {
      bin.mean_hit_fraction += static_cast<double>(hits[i]) / request.block_count;
    }
  }
  for (TurnBin& bin : bins) {
    if (bin.requests == 0) continue;
    bin.mean_input_tokens /= static_cast<double>(bin.requests);
    bin.mean_hit_fraction /= static_cast<double>(bin.requests);
  }
  return bins;
}

Distribution lengths(const Trace& trace, std::uint32_t Request::*length) {
  std::vector<WeightedValue> values;
  values.reserve(trace.requests.size());
  for (const Request& request : trace.requests) {
    values.push_back({.value = static_cast<double>(request.*length)});
  }
  return distribution(std::move(values));
}

}  // namespace

Distribution distribution(std::vector<WeightedValue> values) {
  if (values.empty()) return {};
  const RankedValues ranked(std::move(values));
  return {.mean = ranked.mean(),
          .p50 = ranked.quantile(0.50),
          .p90 = ranked.quantile(0.90),
          .p95 = ranked.quantile(0.95),
          .p99 = ranked.quantile(0.99),
          .max = ranked.max()};
}

bool knows_sessions(const Trace& trace) {
  return trace.has_blocks || trace.session_count < trace.requests.size();
}

TraceStatistics trace_statistics(const Trace& trace) {
  TraceStatistics result;
  result.input_tokens = lengths(trace, &Request::input_tokens);
  result.output_tokens = lengths(trace, &Request::output_tokens);
  result.requests_rate = rate(trace, [](const Request&) { return 1U; });
  result.input_token_rate =
      rate(trace, [](const Request& request) { return request.input_tokens; });
  std::vector<std::uint32_t> hits;
  if (trace.has_blocks) result.blocks = block_statistics(trace, hits);
  if (knows_sessions(trace)) {
    result.sessions = session_statistics(trace);
    result.turns = turn_bins(trace, hits);
  }
  return result;
}

}  // namespace tiercel
