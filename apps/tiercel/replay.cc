// `tiercel replay`: a trace against a placement, simulated or driven; indicators, verdict, report.json; --check of a report.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/progress.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "io/posix_disk.h"
#include "kv/chain.h"
#include "placement/canonical.h"
#include "placement/contradictions.h"
#include "placement/read_placement.h"
#include "replay/drive_executor.h"
#include "replay/replay_run.h"
#include "replay/report.h"
#include "replay/report_check.h"

namespace tiercel::app {
namespace {

struct Plan {
  Placement placement;
  ScaledPlacement scaled;
  double pace = 0;
  std::string store_directory;
};

Result<double> parse_pace(const std::string& text) {
  if (text == "max") return 0.0;
  double pace = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pace);
  if (error != std::errc() || end != text.data() + text.size() || !(pace > 0) || pace > 1e9) {
    return fail(
        Errc::invalid,
        fmt::format("--pace {}: write max, or a positive number (10 = ten times faster)", text));
  }
  return pace;
}

Result<Plan> make_plan(const ReplayArgs& args) {
  Plan plan;
  TIERCEL_TRY(plan.placement, read_placement(args.placement, args.sets));
  std::uint64_t payload = 0;
  if (!args.payload.empty()) {
    const auto bytes = parse_byte_count(args.payload);
    if (!bytes || *bytes == 0) {
      return fail(
          Errc::invalid,
          fmt::format("--payload {}: write a number of bytes or e.g. \"64 KiB\"", args.payload));
    }
    payload = *bytes;
  }
  TIERCEL_TRY(plan.scaled, scale_placement(plan.placement, payload));
  TIERCEL_TRY(plan.pace, parse_pace(args.pace));
  plan.store_directory = plan.placement.cold.path;
  if (plan.store_directory.empty()) {
    // A report is checked where it lies: the machine it vouches for includes the file system of its store.
    const bool checks = !args.check.empty() && args.output_dir.empty();
    const std::string beside = std::filesystem::path(args.check).parent_path().string();
    const std::string directory = checks ? (beside.empty() ? "." : beside) : args.output_dir;
    plan.store_directory = directory + "/store";
  }
  return plan;
}

// What of the command line shapes the request stream: another reading is other traffic.
std::string reading_text(const TraceSource& source) {
  return fmt::format("every {}, weka_users {}, skip_bad {}", source.every, source.weka_users,
                     source.skip_bad ? "yes" : "no");
}

int check(const ReplayArgs& args, const Plan& plan) {
  const auto trace_hash = file_sha256(args.source.path);
  if (!trace_hash) return complain(trace_hash.error());
  const auto mismatch =
      check_report(args.check, {.version = TIERCEL_VERSION,
                                .placement_sha256 = placement_sha256(plan.placement),
                                .trace_sha256 = *trace_hash,
                                .trace_reading = reading_text(args.source),
                                .payload_bytes = plan.scaled.payload_bytes,
                                .machine = read_machine(plan.store_directory)});
  if (!mismatch) return complain(mismatch.error());
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.replay_check/1").member("report", args.check);
    json.member("matches", !mismatch->has_value()).key("mismatch");
    mismatch->has_value() ? json.value(**mismatch) : json.null();
    fmt::print("{}\n", json.end_object().text());
  } else if (mismatch->has_value()) {
    fmt::print("{}\n", **mismatch);
  } else {
    fmt::print("{}: belongs to this placement, trace, version and machine\n", args.check);
  }
  return mismatch->has_value() ? kVerdictFail : kOk;
}

Result<void> make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail_errno(fmt::format("-o {}", path), error.value());
  return {};
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file)
    return fail(Errc::io, fmt::format("{}: could not be written; is the disk full?", path));
  return {};
}

Result<ReplayOutcome> run(const ReplayArgs& args, const Plan& plan, const Trace& trace,
                          Disk& disk) {
  const std::vector<Key> keys = trace_keys(trace, plan.placement.model.block_tokens);
  Progress progress(args.drive ? "driving" : "simulating");
  const ReplayControls controls{
      .pace = args.drive ? plan.pace : 0,
      .progress = [&](std::size_t done, std::size_t total) { progress.show(done, total); }};
  if (!args.drive) {
    SimulatedExecutor executor;
    return run_replay(plan.placement, plan.scaled, trace, keys, executor, controls);
  }
  if (plan.placement.cold.bytes > 0) {  // Before the old store is emptied: a refusal spares it.
    TIERCEL_TRY(const std::uint64_t reusable_bytes,
                reusable_store_bytes(disk, plan.store_directory));
    TIERCEL_TRY_VOID(check_against_disk(plan.placement, plan.scaled.cold_bytes,
                                        plan.store_directory, reusable_bytes));
  }
  TIERCEL_TRY(const auto executor,
              DriveExecutor::open(
                  disk, {.scaled = plan.scaled,
                         .block_tokens = plan.placement.model.block_tokens,
                         .fingerprint = replay_fingerprint(plan.placement.model.block_tokens),
                         .store_directory = plan.store_directory}));
  return run_replay(plan.placement, plan.scaled, trace, keys, *executor, controls);
}

}  // namespace

int run_replay(const ReplayArgs& args) {
  const auto plan = make_plan(args);
  if (!plan) return complain(plan.error());
  if (!args.drive && args.pace != "max") {
    return complain(
        fail(Errc::invalid, "--pace is for --drive: a simulation has no real time to pace"));
  }
  if (!args.check.empty()) return check(args, *plan);
  if (args.output_dir.empty() && args.drive) {
    return complain(
        fail(Errc::invalid, "--drive needs -o DIR, for report.json and the cold store"));
  }
  const auto trace = open_trace(args.source);
  if (!trace) return complain(trace.error());
  const auto trace_hash = file_sha256(args.source.path);
  if (!trace_hash) return complain(trace_hash.error());
  if (!args.output_dir.empty()) {
    if (const auto made = make_directory(args.output_dir); !made) return complain(made.error());
  }

  PosixDisk disk;
  auto outcome = run(args, *plan, *trace, disk);
  if (!outcome) return complain(outcome.error());
  for (std::string& warning : placement_warnings(plan->placement))
    outcome->notes.push_back(std::move(warning));
  const Indicators indicators = compute_indicators(*outcome);
  const Verdict verdict = judge(indicators, *outcome, plan->placement);
  const ReportContext context{.version = TIERCEL_VERSION,
                              .machine = read_machine(plan->store_directory),
                              .placement = plan->placement,
                              .trace_path = args.source.path,
                              .trace_sha256 = *trace_hash,
                              .trace_reading = reading_text(args.source),
                              .pace = args.pace};
  const std::string json = report_json(*outcome, indicators, verdict, context);
  if (!args.output_dir.empty()) {
    const auto written = write_file(args.output_dir + "/report.json", json);
    if (!written) return complain(written.error());
  }
  if (args.json) {
    fmt::print("{}\n", json);
  } else {
    fmt::print("{}", report_text(*outcome, indicators, verdict, context));
  }
  if (outcome->wrong_bytes > 0) {
    fmt::print(stderr,
               "tiercel: {} WRONG BYTES were delivered: this machine does not keep what it stores; "
               "see {}/report.json\n",
               outcome->wrong_bytes, args.output_dir);
    return kVerdictFail;
  }
  return verdict.pass ? kOk : kVerdictFail;
}

}  // namespace tiercel::app
