#include "trace/arrivals.h"

namespace tiercel {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kGridNs = 3000 * kNsPerMs;
constexpr std::int64_t kNearNs = 5 * kNsPerMs;

std::int64_t slot_of(std::int64_t at_ns) { return (at_ns + kGridNs / 2) / kGridNs; }

bool lies_on_grid(const Trace& trace) {
  std::uint64_t near = 0;
  for (const Request& request : trace.requests) {
    const std::int64_t off_ns = request.arrival_ns - slot_of(request.arrival_ns) * kGridNs;
    if (off_ns >= -kNearNs && off_ns <= kNearNs) ++near;
  }
  return near * 100 > trace.requests.size() * 99;
}

}  // namespace

std::vector<std::int64_t> spread_arrivals(const Trace& trace) {
  std::vector<std::int64_t> spread;
  spread.reserve(trace.requests.size());
  for (const Request& request : trace.requests) spread.push_back(request.arrival_ns);
  if (!lies_on_grid(trace)) return spread;
  // The trace is in time order, so the requests of a slot are neighbours.
  for (std::size_t first = 0; first < spread.size();) {
    const std::int64_t slot = slot_of(spread[first]);
    std::size_t last = first + 1;
    while (last < spread.size() && slot_of(spread[last]) == slot) ++last;
    const auto count = static_cast<std::int64_t>(last - first);
    for (std::int64_t i = 0; i < count; ++i) {
      spread[first + static_cast<std::size_t>(i)] = slot * kGridNs + kGridNs * i / count;
    }
    first = last;
  }
  return spread;
}

}  // namespace tiercel
