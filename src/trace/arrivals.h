// Arrival times as a replay uses them: a coarse grid in the file is spread, or every run starts with artificial bursts.
//
// Source  docs/formats/traces.md, section "mooncake": the arrivals of the Mooncake conversation trace lie on such a grid.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/request.h"

namespace tiercel {

// Where more than 99 % of the arrivals lie within 5 ms of a multiple of 3,000 ms, the slot of an arrival t is
// round(t / 3000 ms) and the i-th of the n requests of a slot (in trace order) arrives at 3000 * (slot + i / n) ms, the
// fraction rounded down to a nanosecond; elsewhere the times are those of the trace. One per request, in trace order,
// never decreasing.
std::vector<std::int64_t> spread_arrivals(const Trace& trace);

}  // namespace tiercel
