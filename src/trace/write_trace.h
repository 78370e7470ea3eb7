// Writes a trace in Tiercel's own JSONL (docs/formats/traces.md), line by line: the caller owns the output.
//
// What is written reads back to the same Trace, except `turn`: it is the position within the session, so a derived
// session tree (trace/sessions.h) comes back as a plain list.
#pragma once

#include <string>
#include <string_view>

#include "trace/request.h"

namespace tiercel {

// The first line. `source` says where the trace comes from: plain text without quotes or backslashes.
std::string trace_header_line(const Trace& trace, std::string_view source);

std::string trace_request_line(const Trace& trace, const Request& request);

}  // namespace tiercel
