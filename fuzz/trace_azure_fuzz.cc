// Azure CSV: any bytes give one error that names the file, or a trace that keeps every promise of
// trace/request.h; the same with --skip-bad.
#include "trace_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  fuzz_trace(data, size, [](std::unique_ptr<ByteSource> source, BadEntries& bad) {
    return read_azure(*source, bad);
  });
  return 0;
}
