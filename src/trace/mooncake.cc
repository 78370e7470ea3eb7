// Mooncake JSONL: one request a line, times in ms, one id per 512 tokens, sessions derived.
#include "trace/formats.h"
#include "trace/json_records.h"
#include "trace/sessions.h"
#include "trace/trace_builder.h"

namespace tiercel {
namespace {

// Traces stamped with wall-clock times start at zero like the others, but on a common multiple of
// the 3 s grid that spread_arrivals() looks for and of the 10 s windows of a report: neither moves.
constexpr std::int64_t kOriginStepNs = std::int64_t{30} * 1'000'000'000;

}  // namespace

Result<Trace> read_mooncake(ByteSource& source, BadEntries& bad) {
  TraceBuilder builder;
  JsonRecords json;
  EntryLines lines(source, bad);
  LineReader::Line line;
  RequestRecord record;
  std::int64_t origin_ns = 0;
  for (;;) {
    TIERCEL_TRY(const bool more, lines.next(line));
    if (!more) break;
    if (const auto read = json.read_mooncake(line.text, record); !read) {
      TIERCEL_TRY_VOID(bad.add(source.name(), line.number, read.error().what));
      continue;
    }
    if (builder.trace().requests.empty())
      origin_ns = record.arrival_ns / kOriginStepNs * kOriginStepNs;
    const NewRequest request{.arrival_ns = record.arrival_ns - origin_ns,
                             .input_tokens = record.input_tokens,
                             .output_tokens = record.output_tokens,
                             .ids = record.ids};
    if (const auto fits = builder.check(request, "timestamp", "hash_ids"); !fits) {
      TIERCEL_TRY_VOID(bad.add(source.name(), line.number, fits.error().what));
      continue;
    }
    TIERCEL_TRY_VOID(builder.add(request));
  }
  Trace trace = builder.finish();
  trace.format = "mooncake";
  trace.block_tokens = kMooncakeBlockTokens;
  trace.has_blocks = true;
  derive_sessions(trace);
  return trace;
}

}  // namespace tiercel
