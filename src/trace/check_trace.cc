#include "trace/check_trace.h"

#include <vector>

namespace tiercel {

const char* broken_trace_promise(const Trace& trace) {
  std::uint64_t next_new = 0;
  std::int64_t last_ns = 0;
  std::uint64_t pool_used = 0;
  std::vector<bool> session_seen(trace.session_count, false);
  for (const Request& request : trace.requests) {
    if (request.arrival_ns < last_ns) return "times in order, from zero on";
    last_ns = request.arrival_ns;
    if (request.block_first != pool_used) return "requests own the pool in order";
    pool_used += request.block_count;
    if (pool_used > trace.block_ids.size()) return "block ids inside the pool";
    if (request.session >= trace.session_count) return "sessions dense";
    session_seen[request.session] = true;
    if (request.turn < 1) return "turns from 1";
    if (!trace.has_blocks && request.block_count > 0) return "no blocks where the format has none";
    if (trace.has_blocks) {
      const std::uint64_t full = request.input_tokens / trace.block_tokens;
      if (request.block_count != full && request.block_count != full + 1) return "one id per block";
    }
    for (const std::uint32_t id : trace.blocks(request)) {
      if (id > next_new) return "ids in order of first appearance";
      if (id == next_new) ++next_new;
    }
  }
  if (pool_used != trace.block_ids.size()) return "every id belongs to a request";
  if (next_new != trace.unique_blocks) return "unique_blocks";
  for (const bool seen : session_seen) {
    if (!seen) return "every session has a request";
  }
  return "";
}

}  // namespace tiercel
