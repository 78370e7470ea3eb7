// Tiercel's own JSONL: any bytes give one error that names the file, or a trace that keeps every promise of
// trace/request.h and that comes back equal when it is written and read again.
#include "trace/write_trace.h"
#include "trace_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  fuzz_trace(data, size, [](std::unique_ptr<ByteSource> source, BadEntries& bad) {
    return read_tiercel(*source, bad);
  });
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  BadEntries bad(true);
  const auto trace = read_tiercel(*memory_source("fuzz", bytes), bad);
  if (!trace) return 0;
  const auto write = [](const Trace& written) {
    std::string text = trace_header_line(written, "fuzz");
    for (const Request& request : written.requests) text += trace_request_line(written, request);
    return text;
  };
  const std::string text = write(*trace);
  BadEntries none(false);
  const auto again = read_tiercel(*memory_source("fuzz", text), none);
  TIERCEL_CHECK(again && again->block_ids == trace->block_ids && write(*again) == text);
  return 0;
}
