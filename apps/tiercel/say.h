// What the commands have in common: how errors are told, and how a trace is opened.
#pragma once

#include <string>

#include "apps/tiercel/commands.h"
#include "base/result.h"
#include "trace/request.h"

namespace tiercel::app {

// One line on standard error; returns the exit code that fits: environment for the machine's refusals, else bad input.
int complain(const Error& error);

// The trace, with the reading options of the command line.
Result<Trace> open_trace(const TraceSource& source);

// The same for commands that look at blocks. Errors: invalid where the format names none.
Result<Trace> read_trace_with_blocks(const TraceSource& source);

// SHA-256 of a file as stored, in hex. Errors: io.
Result<std::string> file_sha256(const std::string& path);

}  // namespace tiercel::app
