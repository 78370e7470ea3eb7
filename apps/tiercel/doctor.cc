// `tiercel doctor PLACEMENT`: what of this machine the placement will use, what not, and why. Exit code 3 where it cannot run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "io/posix_disk.h"
#include "placement/read_placement.h"
#include "replay/drive_executor.h"
#include "replay/machine.h"
#include "tier/self_test.h"

namespace tiercel::app {
namespace {

Result<SelfTestOptions> options_for(Disk& disk, const DoctorArgs& args,
                                    const Placement& placement) {
  TIERCEL_TRY(const ScaledPlacement scaled, scale_placement(placement, placement.payload_bytes()));
  SelfTestOptions options{
      .directory = args.directory.empty() ? placement.cold.path : args.directory,
      .cold_bytes = scaled.cold_bytes,
      .memory_bytes = scaled.core.hot_bytes + scaled.core.warm_bytes};
  if (options.directory.empty())
    options.directory = "out/store";  // Where a replay with -o out puts it.
  options.filesystem = read_machine(options.directory).filesystem;
  if (scaled.core.cold) options.segment_bytes = scaled.core.cold->geometry.segment_bytes;
  if (const auto reusable = reusable_store_bytes(disk, options.directory))
    options.reusable_bytes = *reusable;
  return options;
}

}  // namespace

int run_doctor(const DoctorArgs& args) {
  const auto placement = read_placement(args.placement, args.sets);
  if (!placement) return complain(placement.error());
  PosixDisk disk;
  const auto options = options_for(disk, args, *placement);
  if (!options) return complain(options.error());
  const std::vector<Finding> findings = self_test(disk, *options);
  const bool can_run = std::ranges::none_of(
      findings, [](const Finding& finding) { return finding.status == FindingStatus::failed; });
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.doctor/1").member("placement", args.placement);
    json.member("directory", options->directory).member("can_run", can_run);
    json.key("findings").begin_array();
    for (const Finding& finding : findings) {
      json.begin_object().member("name", finding.name);
      json.member("status", finding_status_name(finding.status));
      json.member("detail", finding.detail).end_object();
    }
    fmt::print("{}\n", json.end_array().end_object().text());
  } else {
    for (const Finding& finding : findings) {
      fmt::print("{:<18} {:<14} {}\n", finding.name, finding_status_name(finding.status),
                 finding.detail);
    }
    fmt::print("\n{}: {}\n", args.placement,
               can_run ? "can run here" : "cannot run here; see what failed");
  }
  return can_run ? kOk : kEnvironment;
}

}  // namespace tiercel::app
