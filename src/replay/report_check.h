// Does a report vouch for this placement, trace, version and machine? The validated artifact is placement + report.
//
// Compared, in this order: schema, version, placement_sha256 (after --set), trace_sha256, trace_reading, payload_bytes, machine.cpu_model, .cores,
// .memory_bytes (within 1 %: kernels reserve a little more or less at each boot), .kernel, .filesystem.
// Errors  invalid  the file is no report (not JSON, a key missing or of another type, not a regular file, above 16 MiB)
//         io       it cannot be read
// Threads Pure but for the file.
// Source  docs/formats/report.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "replay/machine.h"

namespace tiercel {

struct ReportIdentity {
  std::string version;
  std::string placement_sha256;
  std::string trace_sha256;
  std::string trace_reading;  // As in ReportContext.
  std::uint64_t payload_bytes = 0;
  Machine machine;
};

// The first mismatch in words ("FILE: placement_sha256: expected ..., found ..."); empty where all agrees.
Result<std::optional<std::string>> check_report(const std::string& path,
                                                const ReportIdentity& expected);

// The same from memory; `file_name` stands in messages.
Result<std::optional<std::string>> check_report_text(std::string_view text,
                                                     const std::string& file_name,
                                                     const ReportIdentity& expected);

}  // namespace tiercel
