// The command: flags become the plain structs of commands.h, and the subcommand's function does the work.
//
// Usage errors are one line on standard error and exit code 2. No exception leaves main(), and no output is lost in silence.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <new>
#include <string>

#include "commands.h"

namespace tiercel::app {

namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 ok, 1 the verdict (or a check) failed, 2 usage or bad input, 3 environment.";

// What the chosen subcommand will do; empty until the flags were read.
using Run = std::function<int()>;

CLI::App& add_command(CLI::App& parent, const char* name, const char* what,
                      const std::string& example) {
  CLI::App& command = *parent.add_subcommand(name, what);
  command.footer("\nExample\n  " + example + "\n\n" + kExitCodes);
  return command;
}

CLI::Option& add_text(CLI::App& command, const char* name, std::string& target, const char* type,
                      const char* what) {
  return *command.add_option(name, target, what)->type_name(type);
}

// CLI11 converts "-5" to 2^64 - 5 and clips what does not fit, so the text is checked before it
// gets there.
template <class Number>
std::string check_number(const std::string& text, Number min) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= min) return {};
  return '"' + text + "\" is not a whole number from " + std::to_string(min) + " to " +
         std::to_string(std::numeric_limits<Number>::max());
}

template <class Number>
CLI::Option& add_number(CLI::App& command, const char* name, Number& target, const char* what,
                        Number min = 0) {
  const auto check = [min](const std::string& text) { return check_number<Number>(text, min); };
  return *command.add_option(name, target, what)->check(CLI::Validator(check, ""))->type_name("N");
}

// A list on the command line: separated by commas, repeated, or both. It never swallows a
// positional behind it.
void make_list(CLI::Option& option) { option.delimiter(',')->allow_extra_args(false); }

void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "One JSON object on standard output and nothing else there");
}

void add_reading_flags(CLI::App& command, TraceSource& source) {
  command.add_flag("--skip-bad", source.skip_bad,
                   "Count malformed entries and go on, instead of stopping at the first");
  add_number(command, "--weka-users", source.weka_users,
             "Weka sessions: how many users run side by side", 1U)
      .capture_default_str();
  add_number(command, "--every", source.every,
             "Weka sessions: take the sessions 0, N, 2N, ... of the archive", 1U)
      .capture_default_str();
}

void add_trace_positional(CLI::App& command, TraceSource& source) {
  add_text(command, "trace", source.path, "FILE",
           "Mooncake JSONL, Azure CSV, Weka sessions (.tar.zst) or Tiercel JSONL; gzip too")
      .required();
  add_reading_flags(command, source);
}

void add_trace_info(CLI::App& trace, Run& run) {
  static TraceInfoArgs args;
  CLI::App& command =
      add_command(trace, "info", "Statistics: requests, sessions, lengths, reuse of blocks",
                  "tiercel trace info trace.jsonl.gz --json");
  add_trace_positional(command, args.source);
  add_json_flag(command, args.json);
  command.callback([&run] { run = [] { return run_trace_info(args); }; });
}

void add_trace_cache(CLI::App& trace, Run& run) {
  static TraceCacheArgs args;
  CLI::App& command =
      add_command(trace, "cache", "Hit ratio of one cache by policy and size, without time",
                  "tiercel trace cache trace.jsonl.gz --policy lru,fifo,opt --blocks 1000,10000");
  add_trace_positional(command, args.source);
  make_list(*command.add_option("--policy", args.policies, "Policies to try: lru, fifo, opt")
                 ->type_name("NAME,...")
                 ->required());
  const auto check = [](const std::string& text) { return check_number<std::uint64_t>(text, 1); };
  make_list(*command.add_option("--blocks", args.blocks, "Cache sizes to try, in blocks")
                 ->check(CLI::Validator(check, ""))
                 ->type_name("N,...")
                 ->required());
  add_json_flag(command, args.json);
  command.callback([&run] { run = [] { return run_trace_cache(args); }; });
}

void add_trace_tiers(CLI::App& trace, Run& run) {
  static TraceTiersArgs args;
  static std::uint64_t cold_blocks = 0;
  CLI::App& command = add_command(
      trace, "tiers", "Hits split over exclusive hot, warm and cold tiers, without time",
      "tiercel trace tiers trace.jsonl.gz --hot-blocks 1000 --warm-blocks 10000");
  add_trace_positional(command, args.source);
  add_number(command, "--hot-blocks", args.hot_blocks, "Size of the hot tier").required();
  add_number(command, "--warm-blocks", args.warm_blocks, "Size of the warm tier").required();
  const CLI::Option& cold = add_number(command, "--cold-blocks", cold_blocks,
                                       "Size of the cold tier; without it, unbounded");
  add_json_flag(command, args.json);
  command.callback([&run, &cold] {
    if (cold.count() > 0) args.cold_blocks = cold_blocks;
    run = [] { return run_trace_tiers(args); };
  });
}

