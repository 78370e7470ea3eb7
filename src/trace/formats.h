// Inside the room: one reader per format, and what they share. read_trace.cc picks one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "trace/byte_source.h"
#include "trace/line_reader.h"
#include "trace/read_trace.h"
#include "trace/request.h"

namespace tiercel {

// Decides about malformed entries: an error that names the place, or one more skipped.
class BadEntries {
 public:
  explicit BadEntries(bool skip) : skip_(skip) {}

  // ok = go on with the next entry.
  Result<void> add(const std::string& file, std::uint64_t line, const std::string& what);
  Result<void> add(const std::string& entry, const std::string& what);
  std::uint64_t count() const { return count_; }

 private:
  const bool skip_;
  std::uint64_t count_ = 0;
};

// The lines of a file that hold something, malformed ones (too long) already dealt with.
class EntryLines {
 public:
  EntryLines(ByteSource& source, BadEntries& bad) : source_(source), lines_(source), bad_(bad) {}
  Result<bool> next(LineReader::Line& line);

 private:
  ByteSource& source_;
  LineReader lines_;
  BadEntries& bad_;
};

// Each reads a plain (decompressed) source to its end. The Trace is complete but for skipped_lines.
Result<Trace> read_mooncake(ByteSource& source, BadEntries& bad);
Result<Trace> read_tiercel(ByteSource& source, BadEntries& bad);
Result<Trace> read_azure(ByteSource& source, BadEntries& bad);
Result<Trace> read_weka_tar(std::unique_ptr<ByteSource> source, const TraceOptions& options,
                            BadEntries& bad);
Result<Trace> read_weka_session(ByteSource& source, const TraceOptions& options, BadEntries& bad);

}  // namespace tiercel
