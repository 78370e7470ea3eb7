// Reads a trace of any known format into one request stream. The format is told by the content, not by the name.
//
//   mooncake  JSONL, 512-token blocks, no sessions (derived)
//   tiercel   JSONL with a header, any block size
//   weka      sessions with 64-token ids, in a tar or one alone
//   azure     CSV, lengths and times only
//
// Each plain, gzip or zstd. docs/formats/traces.md specifies them and the composition of Weka sessions.
//
// Cost    One pass, streaming; memory is what the Trace holds plus one line or session (trace/limits.h).
// Errors  invalid  a malformed entry: "FILE:LINE: field "F": what; remedy"; not a trace; over a limit; no request left
//         corrupt  the compressed data is damaged or ends early
//         io       the file cannot be opened or read
// Threads Pure functions: call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/request.h"

namespace tiercel {

struct TraceOptions {
  // Pass over malformed entries (a line; a whole session of Weka, whose later requests build on the
  // broken one) and count them in skipped_lines. Damaged compression and limits stay errors.
  bool skip_bad = false;
  std::uint32_t weka_users = 64;  // Who take the sessions in turn. At least 1.
  std::uint32_t every = 1;        // Weka: takes the sessions 0, every, 2 * every ... At least 1.
};

Result<Trace> read_trace(const std::string& path, const TraceOptions& options);

// The same from memory (compressed or not); `name` stands for the file in messages.
Result<Trace> parse_trace(const std::string& name, std::string_view bytes,
                          const TraceOptions& options);

}  // namespace tiercel
