#include "trace/read_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "trace/formats.h"
#include "trace/json_locate.h"
#include "trace/limits.h"

namespace tiercel {
namespace {

// What is looked at to tell the format: a few requests of any of them, and the whole first tar
// header.
constexpr std::size_t kHeadBytes = std::size_t{64} << 10;

constexpr const char* kSkipRemedy = "; correct or remove it, or read with --skip-bad";

enum class Format { unknown, mooncake, tiercel, azure, weka_tar, weka_session };

Format detect(std::string_view head) {
  constexpr std::size_t kTarMagicAt = 257;
  if (head.size() > kTarMagicAt && head.substr(kTarMagicAt).starts_with("ustar"))
    return Format::weka_tar;
  const std::string_view first_line = head.substr(0, head.find('\n'));
  if (first_line.starts_with("TIMESTAMP")) return Format::azure;
  const auto has = [](std::string_view text, const char* word) {
    return text.find(word) != std::string_view::npos;
  };
  if (has(first_line, "\"schema\"") || has(first_line, "tiercel.trace/")) return Format::tiercel;
  if (has(head, "\"block_size\"") && has(head, "\"requests\"")) return Format::weka_session;
  if (has(head, "\"timestamp\"") || has(head, "\"hash_ids\"")) return Format::mooncake;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  // Some other JSON: as Mooncake it gets an error that says which field is missing.
  if (first != std::string_view::npos && (head[first] == '{' || head[first] == '['))
    return Format::mooncake;
  return Format::unknown;
}

Result<Trace> read_source(std::unique_ptr<ByteSource> source, const TraceOptions& options) {
  if (options.weka_users == 0 || options.every == 0) {
    return fail(Errc::invalid, "--weka-users and --every must be at least 1");
  }
  const std::string name = source->name();
  TIERCEL_TRY(source, open_decompressed(std::move(source)));
  std::string head(kHeadBytes, '\0');
  TIERCEL_TRY(const std::size_t head_bytes, read_full(*source, head));
  head.resize(head_bytes);
  if (head.empty()) {
    return fail(Errc::invalid,
                name + ": is empty after decompression; fetch or write the trace again");
  }
  if (head.starts_with("\xef\xbb\xbf")) {
    return fail(
        Errc::invalid,
        name +
            ":1: starts with a UTF-8 byte order mark; remove it (sed -i '1s/^\\xEF\\xBB\\xBF//')");
  }
  const Format format = detect(head);
  const std::string shown = printable(head, 16);
  source = prepend_source(std::move(head), std::move(source));

  BadEntries bad(options.skip_bad);
  Result<Trace> trace = [&]() -> Result<Trace> {
    switch (format) {
      case Format::mooncake:
        return read_mooncake(*source, bad);
      case Format::tiercel:
        return read_tiercel(*source, bad);
      case Format::azure:
        return read_azure(*source, bad);
      case Format::weka_tar:
        return read_weka_tar(std::move(source), options, bad);
      case Format::weka_session:
        return read_weka_session(*source, options, bad);
      case Format::unknown:
        break;
    }
    return fail(
        Errc::invalid,
        fmt::format("{}: starts with \"{}\", no known trace format; known are Mooncake JSONL, a "
                    "tar of Weka sessions, Azure CSV and tiercel.trace/1 JSONL",
                    name, shown));
  }();
  if (!trace) {
    Error error = trace.error();
    if (!error.what.starts_with(name)) error.what = name + ": " + error.what;
    return error;
  }
  trace->skipped_lines = bad.count();
  if (trace->requests.empty()) {
    return fail(
        Errc::invalid,
        fmt::format("{}: holds no valid request ({} malformed entries skipped); fetch or write the "
                    "trace again",
                    name, bad.count()));
  }
  return trace;
}

Result<Trace> read_guarded(std::unique_ptr<ByteSource> source, const TraceOptions& options) {
  // The limits keep this from happening on the machines we mean; a smaller one gets an error, not a
  // crash.
  try {
    return read_source(std::move(source), options);
  } catch (const std::bad_alloc&) {
    return fail(Errc::no_space,
                "no memory to hold this trace; split it, or read it on a larger machine");
  }
}

}  // namespace

Result<void> BadEntries::add(const std::string& file, std::uint64_t line, const std::string& what) {
  if (skip_) {
    ++count_;
    return {};
  }
  return fail(Errc::invalid, fmt::format("{}:{}: {}{}", file, line, what, kSkipRemedy));
}

Result<void> BadEntries::add(const std::string& entry, const std::string& what) {
  if (skip_) {
    ++count_;
    return {};
  }
  return fail(Errc::invalid, fmt::format("{}: {}{}", entry, what, kSkipRemedy));
}

Result<bool> EntryLines::next(LineReader::Line& line) {
  for (;;) {
    TIERCEL_TRY(const bool more, lines_.next(line));
    if (!more) return false;
    if (line.too_long) {
      TIERCEL_TRY_VOID(bad_.add(source_.name(), line.number,
                                fmt::format("is longer than {} MiB (starts with \"{}\")",
                                            kTraceLineBytesMax >> 20, printable(line.text, 24))));
      continue;
    }
    if (line.text.find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
}

Result<Trace> read_trace(const std::string& path, const TraceOptions& options) {
  TIERCEL_TRY(auto source, open_file_source(path));
  return read_guarded(std::move(source), options);
}

Result<Trace> parse_trace(const std::string& name, std::string_view bytes,
                          const TraceOptions& options) {
  if (bytes.empty())
    return fail(Errc::invalid, name + ": is empty (0 bytes); fetch or write the trace again");
  return read_guarded(memory_source(name, bytes), options);
}

}  // namespace tiercel
