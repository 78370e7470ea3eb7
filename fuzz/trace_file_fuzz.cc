// A trace file as a user hands it over, compressed or not: its format is detected, and any bytes give one error that
// names the file or a sound trace.
#include "trace/read_trace.h"
#include "trace_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto strict = parse_trace("fuzz", bytes, {});
  check_outcome(strict);
  const auto lenient = parse_trace("fuzz", bytes, {.skip_bad = true, .weka_users = 3, .every = 2});
  check_outcome(lenient);
  return 0;
}