void add_trace_synth(CLI::App& trace, Run& run) {
  static TraceSynthArgs args;
  CLI::App& command =
      add_command(trace, "synth", "A synthetic trace from published statistics, in Tiercel JSONL",
                  "tiercel trace synth --kind conversation --seed 1 -o demo.jsonl");
  add_text(command, "--kind", args.kind, "KIND", "Whose statistics: conversation")
      .capture_default_str();
  add_number(command, "--seed", args.seed, "The same seed gives the same bytes on every machine")
      .capture_default_str();
  add_number(command, "--requests", args.requests, "0: as many as the published trace")
      .capture_default_str();
  add_text(command, "-o,--output", args.output, "FILE", "Without it, standard output");
  command.callback([&run] { run = [] { return run_trace_synth(args); }; });
}

void add_replay(CLI::App& app, Run& run) {
  static ReplayArgs args;
  static bool simulate = false;
  CLI::App& command = add_command(
      app, "replay", "Replays a trace against a placement: indicators, verdict, report.json",
      "tiercel replay examples/one-box.toml --trace trace.jsonl.gz --drive -o out/\n"
      "  tiercel replay --check out/report.json examples/one-box.toml --trace trace.jsonl.gz");
  add_text(command, "placement", args.placement, "FILE", "placement.toml").required();
  add_text(command, "--trace", args.source.path, "FILE",
           "The traffic: any trace that `tiercel trace info` reads")
      .required();
  add_reading_flags(command, args.source);
  CLI::Option* simulate_flag =
      command.add_flag("--simulate", simulate, "Virtual time on modelled links (the default)");
  CLI::Option* drive_flag =
      command.add_flag("--drive", args.drive,
                       "The same decisions on the real tiers, with real bytes that are compared");
  add_text(command, "--payload", args.payload, "BYTES",
           "Per full block, e.g. \"64 KiB\"; capacities scale with it");
  add_text(command, "--pace", args.pace, "PACE", "max, or how many times faster than real time")
      .capture_default_str();
  command
      .add_option("--set", args.sets,
                  "Overrides a key of the placement, e.g. \"hot.bytes=64 GiB\"; repeat it")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_text(command, "-o,--output", args.output_dir, "DIR",
           "For report.json and, with --drive, the cold store");
  CLI::Option& check =
      add_text(command, "--check", args.check, "REPORT",
               "Run nothing: does this report.json belong to this placement and trace?");
  drive_flag->excludes(simulate_flag);
  check.excludes(simulate_flag)->excludes(drive_flag);
  add_json_flag(command, args.json);
  command.callback([&run] { run = [] { return run_replay(args); }; });
}

void add_store_command(CLI::App& app, Run& run, const char* name, const char* what,
                       int (*function)(const StoreArgs&)) {
  static StoreArgs args;  // Shared: only one subcommand runs.
  CLI::App& command =
      add_command(app, name, what, std::string("tiercel ") + name + " out/store --json");
  add_text(command, "directory", args.dir, "DIR", "Directory of a cold store").required();
  add_json_flag(command, args.json);
  command.callback([&run, function] { run = [function] { return function(args); }; });
}

void add_store(CLI::App& app, Run& run) {
  static StoreFillArgs fill_args;
  static StoreAuditArgs audit_args;
  CLI::App& store =
      *app.add_subcommand("store", "A store to be killed, and the audit of what it had promised");
  store.require_subcommand(1);
  CLI::App& fill = add_command(
      store, "fill",
      "Fills, reclaims, checkpoints and suspends until it is killed, and tells what is durable",
      "tiercel store fill out/fill --cap \"256 MiB\" --block \"64 KiB\" --seed 1 > acked");
  add_text(fill, "directory", fill_args.dir, "DIR",
           "Empty, missing, or a store of an earlier fill, which goes on")
      .required();
  add_text(fill, "--cap", fill_args.capacity, "BYTES", "Hard cap on what DIR takes of the disk")
      .required();
  add_text(fill, "--block", fill_args.block, "BYTES", "Payload of a full block").required();
  add_number(fill, "--seed", fill_args.seed, "Names and bytes of all blocks follow from it")
      .capture_default_str();
  add_number(fill, "--seconds", fill_args.seconds, "0: until it is killed").capture_default_str();
  fill.callback([&run] { run = [] { return run_store_fill(fill_args); }; });
  CLI::App& audit =
      add_command(store, "audit", "Opens what a fill left behind and compares every byte of it",
                  "tiercel store audit out/fill --seed 1 --acked acked --json");
  add_text(audit, "directory", audit_args.dir, "DIR", "Of the fill").required();
  add_number(audit, "--seed", audit_args.seed, "Of the fill").capture_default_str();
  add_text(audit, "--acked", audit_args.acked, "FILE",
           "What the fill had printed, of all its runs in a row")
      .required();
  add_json_flag(audit, audit_args.json);
  audit.callback([&run] { run = [] { return run_store_audit(audit_args); }; });
}

CLI::App& add_session_command(CLI::App& session, Run& run, SessionArgs& args, const char* name,
                              const char* what, const std::string& example,
                              int (*function)(const SessionArgs&)) {
  CLI::App& command = add_command(session, name, what, "tiercel session " + example);
  add_text(command, "--dir", args.dir, "DIR", "Of the cold tier").capture_default_str();
  command.callback([&run, function, &args] { run = [function, &args] { return function(args); }; });
  return command;
}

