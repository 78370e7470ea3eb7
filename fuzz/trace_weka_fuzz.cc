// Weka sessions, one as JSON or several in a tar: any bytes give one error that names the file, or a trace that keeps
// every promise of trace/request.h; the same with --skip-bad.
#include "trace_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const bool json = size > 0 && data[0] == '{';
  fuzz_trace(data, size, [json](std::unique_ptr<ByteSource> source, BadEntries& bad) {
    const TraceOptions options{.weka_users = 2};
    return json ? read_weka_session(*source, options, bad)
                : read_weka_tar(std::move(source), options, bad);
  });
  return 0;
}
