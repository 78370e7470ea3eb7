// What a replay leaves behind: one row per request, and the totals. Indicators, verdict and report read only this.
//
// Units   Virtual time in integer nanoseconds; everything here is `modelled` unless its name says `measured`.
// Threads A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tiercel {

enum class Fate : std::uint8_t { completed, rejected, too_large };

// The slowest tier a request loaded from.
enum class RefillTier : std::uint8_t { none, warm, cold };

struct RequestOutcome {
  std::int64_t arrival_ns = 0;  // Spread (replay time); decides the window.
  std::uint32_t turn = 1;
  Fate fate = Fate::completed;
  RefillTier refill_tier = RefillTier::none;
  std::int64_t wait_ns = 0;  // Arrival to last admission.
  std::int64_t refill_ns =
      0;  // Submit of the first load to the last block delivered; 0 where nothing was loaded.
  std::int64_t prefill_ns = 0;
  std::int64_t run_ns =
      0;  // Last admission to the end of decode: how long it held hot memory. 0 = not filled in.
  std::uint32_t preemptions = 0;
};

struct TierBlocks {
  std::uint64_t hot = 0, warm = 0, cold = 0;
};

// Percentiles of the real refills, drive only.
struct MeasuredRefill {
  std::vector<double> warm_s, cold_s;  // One entry per request that refilled from that tier.
};

struct ReplayOutcome {
  std::string driver;  // "simulate" or "drive".
  std::vector<RequestOutcome> requests;
  TierBlocks hits;
  std::uint64_t miss = 0;
  std::uint64_t lookups =
      0;  // Blocks looked up in the core, retries included: for the look-up rate.
  std::string decisions_sha256;
  std::uint64_t delivered = 0, errors = 0, late = 0, wrong_bytes = 0, skipped_stores = 0;
  std::uint64_t skipped_staging = 0, skipped_parent = 0,
                skipped_space = 0;  // The same by reason (cache/core.h).
  std::uint64_t evicted_hot = 0, evicted_warm = 0, evicted_cold = 0, reclaims = 0;
  std::uint64_t cold_read_bytes = 0, cold_written_bytes = 0, format_bytes = 0, warm_read_bytes = 0;
  std::uint64_t stored_warm = 0, stored_cold = 0, moved_cold = 0;  // Blocks.
  std::uint64_t peak_hot_bytes = 0, peak_warm_bytes = 0, peak_cold_bytes = 0;
  std::uint64_t payload_bytes = 0;
  double byte_rate_factor = 1;  // Unscaled block bytes / payload bytes.
  std::optional<std::uint64_t> rss_bytes;
  std::optional<MeasuredRefill> measured;
  double wall_s = 0;     // Of the whole run, warm-up included.
  double loop_s = 0;     // Of the events alone: without reading, naming and warm-up.
  double warm_up_s = 0;  // Taking and pre-faulting the arena, formatting.
  std::vector<std::string>
      notes;  // Fallbacks and what else a reader should know, one sentence each.
};

}  // namespace tiercel
