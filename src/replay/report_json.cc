#include <algorithm>
#include <charconv>

#include "base/json_writer.h"
#include "placement/canonical.h"
#include "placement/toml_guard.h"
#include "replay/report.h"

namespace tiercel {
namespace {

void write_percentiles(JsonWriter& json, std::string_view name, const Percentiles& p) {
  json.key(name).begin_object();
  for (const auto& [key, value] :
       {std::pair{"p50", p.p50}, std::pair{"p95", p.p95}, std::pair{"p99", p.p99}}) {
    json.key(key);
    if (p.n == 0) {
      json.null();
    } else {
      json.value(value);
    }
  }
  json.member("n", p.n).end_object();
}

void write_refill(JsonWriter& json, std::string_view name, const RefillSeconds& refill) {
  json.key(name).begin_object();
  write_percentiles(json, "warm", refill.warm);
  write_percentiles(json, "cold", refill.cold);
  json.end_object();
}

void write_rejections(JsonWriter& json, std::string_view name, const Rejections& r) {
  json.key(name).begin_object();
  json.member("count", r.count).member("ratio", r.ratio()).member("too_large", r.too_large);
  json.member("preemptions", r.preemptions).member("arrivals", r.arrivals).end_object();
}

void write_optional(JsonWriter& json, std::string_view name, std::optional<double> number) {
  json.key(name);
  if (number) {
    json.value(*number);
  } else {
    json.null();
  }
}

void write_judgement(JsonWriter& json, double target, bool pass) {
  json.member("target", target).member("pass", pass).member("basis", "modelled");
}

void write_bins(JsonWriter& json, std::string_view name, const Drift& drift) {
  json.key(name).begin_object();
  for (const auto& [key, bin] :
       {std::pair{"turns_2_3", &drift.base}, std::pair{"last", &drift.last}}) {
    json.key(key);
    if (bin->n == 0) {
      json.null();
      continue;
    }
    json.begin_object()
        .member("turn_first", bin->turn_first)
        .member("turn_last", std::uint64_t{2} * bin->turn_first - 1);
    json.member("n", bin->n).member("p95_s", bin->p95_s).end_object();
  }
  json.end_object();
}

std::string drift_reason(const Indicators& in) {
  std::string reason;
  if (!in.overall.drift.ratio) reason += "overall: " + in.overall.drift.reason;
  if (!in.p95_traffic.drift.ratio) {
    reason += (reason.empty() ? "p95_traffic: " : "; p95_traffic: ") + in.p95_traffic.drift.reason;
  }
  return reason;
}

void write_indicators(JsonWriter& json, const Indicators& in, const Verdict& verdict,
                      const TargetSpec& targets) {
  json.key("indicators").begin_object();
  json.key("rejections").begin_object();
  write_rejections(json, "overall", in.overall.rejections);
  write_rejections(json, "p95_traffic", in.p95_traffic.rejections);
  write_judgement(json, targets.rejection_ratio_max, verdict.rejections_pass);
  json.member("rejecting_windows", in.rejecting_windows).end_object();

  json.key("refill_s").begin_object();
  write_refill(json, "overall", in.overall.refill);
  write_refill(json, "p95_traffic", in.p95_traffic.refill);
  write_judgement(json, targets.refill_p95_s_max, verdict.refill_pass);
  json.member("share_of_held_time", in.refill_share).end_object();

  json.key("turn_drift").begin_object();
  write_optional(json, "overall", in.overall.drift.ratio);
  write_optional(json, "p95_traffic", in.p95_traffic.drift.ratio);
  write_judgement(json, targets.turn_drift_max, verdict.drift_pass);
  const std::string reason = drift_reason(in);
  json.key("reason");
  if (reason.empty()) {
    json.null();
  } else {
    json.value(reason);
  }
  json.key("bins").begin_object();
  write_bins(json, "overall", in.overall.drift);
  write_bins(json, "p95_traffic", in.p95_traffic.drift);
  json.end_object().end_object();

  json.end_object();
  json.key("traffic_windows").begin_object().member("count", in.windows);
  json.member("p95_traffic", in.peak_windows).end_object();
}

void write_verdict(JsonWriter& json, const Verdict& verdict) {
  json.key("verdict").begin_object().member("pass", verdict.pass).key("fix_tier");
  if (verdict.fix_tier) {
    json.value(tier_name(*verdict.fix_tier));
  } else {
    json.null();
  }
  json.member("basis", "modelled").key("because").begin_array();
  for (const std::string& sentence : verdict.because) json.value(sentence);
  json.end_array().end_object();
}

void write_machine(JsonWriter& json, const Machine& machine) {
  json.key("machine").begin_object();
  json.member("cpu_model", machine.cpu_model).member("cores", machine.cores);
  json.member("memory_bytes", machine.memory_bytes).member("kernel", machine.kernel);
  json.member("filesystem", machine.filesystem).end_object();
}

void write_pace(JsonWriter& json, const std::string& pace) {
  double factor = 0;
  const auto [end, error] = std::from_chars(pace.data(), pace.data() + pace.size(), factor);
  json.key("pace");
  if (error == std::errc() && end == pace.data() + pace.size()) {
    json.value(factor);
  } else {
    json.value(pace);
  }
}

// A path may be any bytes; JSON is UTF-8.
std::string printable(std::string path) {
  if (is_utf8(path)) return path;
  std::ranges::replace_if(
      path, [](unsigned char c) { return c >= 0x80; }, '?');
  return path;
}

}  // namespace

std::string report_json(const ReplayOutcome& outcome, const Indicators& indicators,
                        const Verdict& verdict, const ReportContext& context) {
  JsonWriter json;
  json.begin_object().member("schema", kReportSchema).member("driver", outcome.driver);
  json.member("version", context.version).member("placement", context.placement.name);
  json.member("placement_sha256", placement_sha256(context.placement));
  json.member("trace", printable(context.trace_path)).member("trace_sha256", context.trace_sha256);
  json.member("trace_reading", context.trace_reading);
  write_machine(json, context.machine);
  json.member("payload_bytes", outcome.payload_bytes)
      .member("byte_rate_factor", outcome.byte_rate_factor);
  write_pace(json, context.pace);

  json.member("requests", static_cast<std::uint64_t>(outcome.requests.size()));
  json.key("hits").begin_object().member("hot", outcome.hits.hot).member("warm", outcome.hits.warm);
  json.member("cold", outcome.hits.cold).end_object().member("miss", outcome.miss);
  json.member("decisions_sha256", outcome.decisions_sha256);
  json.member("delivered", outcome.delivered).member("errors", outcome.errors).key("late");
  const bool simulated = outcome.driver == "simulate";
  const bool late_known = !simulated && context.pace != "max";
  if (late_known) {
    json.value(outcome.late);
  } else {
    json.null();
  }
  json.member("wrong_bytes", outcome.wrong_bytes).member("skipped_stores", outcome.skipped_stores);
  json.key("stored_blocks")
      .begin_object()
      .member("warm", outcome.stored_warm)
      .member("cold", outcome.stored_cold);
  json.member("moved_cold", outcome.moved_cold).end_object();
  json.key("evicted_blocks")
      .begin_object()
      .member("hot", outcome.evicted_hot)
      .member("warm", outcome.evicted_warm);
  json.member("cold", outcome.evicted_cold).end_object().member("reclaims", outcome.reclaims);
  json.key("bytes").begin_object().member("cold_read", outcome.cold_read_bytes);
  json.member("cold_written", outcome.cold_written_bytes).member("format", outcome.format_bytes);
  json.member("warm_read", outcome.warm_read_bytes).end_object();
  if (outcome.measured) {
    write_refill(json, "measured_refill_s",
                 {.warm = percentiles(outcome.measured->warm_s),
                  .cold = percentiles(outcome.measured->cold_s)});
  } else {
    json.key("measured_refill_s").null();
  }

  write_indicators(json, indicators, verdict, context.placement.targets);
  write_verdict(json, verdict);
  json.key("peak").begin_object().member("hot_bytes", outcome.peak_hot_bytes);
  json.member("warm_bytes", outcome.peak_warm_bytes)
      .member("cold_bytes", outcome.peak_cold_bytes)
      .end_object();
  json.key("rss_bytes");
  if (outcome.rss_bytes) {
    json.value(*outcome.rss_bytes);
  } else {
    json.null();
  }
  json.member("lookups", outcome.lookups);
  const double worked_s = outcome.loop_s;
  write_optional(
      json, "lookups_per_s",
      worked_s > 0 ? std::optional(static_cast<double>(outcome.lookups) / worked_s) : std::nullopt);
  json.member("wall_s", outcome.wall_s).member("warm_up_s", outcome.warm_up_s);
  json.key("notes").begin_array();
  for (const std::string& note : outcome.notes) json.value(note);
  json.end_array();

  json.key("reason").begin_object();
  if (!late_known) {
    json.member("late", simulated ? "a simulation has no real operations"
                                  : "at pace max nothing has a real due time");
  }
  if (!outcome.measured)
    json.member("measured_refill_s", "a simulation moves no bytes: only --drive measures");
  if (!outcome.rss_bytes) {
    json.member("rss_bytes",
                simulated ? "a simulation holds no tier in memory" : "the system did not tell");
  }
  if (worked_s <= 0) json.member("lookups_per_s", "the run was too short to be timed");
  json.end_object().end_object();
  return json.text() + "\n";
}

}  // namespace tiercel
