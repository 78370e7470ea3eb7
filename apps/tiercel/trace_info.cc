// `tiercel trace info`: what a trace holds, as a table for people or one JSON object for scripts.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/json_writer.h"
#include "trace/statistics.h"

namespace tiercel::app {
namespace {

constexpr const char* kNoBlocks =
    "this format lists no block ids: hits and unique blocks are unknown, and so is who continues "
    "whom";
constexpr const char* kNoSessions =
    "this trace names no sessions and lists no blocks to derive them from";

void write_percentiles(JsonWriter& json, const char* name, const Distribution& p) {
  json.key(name).begin_object().member("mean", p.mean).member("p50", p.p50).member("p90", p.p90);
  json.member("p95", p.p95).member("p99", p.p99).member("max", p.max).end_object();
}

void write_rate(JsonWriter& json, const char* name, const RateStatistics& rate) {
  json.key(name).begin_object().member("mean", rate.mean_per_s);
  json.member("p95_10s", rate.p95_per_s).member("max_10s", rate.max_per_s).end_object();
}

void write_blocks(JsonWriter& json, const std::optional<BlockStatistics>& blocks) {
  if (!blocks) {
    for (const char* name : {"accesses", "unique_blocks", "infinite_hit_ratio"})
      json.key(name).null();
    return;
  }
  json.member("accesses", blocks->accesses).member("unique_blocks", blocks->unique);
  json.member("infinite_hit_ratio", blocks->infinite_hit_ratio);
  json.member("token_weighted_hit_ratio", blocks->token_weighted_hit_ratio);
  json.member("used_once", blocks->used_once)
      .member("requests_without_hit", blocks->requests_without_hit);
  json.member("chain_violations", blocks->chain_violations);
  write_percentiles(json, "reuse_gap_s", blocks->reuse_gap_s);
}

std::string as_json(const Trace& trace, const TraceStatistics& stats) {
  JsonWriter json;
  json.begin_object().member("schema", "tiercel.trace_info/1").member("format", trace.format);
  json.member("requests", static_cast<std::uint64_t>(trace.requests.size()));
  json.member("duration_s", trace.duration_s);
  json.key("sessions");
  stats.sessions ? json.value(trace.session_count) : json.null();
  json.key("block_tokens");
  trace.has_blocks ? json.value(trace.block_tokens) : json.null();
  write_blocks(json, stats.blocks);
  write_percentiles(json, "input_tokens", stats.input_tokens);
  write_percentiles(json, "output_tokens", stats.output_tokens);
  json.member("skipped_lines", trace.skipped_lines);
  write_rate(json, "requests_per_s", stats.requests_rate);
  write_rate(json, "input_tokens_per_s", stats.input_token_rate);
  if (stats.sessions) {
    json.member("multi_turn_sessions", stats.sessions->multi_turn_sessions);
    json.member("multi_turn_requests", stats.sessions->multi_turn_requests);
    write_percentiles(json, "requests_per_session", stats.sessions->requests);
    write_percentiles(json, "session_gap_s", stats.sessions->gap_s);
  }
  json.key("turns").begin_array();
  for (const TurnBin& bin : stats.turns) {
    json.begin_object().member("from", bin.from).member("requests", bin.requests);
    json.member("mean_input_tokens", bin.mean_input_tokens);
    json.key("mean_hit_fraction");
    stats.blocks ? json.value(bin.mean_hit_fraction) : json.null();
    json.end_object();
  }
  json.end_array();
  json.key("reason");
  if (!stats.blocks) {
    json.value(kNoBlocks);
  } else if (!stats.sessions) {
    json.value(kNoSessions);
  } else {
    json.null();
  }
  json.end_object();
  return json.text();
}

void print_row(const char* name, const Distribution& p, int digits) {
  fmt::print("{:<22}{:>12.{}f}{:>12.{}f}{:>12.{}f}{:>12.{}f}{:>12.{}f}{:>12.{}f}\n", name, p.mean,
             digits, p.p50, digits, p.p90, digits, p.p95, digits, p.p99, digits, p.max, digits);
}

void print_table(const std::string& path, const Trace& trace, const TraceStatistics& stats) {
  fmt::print("{}: {} trace\n\n", path, trace.format);
  fmt::print("requests              {}", trace.requests.size());
  if (trace.skipped_lines > 0) fmt::print("  ({} malformed entries skipped)", trace.skipped_lines);
  fmt::print("\nduration              {:.0f} s\n", trace.duration_s);
  if (stats.sessions) {
    fmt::print("sessions              {}, {} with several turns ({} requests)\n",
               trace.session_count, stats.sessions->multi_turn_sessions,
               stats.sessions->multi_turn_requests);
  } else {
    fmt::print("sessions              unknown: {}\n", kNoSessions);
  }
  if (stats.blocks) {
    const BlockStatistics& blocks = *stats.blocks;
    fmt::print("blocks                {} accesses to {} blocks of {} tokens; {} used once\n",
               blocks.accesses, blocks.unique, trace.block_tokens, blocks.used_once);
    fmt::print(
        "infinite cache        hit ratio {:.4f} by blocks, {:.4f} by tokens; {} requests without "
        "any hit\n",
        blocks.infinite_hit_ratio, blocks.token_weighted_hit_ratio, blocks.requests_without_hit);
    if (blocks.chain_violations > 0) {
      fmt::print(
          "WARNING               {} block ids follow another id than before: they do not name "
          "prefixes, so hit "
          "ratios mean little\n",
          blocks.chain_violations);
    }
  } else {
    fmt::print("blocks                none: {}\n", kNoBlocks);
  }
  fmt::print("requests/s            mean {:.2f}, p95 {:.2f}, max {:.2f} (10 s windows)\n",
             stats.requests_rate.mean_per_s, stats.requests_rate.p95_per_s,
             stats.requests_rate.max_per_s);
  fmt::print("input tokens/s        mean {:.0f}, p95 {:.0f}, max {:.0f} (10 s windows)\n\n",
             stats.input_token_rate.mean_per_s, stats.input_token_rate.p95_per_s,
             stats.input_token_rate.max_per_s);
  fmt::print("{:<22}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "", "mean", "p50", "p90", "p95", "p99",
             "max");
  print_row("input tokens", stats.input_tokens, 0);
  print_row("output tokens", stats.output_tokens, 0);
  if (stats.sessions) {
    print_row("requests per session", stats.sessions->requests, 1);
    print_row("gap in a session, s", stats.sessions->gap_s, 1);
  }
  if (stats.blocks) print_row("reuse gap, s", stats.blocks->reuse_gap_s, 1);
  if (stats.turns.empty()) return;
  fmt::print("\n{:<22}{:>12}{:>12}{:>12}\n", "turn (powers of 2)", "requests", "mean input",
             "mean hits");
  for (const TurnBin& bin : stats.turns) {
    fmt::print("{:<22}{:>12}{:>12.0f}", bin.from, bin.requests, bin.mean_input_tokens);
    fmt::print("{:>12}\n", stats.blocks ? fmt::format("{:.3f}", bin.mean_hit_fraction) : "unknown");
  }
}

}  // namespace

int run_trace_info(const TraceInfoArgs& args) {
  const auto trace = open_trace(args.source);
  if (!trace) return complain(trace.error());
  const TraceStatistics stats = trace_statistics(*trace);
  if (args.json) {
    fmt::print("{}\n", as_json(*trace, stats));
  } else {
    print_table(args.source.path, *trace, stats);
  }
  return kOk;
}

}  // namespace tiercel::app
