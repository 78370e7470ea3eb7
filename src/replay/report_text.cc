#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/byte_size.h"
#include "replay/report.h"

namespace tiercel {
namespace {

constexpr std::size_t kColumns = 100;

// Words of `text` in lines of at most kColumns, the first after `lead`, the others under its text. A word that is longer
// than a line (a path) is broken.
std::string wrapped(std::string_view lead, std::string_view text) {
  std::string out, line(lead);
  const std::string indent(lead.size(), ' ');
  bool fresh = true;  // Nothing but the indent in `line`.
  const auto flush = [&] {
    out += line + "\n";
    line = indent;
    fresh = true;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!fresh && line.size() + 1 + word.size() > kColumns) flush();
    while (line.size() + (fresh ? 0 : 1) + word.size() > kColumns) {
      const std::size_t room = kColumns - line.size();
      line += word.substr(0, room);
      word.remove_prefix(room);
      flush();
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  return out + line + "\n";
}

std::string refill_cells(const Percentiles& p) {
  if (p.n == 0) return fmt::format("{:>8} {:>8} {:>8} {:>7}", "-", "-", "-", "0");
  return fmt::format("{:>8} {:>8} {:>8} {:>7}", pretty_duration(p.p50), pretty_duration(p.p95),
                     pretty_duration(p.p99), grouped(p.n));
}

struct TierRow {
  std::string_view name;
  std::string size, hits, share, read, written;
};

std::string tier_cells(const TierRow& row) {
  return fmt::format("{:<4} {:>8} {:>9} {:>7} {:>8} {:>8}", row.name, row.size, row.hits, row.share,
                     row.read, row.written);
}

std::string tier_table(const ReplayOutcome& outcome, const Indicators& indicators,
                       const Placement& placement) {
  const std::uint64_t all = outcome.hits.hot + outcome.hits.warm + outcome.hits.cold + outcome.miss;
  const auto share = [&](std::uint64_t count) {
    return all == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100 * static_cast<double>(count) / static_cast<double>(all));
  };
  // A simulation decides, it moves nothing.
  const auto moved = [&](std::uint64_t bytes) {
    return outcome.driver == "simulate" ? fmt::format("-") : pretty_byte_size(bytes);
  };
  const auto size = [](std::uint64_t bytes) {
    return bytes == 0 ? "off" : pretty_byte_size(bytes);
  };
  std::string text = fmt::format("{} {:>8} {:>8} {:>8} {:>7}  {}\n",
                                 tier_cells({"tier", "size", "hits", "share", "read", "written"}),
                                 "P50", "P95", "P99", "refills", "basis");
  text += tier_cells({"hot", size(placement.hot.bytes), grouped(outcome.hits.hot),
                      share(outcome.hits.hot), "", ""}) +
          "\n";
  struct Offload {
    TierRow row;
    const Percentiles& modelled;
    Percentiles measured;
  };
  std::vector<Offload> offloads;
  offloads.push_back(
      {{"warm", size(placement.warm.bytes), grouped(outcome.hits.warm), share(outcome.hits.warm),
        moved(outcome.warm_read_bytes), ""},
       indicators.overall.refill.warm,
       percentiles(outcome.measured ? outcome.measured->warm_s : std::vector<double>())});
  offloads.push_back(
      {{"cold", size(placement.cold.bytes), grouped(outcome.hits.cold), share(outcome.hits.cold),
        moved(outcome.cold_read_bytes), moved(outcome.cold_written_bytes)},
       indicators.overall.refill.cold,
       percentiles(outcome.measured ? outcome.measured->cold_s : std::vector<double>())});
  for (const Offload& offload : offloads) {
    text +=
        fmt::format("{} {}  modelled\n", tier_cells(offload.row), refill_cells(offload.modelled));
    if (outcome.measured)
      text += fmt::format("{} {}  measured\n", tier_cells({}), refill_cells(offload.measured));
  }
  return text + tier_cells({"miss", "", grouped(outcome.miss), share(outcome.miss), "", ""}) + "\n";
}

std::string rejection_cell(const Rejections& r) {
  return fmt::format("{} ({})", grouped(r.count), percent_text(r.ratio()));
}

std::string refill_cell(const Percentiles& p) { return p.n == 0 ? "-" : pretty_duration(p.p95); }

std::string drift_cell(const Drift& drift) {
  return drift.ratio ? fmt::format("{:.3g}", *drift.ratio) : "-";
}

std::string indicator_table(const Indicators& in, const Verdict& verdict,
                            const TargetSpec& targets) {
  std::string text;
  const auto row = [&](std::string_view name, const std::string& overall, const std::string& peak,
                       const std::string& target, std::string_view judged) {
    text += fmt::format("{:<24} {:>18} {:>18} {:>12}  {}\n", name, overall, peak, target, judged);
  };
  const auto judged = [](bool pass) { return pass ? "pass" : "FAIL"; };
  const IndicatorSlice& all = in.overall;
  const IndicatorSlice& peak = in.p95_traffic;
  const auto refill_judged = [&](const Percentiles& a, const Percentiles& b) {
    return judged((a.n == 0 || a.p95 <= targets.refill_p95_s_max) &&
                  (b.n == 0 || b.p95 <= targets.refill_p95_s_max));
  };
  row("indicator (modelled)", "overall", "at P95 traffic", "target", "");
  row("rejections", rejection_cell(all.rejections), rejection_cell(peak.rejections),
      fmt::format("<= {}", percent_text(targets.rejection_ratio_max)),
      judged(verdict.rejections_pass));
  row("  too large", grouped(all.rejections.too_large), grouped(peak.rejections.too_large), "", "");
  row("  preemptions", grouped(all.rejections.preemptions), grouped(peak.rejections.preemptions),
      "", "");
  const std::string refill_target = fmt::format("<= {}", pretty_duration(targets.refill_p95_s_max));
  row("refill P95 from warm", refill_cell(all.refill.warm), refill_cell(peak.refill.warm),
      refill_target, refill_judged(all.refill.warm, peak.refill.warm));
  row("refill P95 from cold", refill_cell(all.refill.cold), refill_cell(peak.refill.cold),
      refill_target, refill_judged(all.refill.cold, peak.refill.cold));
  row("drift over turns", drift_cell(all.drift), drift_cell(peak.drift),
      fmt::format("<= {:.3g}", targets.turn_drift_max), judged(verdict.drift_pass));
  return text;
}

std::string without_trailing_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') out.resize(out.find_last_not_of(' ') + 1);
    out += c;
  }
  return out;
}

