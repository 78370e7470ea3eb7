#include "apps/tiercel/say.h"

#include <fmt/format.h>

#include <cstdio>

#include "trace/read_trace.h"

namespace tiercel::app {

int complain(const Error& error) {
  fmt::print(stderr, "tiercel: {}\n", error.what);
  const bool machine = error.code == Errc::unavailable || error.code == Errc::io ||
                       error.code == Errc::no_space || error.code == Errc::busy;
  return machine ? kEnvironment : kBadInput;
}

Result<Trace> open_trace(const TraceSource& source) {
  return read_trace(source.path,
                    {.skip_bad = source.skip_bad, .weka_users = source.weka_users, .every = source.every});
}

Result<Trace> read_trace_with_blocks(const TraceSource& source) {
  TIERCEL_TRY(Trace trace, open_trace(source));
  if (!trace.has_blocks) {
    return fail(Errc::invalid,
                fmt::format("{}: a trace of format {} names no blocks, so there is nothing to reuse; "
                            "take a Mooncake, Weka or Tiercel trace",
                            source.path, trace.format));
  }
  return trace;
}

}  // namespace tiercel::app
