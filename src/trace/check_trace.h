// What every reader promises about a Trace, checked. For fuzz targets and tests.
#pragma once

#include "trace/request.h"

namespace tiercel {

// Empty where all promises of request.h hold, else the first one broken: ids dense in order of first appearance and
// inside the pool, times not negative and in order, sessions dense, turns from 1, at most one partial block.
const char* broken_trace_promise(const Trace& trace);

}  // namespace tiercel
