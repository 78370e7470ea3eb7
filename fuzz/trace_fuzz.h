// What the fuzz targets of the trace formats have in common: bytes in, one clear error or a sound trace out.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "trace/check_trace.h"
#include "trace/formats.h"

namespace tiercel {

inline void check_outcome(const Result<Trace>& trace) {
  if (trace) {
    TIERCEL_CHECK(*broken_trace_promise(*trace) == '\0');
  } else {
    TIERCEL_CHECK(trace.error().what.find("fuzz") != std::string::npos);  // Names the file.
    TIERCEL_CHECK(trace.error().what.size() < 1000);  // Shows outside text only in part.
  }
}

// Runs read(source, bad) strictly and skipping; what strict reading accepts, skipping accepts alike.
template <class Read>
void fuzz_trace(const std::uint8_t* data, std::size_t size, Read read) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto parse = [&](bool skip) {
    BadEntries bad(skip);
    Result<Trace> trace = read(memory_source("fuzz", bytes), bad);
    check_outcome(trace);
    TIERCEL_CHECK(skip || bad.count() == 0);
    return trace;
  };
  const auto strict = parse(false);
  const auto lenient = parse(true);
  if (strict) TIERCEL_CHECK(lenient && lenient->block_ids == strict->block_ids);
}

}  // namespace tiercel
