// Pass or fail against the targets of the placement, the tier to fix, and the arithmetic behind it.
//
// Pass   Each indicator meets its target overall and at P95 traffic; an indicator that is null passes. Requests too large
//        for hot are held to the rejection target too: they are turned away as well.
// Tier   Rejections are an envelope problem: hot. Refill is a storage-path problem: the slowest tier that misses its target.
//        Drift: the offload tier that late turns wait for; hot where they refill nothing and only queue.
//        Where rejections and refill both fail, refill comes first if waiting for loads takes at least kRefillShareToBlame
//        of the time that requests hold hot memory: the rejections then are its consequence. No verdict ever proposes fewer
//        bits per value: that would hide a slow path, and it needs a judgement of quality that a replay does not make.
// Basis  Virtual time (`modelled`) in both drivers; `because` says so.
// Threads Pure function.
// Source docs/formats/report.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/placement.h"
#include "replay/indicators.h"
#include "replay/outcome.h"

namespace tiercel {

inline constexpr double kRefillShareToBlame = 0.25;

enum class FixTier : std::uint8_t { hot, warm, cold };
const char* tier_name(FixTier tier);

struct Verdict {
  bool pass = true;
  bool rejections_pass = true, refill_pass = true, drift_pass = true;
  std::optional<FixTier> fix_tier;   // Empty where it passes.
  std::vector<std::string> because;  // One sentence or two per indicator; those that fail first.
};

Verdict judge(const Indicators& indicators, const ReplayOutcome& outcome,
              const Placement& placement);

// For people, here and in the text report.
std::string grouped(std::uint64_t number);   // 12,031
std::string percent_text(double fraction);   // "0.42 %"
std::string turns_text(const TurnBin& bin);  // "turns 4-7"

}  // namespace tiercel
