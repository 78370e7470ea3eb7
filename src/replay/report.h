// The load report: report.json for scripts and for --check, a text of at most 100 columns for people.
//
// Shape   JSON "tiercel.replay/1": stable keys in a stable order, numbers unrounded, bytes as integers, seconds end in _s; null
//         where nothing was measured, with a sentence in `reason`.
// Threads Pure functions.
// Source  docs/formats/report.md
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "placement/placement.h"
#include "replay/indicators.h"
#include "replay/machine.h"
#include "replay/outcome.h"
#include "replay/verdict.h"

namespace tiercel {

inline constexpr std::string_view kReportSchema = "tiercel.replay/1";

// What a report says about itself beside the outcome.
struct ReportContext {
  std::string version;
  Machine machine;
  Placement placement;  // After --set.
  std::string trace_path;
  std::string trace_sha256;  // Of the file as stored.
  std::string
      trace_reading;  // The flags that shape the request stream, e.g. "every 1, weka_users 64, skip_bad no".
  std::string pace = "max";  // As given: "max" or a number.
};

std::string report_json(const ReplayOutcome& outcome, const Indicators& indicators,
                        const Verdict& verdict, const ReportContext& context);

std::string report_text(const ReplayOutcome& outcome, const Indicators& indicators,
                        const Verdict& verdict, const ReportContext& context);

}  // namespace tiercel