void add_session(CLI::App& app, Run& run) {
  static SessionArgs args;
  args.dir = "/var/lib/tiercel";
  CLI::App& session =
      *app.add_subcommand("session", "Sessions put to bed: what is kept, and for how long");
  session.require_subcommand(1);
  const auto add = [&](const char* name, const char* what, const std::string& example,
                       int (*function)(const SessionArgs&)) -> CLI::App& {
    return add_session_command(session, run, args, name, what, example, function);
  };
  const auto named = [](CLI::App& command) {
    add_text(command, "name", args.name, "NAME", "Of the session").required();
  };
  add_json_flag(add("list", "The sessions, their tokens, bytes, age", "list --dir out/store",
                    run_session_list),
                args.json);
  CLI::App& show =
      add("show", "One session: its kinds and blocks", "show tuesday --json", run_session_show);
  named(show);
  add_json_flag(show, args.json);
  named(add("forget", "Gives up a session; its space is reused", "forget tuesday",
            run_session_forget));
  CLI::App& save = add("export", "Writes a session to one file", "export tuesday tuesday.kv",
                       run_session_export);
  named(save);
  add_text(save, "file", args.file, "FILE", "To write").required();
  CLI::App& load = add("import", "Takes a session from a file, verified whole before",
                       "import tuesday.kv --cap \"8 GiB\"", run_session_import);
  add_text(load, "file", args.file, "FILE", "Of an export").required();
  add_text(load, "--name", args.name, "NAME", "Another name than it had");
  add_text(load, "--cap", args.capacity, "BYTES",
           "session_bytes of the server: what sessions may take")
      .required();
}

void add_doctor(CLI::App& app, Run& run) {
  static DoctorArgs args;
  CLI::App& command =
      add_command(app, "doctor", "What of this machine a placement will use, what not, and why",
                  "tiercel doctor examples/one-box.toml");
  add_text(command, "placement", args.placement, "FILE", "placement.toml").required();
  command.add_option("--set", args.sets, "Overrides a key of the placement; repeat it")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_text(command, "--directory", args.directory, "DIR",
           "Of the cold tier, where the placement names none");
  add_json_flag(command, args.json);
  command.callback([&run] { run = [] { return run_doctor(args); }; });
}

// The command line as far as its subcommands were understood.
const CLI::App& deepest(const CLI::App& app, std::string& path) {
  path += (path.empty() ? "" : " ") + app.get_name();
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : deepest(*chosen.front(), path);
}

// One line, with the help that would have prevented the error.
int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string path;
  const CLI::App& command = deepest(app, path);
  std::string text = error.what();
  const auto known = command.get_subcommands([](const CLI::App*) { return true; });
  const auto unknown = app.remaining(true);
  if (!known.empty()) {
    text = unknown.empty() ? "a command is needed;" : "there is no \"" + unknown.front() + "\";";
    text += " known:";
    for (const CLI::App* one : known) text += " " + one->get_name();
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::fprintf(stderr, "%s: %s (see `%s --help`)\n", path.c_str(), text.c_str(), path.c_str());
  return kBadInput;
}

int run_command(int argc, char** argv) {
  CLI::App app{"Sizes, runs and proves the memory hierarchy of an LLM server.", "tiercel"};
  app.set_version_flag("--version", "tiercel " TIERCEL_VERSION);
  app.footer(std::string("\n`tiercel COMMAND --help` tells more.\n") + kExitCodes);
  app.require_subcommand(1);
  Run run;

  CLI::App& trace = *app.add_subcommand("trace", "Statistics and cache questions about a trace");
  trace.require_subcommand(1);
  add_trace_info(trace, run);
  add_trace_cache(trace, run);
  add_trace_tiers(trace, run);
  add_trace_synth(trace, run);
  add_replay(app, run);
  add_store_command(app, run, "inspect", "What is in a cold store", run_inspect);
  add_store_command(app, run, "verify", "Checks every byte of a cold store", run_verify);
  add_store(app, run);
  add_session(app, run);
  add_doctor(app, run);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return usage_error(app, error);
  }
  return run();
}

// A store keeps a file open per segment; what the soft limit forbids and the hard one allows, we may take.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// What was printed is on its way only now. Where it got lost (a full disk, a closed pipe), the command did not do its work.
int flush_output(int status) {
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "tiercel: standard output could not be written%s%s; it is not complete\n",
               flushed ? "" : ": ", flushed ? "" : std::strerror(error));
  return kEnvironment;
}

}  // namespace
}  // namespace tiercel::app

int main(int argc, char** argv) {
  int status = tiercel::app::kEnvironment;
  tiercel::app::allow_many_files();
  try {
    status = tiercel::app::run_command(argc, argv);
    std::cout.flush();  // Help and version; it passes on to stdout.
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "tiercel: out of memory\n");
  } catch (const std::exception& error) {
    // A print that failed halfway is reported below.
    if (std::ferror(stdout) == 0)
      std::fprintf(stderr, "tiercel: internal error: %s\n", error.what());
  }
  return tiercel::app::flush_output(status);
}
