// Reports from anybody: check_report_text() agrees, names a mismatch, or refuses in one sentence; it never crashes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "replay/report_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tiercel::ReportIdentity expected{.version = "0.1.0",
                                         .placement_sha256 = "aa",
                                         .trace_sha256 = "bb",
                                         .payload_bytes = 65536,
                                         .machine = {.cpu_model = "c",
                                                     .cores = 2,
                                                     .memory_bytes = 1 << 30,
                                                     .kernel = "k",
                                                     .filesystem = "ext4"}};
  const auto checked = tiercel::check_report_text(
      std::string_view(reinterpret_cast<const char*>(data), size), "report.json", expected);
  if (!checked) {
    TIERCEL_CHECK(checked.error().what.starts_with("report.json: "));
  } else if (*checked) {
    TIERCEL_CHECK((*checked)->starts_with("report.json: "));
  }
  return 0;
}
