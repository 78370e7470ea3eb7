// Tiercel's own JSONL: a header line, then one request a line. docs/formats/traces.md
#include <fmt/format.h>

#include "trace/formats.h"
#include "trace/id_map.h"
#include "trace/json_records.h"
#include "trace/sessions.h"
#include "trace/trace_builder.h"
#include "trace/write_trace.h"

namespace tiercel {

Result<Trace> read_tiercel(ByteSource& source, BadEntries& bad) {
  TraceBuilder builder;
  JsonRecords json;
  EntryLines lines(source, bad);
  LineReader::Line line;
  TIERCEL_TRY(const bool any, lines.next(line));
  if (!any)
    return fail(Errc::invalid, source.name() + ": holds no header line; write the trace again");
  TiercelHeader header;
  if (const auto read = json.read_tiercel_header(line.text, header); !read) {
    // Without its header no line means anything: never skipped.
    return fail(
        Errc::invalid,
        fmt::format("{}:{}: {}; the first line must be like {{\"schema\":\"tiercel.trace/1\","
                    "\"block_tokens\":512}}",
                    source.name(), line.number, read.error().what));
  }

  IdMap given;  // Sessions the file names, to dense numbers.
  std::uint32_t sessions =
      0;  // Those and the ones of requests without, in order of first appearance.
  std::vector<std::uint32_t> number_of_given;
  RequestRecord record;
  std::uint64_t entries = 0;
  for (;;) {
    const std::uint64_t bad_before = bad.count();
    TIERCEL_TRY(const bool more, lines.next(line));
    entries += bad.count() - bad_before;
    if (!more) break;
    ++entries;
    if (const auto read = json.read_tiercel(line.text, header.block_tokens, record); !read) {
      TIERCEL_TRY_VOID(bad.add(source.name(), line.number, read.error().what));
      continue;
    }
    NewRequest request{.arrival_ns = record.arrival_ns,
                       .input_tokens = record.input_tokens,
                       .output_tokens = record.output_tokens,
                       .ids = record.ids};
    if (const auto fits = builder.check(request, "arrival_ns", "blocks"); !fits) {
      TIERCEL_TRY_VOID(bad.add(source.name(), line.number, fits.error().what));
      continue;
    }
    if (!record.session) {
      request.session = sessions++;
    } else {
      const std::uint32_t index = given.number(*record.session);
      if (index == number_of_given.size()) number_of_given.push_back(sessions++);
      request.session = number_of_given[index];
    }
    TIERCEL_TRY_VOID(builder.add(request));
  }
  if (header.requests && *header.requests != entries) {
    return fail(
        Errc::corrupt,
        fmt::format("{}: holds {} requests where its header says {}; the file is truncated or "
                    "was edited: write it again or correct \"requests\"",
                    source.name(), entries, *header.requests));
  }

  Trace trace = builder.finish();
  trace.format = "tiercel";
  trace.block_tokens = header.block_tokens;
  trace.has_blocks = header.block_tokens > 0;
  if (given.size() > 0) {
    number_turns(trace, sessions);
  } else if (trace.has_blocks) {
    derive_sessions(trace);
  } else {
    separate_sessions(trace);
  }
  return trace;
}

std::string trace_header_line(const Trace& trace, std::string_view source) {
  return fmt::format(
      "{{\"schema\":\"tiercel.trace/1\",\"block_tokens\":{},\"requests\":{},\"source\":\"{}\"}}\n",
      trace.block_tokens, trace.requests.size(), source);
}

std::string trace_request_line(const Trace& trace, const Request& request) {
  std::string line =
      fmt::format("{{\"arrival_ns\":{},\"input_tokens\":{},\"output_tokens\":{},\"session\":{}",
                  request.arrival_ns, request.input_tokens, request.output_tokens, request.session);
  if (trace.has_blocks) {
    line += ",\"blocks\":[";
    bool first = true;
    for (const std::uint32_t id : trace.blocks(request)) {
      if (!first) line += ',';
      first = false;
      line += fmt::format_int(id).c_str();
    }
    line += ']';
  }
  line += "}\n";
  return line;
}

}  // namespace tiercel
