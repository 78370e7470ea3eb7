// Collects the requests of a trace: dense ids, limits, order. The one place where a Trace grows.
//
// Errors  invalid  the request contradicts the ones before it, or the trace is over a limit
// Threads one thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "trace/id_map.h"
#include "trace/request.h"

namespace tiercel {

struct NewRequest {
  std::int64_t arrival_ns = 0;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::span<const std::uint64_t> ids = {};  // Head of the prompt first.
  std::uint32_t session = 0;
};

class TraceBuilder {
 public:
  // Refuses an id that occurs twice in one request, and a time before the last one added; the trace
  // is then unchanged. `time_field` and `ids_field` are what the format calls them, for the
  // message.
  Result<void> check(const NewRequest& request, const char* time_field, const char* ids_field);

  // After check(). Fails only at a limit of trace/limits.h, which is final.
  Result<void> add(const NewRequest& request);

  Trace& trace() { return trace_; }
  // Sets duration and unique blocks, and hands the trace out.
  Trace finish();

 private:
  Trace trace_;
  IdMap ids_;
  std::vector<std::uint64_t> sorted_;  // Scratch.
};

// True where some id occurs twice. `scratch` is overwritten where the ids do not simply ascend.
bool has_duplicate(std::span<const std::uint64_t> ids, std::vector<std::uint64_t>& scratch);

// Errors invalid where a trace of these counts is over the limits.
Result<void> check_trace_size(std::uint64_t requests, std::uint64_t block_ids);

}  // namespace tiercel
