#include "apps/tiercel/say.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "base/sha256.h"
#include "trace/read_trace.h"

namespace tiercel::app {

int complain(const Error& error) {
  fmt::print(stderr, "tiercel: {}\n", error.what);
  const bool machine = error.code == Errc::unavailable || error.code == Errc::io ||
                       error.code == Errc::no_space || error.code == Errc::busy;
  return machine ? kEnvironment : kBadInput;
}

Result<Trace> open_trace(const TraceSource& source) {
  const TraceSource defaults;
  TIERCEL_TRY(Trace trace, read_trace(source.path, {.skip_bad = source.skip_bad,
                                                    .weka_users = source.weka_users,
                                                    .every = source.every}));
  const bool composed = source.every != defaults.every || source.weka_users != defaults.weka_users;
  if (composed && trace.format != "weka") {
    return fail(
        Errc::invalid,
        fmt::format(
            "{}: --every and --weka-users compose Weka sessions; this trace is of format {}",
            source.path, trace.format));
  }
  return trace;
}

Result<Trace> read_trace_with_blocks(const TraceSource& source) {
  TIERCEL_TRY(Trace trace, open_trace(source));
  if (!trace.has_blocks) {
    return fail(
        Errc::invalid,
        fmt::format("{}: a trace of format {} names no blocks, so there is nothing to reuse; "
                    "take a Mooncake, Weka or Tiercel trace",
                    source.path, trace.format));
  }
  return trace;
}

Result<std::string> file_sha256(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  Sha256 hash;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) return fail(Errc::io, fmt::format("{}: could not be read", path));
  return hex(hash.finish());
}

}  // namespace tiercel::app
