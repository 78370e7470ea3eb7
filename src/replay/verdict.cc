#include "replay/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/byte_size.h"

namespace tiercel {
namespace {

bool meets(const Rejections& rejections, double target) {
  return rejections.ratio() <= target && rejections.too_large_ratio() <= target;
}

bool meets(const Percentiles& refill, double target) {
  return refill.n == 0 || refill.p95 <= target;
}

bool meets(const Drift& drift, double target) { return !drift.ratio || *drift.ratio <= target; }

std::string of_all(std::uint64_t count, std::uint64_t all) {
  const double ratio = all == 0 ? 0 : static_cast<double>(count) / static_cast<double>(all);
  return fmt::format("{} of {} = {}", grouped(count), grouped(all), percent_text(ratio));
}

std::string explain_rejections(const Indicators& in, const Placement& placement, bool pass,
                               bool refill_to_blame) {
  const Rejections& all = in.overall.rejections;
  const Rejections& peak = in.p95_traffic.rejections;
  std::string text = fmt::format("Rejections: {}, at P95 traffic {}; target at most {}",
                                 of_all(all.count, all.arrivals), of_all(peak.count, peak.arrivals),
                                 percent_text(placement.targets.rejection_ratio_max));
  if (pass) return text + ": met.";
  const std::uint64_t hot_blocks = placement.hot.bytes / placement.block_bytes();
  text += fmt::format(": missed in {} of {} windows, with {} preemptions.",
                      grouped(in.rejecting_windows), grouped(in.windows), grouped(all.preemptions));
  if (all.too_large != 0) {
    text += fmt::format(" {} requests are larger than hot as a whole.",
                        of_all(all.too_large, all.arrivals));
  }
  if (refill_to_blame) {
    return text + fmt::format(
                      " But {} of the time in hot memory goes into waiting for loads: with faster "
                      "refills there would "
                      "be room, so hot is not what to fix first.",
                      percent_text(in.refill_share));
  }
  return text + fmt::format(
                    " The envelope is too small: {} hold {} blocks of {}, and running requests "
                    "want more at peak. "
                    "Raise hot.bytes, or send less traffic to one server.",
                    exact_byte_size(placement.hot.bytes), grouped(hot_blocks),
                    exact_byte_size(placement.block_bytes()));
}

// One offload tier as the refill indicator sees it.
struct RefillCase {
  FixTier tier;
  Percentiles overall, peak;
  const LinkSpec& link;

