// The subcommands. main.cc turns flags into these plain structs (CLI11 stays there); each command lives in its own file,
// prints to standard output (--json: one object and nothing else) and standard error, and returns the exit code:
// 0 ok, 1 verdict fail, 2 usage or bad input, 3 environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tiercel::app {

inline constexpr int kOk = 0;
inline constexpr int kVerdictFail = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kEnvironment = 3;

// Shared by the commands that read a trace.
struct TraceSource {
  std::string path;
  bool skip_bad = false;
  std::uint32_t weka_users = 64;
  std::uint32_t every = 1;  // Weka: take sessions 0, every, 2*every, ... of the archive.
};

struct TraceInfoArgs {
  TraceSource source;
  bool json = false;
};
int run_trace_info(const TraceInfoArgs& args);

struct TraceSynthArgs {
  std::string kind = "conversation";
  std::uint64_t seed = 1;
  std::uint32_t requests = 0;  // 0: as many as the published trace.
  std::string output;          // Empty: standard output.
};
int run_trace_synth(const TraceSynthArgs& args);

struct TraceCacheArgs {
  TraceSource source;
  std::vector<std::string> policies;
  std::vector<std::uint64_t> blocks;
  bool json = false;
};
int run_trace_cache(const TraceCacheArgs& args);

struct TraceTiersArgs {
  TraceSource source;
  std::uint64_t hot_blocks = 0;
  std::uint64_t warm_blocks = 0;
  std::optional<std::uint64_t> cold_blocks;  // Empty: unbounded.
  bool json = false;
};
int run_trace_tiers(const TraceTiersArgs& args);

struct ReplayArgs {
  std::string placement;
  TraceSource source;
  bool drive = false;
  std::string payload;  // Empty: the placement's; else a byte count.
  std::string pace = "max";
  std::vector<std::string> sets;  // KEY=VALUE
  std::string output_dir;
  std::string check;  // report.json to check instead of running.
  bool json = false;
};
int run_replay(const ReplayArgs& args);

struct StoreArgs {
  std::string dir;
  bool json = false;
};
int run_inspect(const StoreArgs& args);
int run_verify(const StoreArgs& args);

struct StoreFillArgs {
  std::string dir;
  std::string capacity;  // Byte counts.
  std::string block;
  std::uint64_t seed = 1;
  std::uint64_t seconds = 0;  // 0: until it is killed.
};
int run_store_fill(const StoreFillArgs& args);

struct StoreAuditArgs {
  std::string dir;
  std::uint64_t seed = 1;
  std::string acked;  // What fill had printed.
  bool json = false;
};
int run_store_audit(const StoreAuditArgs& args);

struct SessionArgs {
  std::string dir;
  std::string name;
  std::string file;      // Of export and import.
  std::string capacity;  // Of import.
  bool json = false;
};
int run_session_list(const SessionArgs& args);
int run_session_show(const SessionArgs& args);
int run_session_forget(const SessionArgs& args);
int run_session_export(const SessionArgs& args);
int run_session_import(const SessionArgs& args);

struct DoctorArgs {
  std::string placement;
  std::vector<std::string> sets;
  std::string directory;  // Empty: cold.path.
  bool json = false;
};
int run_doctor(const DoctorArgs& args);

}  // namespace tiercel::app
