#include "trace/trace_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/limits.h"

namespace tiercel {

bool has_duplicate(std::span<const std::uint64_t> ids, std::vector<std::uint64_t>& scratch) {
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end()) return false;
  scratch.assign(ids.begin(), ids.end());
  std::sort(scratch.begin(), scratch.end());
  return std::adjacent_find(scratch.begin(), scratch.end()) != scratch.end();
}

Result<void> check_trace_size(std::uint64_t requests, std::uint64_t block_ids) {
  if (requests <= kTraceRequestsMax && block_ids <= kTraceBlockIdsMax) return {};
  return fail(Errc::invalid, fmt::format("more than {} requests or {} block ids; split the trace",
                                         kTraceRequestsMax, kTraceBlockIdsMax));
}

Result<void> TraceBuilder::check(const NewRequest& request, const char* time_field,
                                 const char* ids_field) {
  if (!trace_.requests.empty() && request.arrival_ns < trace_.requests.back().arrival_ns) {
    return fail(
        Errc::invalid,
        fmt::format("field \"{}\": goes back by {} ns behind the request before it; a trace is "
                    "in time order",
                    time_field, trace_.requests.back().arrival_ns - request.arrival_ns));
  }
  if (has_duplicate(request.ids, sorted_)) {
    return fail(
        Errc::invalid,
        fmt::format("field \"{}\": an id occurs twice; ids name a whole prefix, so a prompt "
                    "never repeats one",
                    ids_field));
  }
  return {};
}

Result<void> TraceBuilder::add(const NewRequest& request) {
  TIERCEL_TRY_VOID(
      check_trace_size(trace_.requests.size() + 1, trace_.block_ids.size() + request.ids.size()));
  trace_.requests.push_back(Request{.arrival_ns = request.arrival_ns,
                                    .input_tokens = request.input_tokens,
                                    .output_tokens = request.output_tokens,
                                    .block_first = trace_.block_ids.size(),
                                    .block_count = static_cast<std::uint32_t>(request.ids.size()),
                                    .session = request.session});
  for (const std::uint64_t id : request.ids) trace_.block_ids.push_back(ids_.number(id));
  return {};
}

Trace TraceBuilder::finish() {
  trace_.unique_blocks = ids_.size();
  if (!trace_.requests.empty()) {
    trace_.duration_s = static_cast<double>(trace_.requests.back().arrival_ns -
                                            trace_.requests.front().arrival_ns) /
                        1e9;
  }
  return std::move(trace_);
}

}  // namespace tiercel