  double worst() const { return std::max(overall.n ? overall.p95 : 0, peak.n ? peak.p95 : 0); }
};

std::string p95_over(const Percentiles& p) {
  return p.n == 0 ? "none"
                  : fmt::format("{} over {} requests", pretty_duration(p.p95), grouped(p.n));
}

std::string explain_refill(const RefillCase& c, const ReplayOutcome& outcome,
                           const Placement& placement) {
  const double target = placement.targets.refill_p95_s_max;
  const char* name = tier_name(c.tier);
  std::string text =
      fmt::format("Refill from {}: P95 {}, at P95 traffic {}; target at most {}", name,
                  p95_over(c.overall), p95_over(c.peak), pretty_duration(target));
  if (meets(c.overall, target) && meets(c.peak, target)) return text + ": met.";
  const auto rate = static_cast<double>(c.link.read_bytes_per_s);
  const double block_s = static_cast<double>(placement.block_bytes()) / rate;
  const auto room = static_cast<std::uint64_t>(target / block_s);
  text += fmt::format(
      ": missed. The storage path of {} is too slow: a block of {} takes {} at {}, so the target "
      "has room for {} and the "
      "worse P95 lasts as long as {} blocks one after another.",
      name, exact_byte_size(placement.block_bytes()), pretty_duration(block_s),
      exact_byte_rate(c.link.read_bytes_per_s), room == 0 ? "less than one" : grouped(room),
      grouped(static_cast<std::uint64_t>(std::ceil(c.worst() / block_s))));
  if (target > 0) {
    text += fmt::format(
        " At this traffic {}.read_bandwidth would have to be about {:.2g} times as high ({:.3g} "
        "GB/s)",
        name, c.worst() / target, rate * c.worst() / target / 1e9);
  }
  if (c.tier == FixTier::cold) {
    text += fmt::format(
        ", or warm larger, so that fewer blocks come from cold (hits: {} warm, {} cold)",
        grouped(outcome.hits.warm), grouped(outcome.hits.cold));
  }
  return text + ".";
}

FixTier drift_tier(const TurnBin& late) {
  if (late.warm_refill_s == 0 && late.cold_refill_s == 0) return FixTier::hot;
  return late.cold_refill_s >= late.warm_refill_s ? FixTier::cold : FixTier::warm;
}

std::string drift_arithmetic(const Drift& drift) {
  if (!drift.ratio) return fmt::format("none ({})", drift.reason);
  return fmt::format("{:.3g} ({} in {} over {} in turns 2-3)", *drift.ratio,
                     pretty_duration(drift.last.p95_s), turns_text(drift.last),
                     pretty_duration(drift.base.p95_s));
}

// The slice whose drift is the worse one.
const Drift& worse_drift(const Indicators& in) {
  return in.p95_traffic.drift.ratio.value_or(0) > in.overall.drift.ratio.value_or(0)
             ? in.p95_traffic.drift
             : in.overall.drift;
}

std::string explain_drift(const Indicators& in, const Placement& placement, bool pass) {
  std::string text = fmt::format(
      "Drift of P95 of wait + refill over turns: {}, at P95 traffic {}; target at most {:.3g}",
      drift_arithmetic(in.overall.drift), drift_arithmetic(in.p95_traffic.drift),
      placement.targets.turn_drift_max);
  if (pass) return text + ": met.";
  const TurnBin& late = worse_drift(in).last;
  const FixTier tier = drift_tier(late);
  if (tier == FixTier::hot) {
    return text +
           ": missed. Late turns refill nothing, they wait for admission: the envelope is too "
           "small for long sessions.";
  }
  return text + fmt::format(
                    ": missed. The offload tier is too slow for long sessions: in {} refills add "
                    "up to {} from warm and "
                    "{} from cold.",
                    turns_text(late), pretty_duration(late.warm_refill_s),
                    pretty_duration(late.cold_refill_s));
}

}  // namespace

const char* tier_name(FixTier tier) {
  switch (tier) {
    case FixTier::hot:
      return "hot";
    case FixTier::warm:
      return "warm";
    case FixTier::cold:
      return "cold";
  }
  return "";
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string percent_text(double fraction) { return fmt::format("{:.3g} %", fraction * 100); }

std::string turns_text(const TurnBin& bin) {
  if (bin.turn_first <= 1) return "turn 1";
  return fmt::format("turns {}-{}", bin.turn_first, std::uint64_t{2} * bin.turn_first - 1);
}

Verdict judge(const Indicators& in, const ReplayOutcome& outcome, const Placement& placement) {
  const TargetSpec& targets = placement.targets;
  const RefillCase warm{FixTier::warm, in.overall.refill.warm, in.p95_traffic.refill.warm,
                        placement.warm.link};
  const RefillCase cold{FixTier::cold, in.overall.refill.cold, in.p95_traffic.refill.cold,
                        placement.cold.link};
  const auto refill_meets = [&](const RefillCase& c) {
    return meets(c.overall, targets.refill_p95_s_max) && meets(c.peak, targets.refill_p95_s_max);
  };

  Verdict verdict;
  verdict.rejections_pass = meets(in.overall.rejections, targets.rejection_ratio_max) &&
                            meets(in.p95_traffic.rejections, targets.rejection_ratio_max);
  verdict.refill_pass = refill_meets(warm) && refill_meets(cold);
  verdict.drift_pass = meets(in.overall.drift, targets.turn_drift_max) &&
                       meets(in.p95_traffic.drift, targets.turn_drift_max);
  verdict.pass = verdict.rejections_pass && verdict.refill_pass && verdict.drift_pass;

  // A tier that meets its target is never the one to fix, however slow the other.
  const auto failing_p95 = [&](const RefillCase& c) { return refill_meets(c) ? -1 : c.worst(); };
  const RefillCase& slowest = failing_p95(cold) >= failing_p95(warm) ? cold : warm;
  const bool refill_to_blame =
      !verdict.rejections_pass && !verdict.refill_pass && in.refill_share >= kRefillShareToBlame;
  if (!verdict.refill_pass && (verdict.rejections_pass || refill_to_blame)) {
    verdict.fix_tier = slowest.tier;
  } else if (!verdict.rejections_pass) {
    verdict.fix_tier = FixTier::hot;
  } else if (!verdict.drift_pass) {
    verdict.fix_tier = drift_tier(worse_drift(in).last);
  }

  std::vector<std::pair<bool, std::string>> sentences;
  sentences.emplace_back(
      verdict.rejections_pass,
      explain_rejections(in, placement, verdict.rejections_pass, refill_to_blame));
  for (const RefillCase& c : {warm, cold}) {
    if (c.overall.n != 0)
      sentences.emplace_back(refill_meets(c), explain_refill(c, outcome, placement));
  }
  if (warm.overall.n == 0 && cold.overall.n == 0) {
    sentences.emplace_back(true, "Refill: no request loaded a block from below hot.");
  }
  sentences.emplace_back(verdict.drift_pass, explain_drift(in, placement, verdict.drift_pass));
  std::ranges::stable_partition(sentences, [](const auto& sentence) { return !sentence.first; });
  for (auto& [pass, sentence] : sentences) verdict.because.push_back(std::move(sentence));
  verdict.because.push_back(
      "Basis: modelled. All of this is virtual time over the links that the placement states, in "
      "both drivers.");
  return verdict;
}

}  // namespace tiercel