// The bytes as they were moved; what was checked and how it ended.
std::string driven_lines(const ReplayOutcome& outcome) {
  if (outcome.driver == "simulate") return "";
  return wrapped("driven   ",
                 fmt::format("{} deliveries compared whole, {} wrong bytes, {} errors; peaks: hot "
                             "{}, warm {}, cold {}; "
                             "process {}; formatting {}; measured figures are for payloads of {}, "
                             "1/{:.4g} of the bytes",
                             grouped(outcome.delivered), grouped(outcome.wrong_bytes),
                             grouped(outcome.errors), pretty_byte_size(outcome.peak_hot_bytes),
                             pretty_byte_size(outcome.peak_warm_bytes),
                             pretty_byte_size(outcome.peak_cold_bytes),
                             outcome.rss_bytes ? pretty_byte_size(*outcome.rss_bytes) : "unknown",
                             pretty_byte_size(outcome.format_bytes),
                             exact_byte_size(outcome.payload_bytes), outcome.byte_rate_factor));
}

}  // namespace

std::string report_text(const ReplayOutcome& outcome, const Indicators& indicators,
                        const Verdict& verdict, const ReportContext& context) {
  const Placement& placement = context.placement;
  std::string text = wrapped(
      "replay   ",
      fmt::format("{} through {} ({}): {} requests in {}", context.trace_path,
                  placement.name.empty() ? placement.origin.file : placement.name, outcome.driver,
                  grouped(outcome.requests.size()), pretty_duration(outcome.wall_s)));
  text +=
      wrapped("stores   ", fmt::format("{} to warm, {} to cold, {} skipped; {} segments reclaimed",
                                       grouped(outcome.stored_warm), grouped(outcome.stored_cold),
                                       grouped(outcome.skipped_stores), grouped(outcome.reclaims)));
  text += driven_lines(outcome);
  text += '\n';
  text += tier_table(outcome, indicators, placement);
  text += '\n';
  text += indicator_table(indicators, verdict, placement.targets);
  text += wrapped(
      "         ",
      fmt::format("P95 traffic: the {} of {} windows of 10 s with most arrivals ({} requests)",
                  grouped(indicators.peak_windows), grouped(indicators.windows),
                  grouped(indicators.p95_traffic.rejections.arrivals)));
  text += fmt::format(
      "\nverdict  {}\n",
      verdict.pass
          ? "PASS"
          : fmt::format("FAIL: fix {}", verdict.fix_tier ? tier_name(*verdict.fix_tier) : "-"));
  for (const std::string& sentence : verdict.because) text += wrapped("       - ", sentence);
  for (const std::string& note : outcome.notes) text += wrapped("note     ", note);
  return without_trailing_spaces(text);
}

}  // namespace tiercel
