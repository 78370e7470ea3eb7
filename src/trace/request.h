// One request stream, whatever the format of the trace: what residency, replay and statistics read.
//
// Shape   Trace holds requests in time order (ties in file order) and one pool of block ids; a request owns the range
//         [block_first, block_first + block_count) of the pool, head of the prompt first.
// Ids     Dense: 0 .. unique_blocks - 1 in order of first appearance over the *requests as ordered*. Equal ids mean equal
//         prefix (the formats promise prefix-chained ids), so an id names a position of a chain, not just a block.
//         Ids that are local to a session in the file are made distinct between sessions.
// Units   Times are integer nanoseconds since the start of the trace, lengths are tokens.
// Threads A plain value: immutable once read.
// Source  docs/formats/traces.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tiercel {

struct Request {
  std::int64_t arrival_ns =
      0;  // As in the file; spread_arrivals() (trace/arrivals.h) undoes a coarse grid.
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint64_t block_first = 0;
  std::uint32_t block_count = 0;
  std::uint32_t session =
      0;  // Dense. Given by the format, else derived by prefix extension, else one per request.
  std::uint32_t turn =
      1;  // 1-based position within its session; derived ones are trees: its depth.
};

struct Trace {
  std::string format;              // "mooncake", "weka", "azure", "tiercel".
  std::uint32_t block_tokens = 0;  // 0: the format has no blocks (no reuse information).
  bool has_blocks = false;
  std::uint32_t session_count = 0;
  std::uint64_t unique_blocks = 0;
  std::uint64_t skipped_lines = 0;  // Malformed entries passed over by --skip-bad.
  double duration_s = 0;            // Last arrival minus first, as in the file.
  std::vector<Request> requests;
  std::vector<std::uint32_t> block_ids;

  std::span<const std::uint32_t> blocks(const Request& request) const {
    return std::span(block_ids).subspan(request.block_first, request.block_count);
  }
};

}  // namespace tiercel
