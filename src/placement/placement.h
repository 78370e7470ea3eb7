// placement.toml: the file that drives plan, serve and replay alike. What was validated is what runs.
//
// Read by read_placement(), changed by `--set KEY=VALUE`, written back in canonical form (every key, fixed order, exact
// units), whose SHA-256 names the placement in a report. Defaults are the initialisers below and nowhere else; names,
// ranges and meaning of the keys are in placement/schema.cc.
// Units   Bytes are for the unscaled model; --payload scales every capacity by payload / block_bytes().
// Errors  invalid, naming file, line, key and remedy; an unknown key comes with the nearest known one.
// Threads A plain value.
// Source  docs/formats/placement.md
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tiercel {

enum class PrefillModel : std::uint8_t { nominal, flops };

struct LinkSpec {
  std::int64_t latency_ns = 0;
  std::uint64_t read_bytes_per_s = 0;
  std::uint64_t write_bytes_per_s = 0;
};

struct ModelSpec {
  std::string name;
  std::uint64_t bytes_per_token = 0;
  std::uint32_t block_tokens = 512;
  // For PrefillModel::flops only: FLOP of n tokens at position p = 2 * parameters * n + 4 * layers
  // * hidden * sum(p..p+n).
  double parameters = 0;
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
};

struct EngineSpec {
  PrefillModel prefill = PrefillModel::nominal;
  double prefill_tokens_per_s = 10000;  // nominal: per request, no lanes.
  double flops = 0;                     // flops: planned FLOP/s of one lane.
  std::uint32_t prefill_lanes = 1;      // flops: how many prefills run at once, FIFO.
  std::int64_t decode_per_token_ns = 30'000'000;
};

struct HotSpec {
  std::uint64_t bytes = 0;
};

struct WarmSpec {
  std::uint64_t bytes = 0;  // 0 = no warm tier.
  LinkSpec link;
};

struct ColdSpec {
  std::uint64_t bytes = 0;  // 0 = no cold tier.
  std::string path;         // Empty: OUT/store.
  std::uint64_t segment_bytes =
      256ULL << 20;              // Physical, not scaled; the replay takes at least 8 records.
  std::uint64_t sync_bytes = 0;  // Group commit by bytes (unscaled; 0 = by time alone) ...
  std::int64_t sync_interval_ns =
      1'000'000'000;  // ... and by time (0 = by bytes alone), whichever comes first.
  std::int64_t sync_latency_ns = 5'000'000;  // What a commit takes in virtual time.
  LinkSpec link;
};

struct TargetSpec {
  double rejection_ratio_max = 0.01;
  double refill_p95_s_max = 1.0;
  double turn_drift_max = 2.0;
};

// Where each value came from: for messages only, not part of the canonical form.
struct PlacementOrigin {
  std::string file;
  std::map<std::string, std::string, std::less<>>
      places;  // Key to "FILE:LINE" or "FILE, --set KEY=VALUE".

  std::string place_of(std::string_view key) const {  // "FILE (default)" where nobody stated it.
    const auto found = places.find(key);
    return found != places.end() ? found->second : file + " (default)";
  }
};

struct Placement {
  std::string name;
  std::int64_t wait_limit_ns = 1'000'000'000;
  bool prefix_sharing = true;
  ModelSpec model;
  EngineSpec engine;
  HotSpec hot;
  WarmSpec warm;
  ColdSpec cold;
  std::uint64_t staging_bytes =
      0;  // Stores in flight per destination tier, at most; beyond that they are skipped.
  std::uint64_t replay_payload = 0;  // Bytes per full block that --drive moves; 0 = block_bytes().
  TargetSpec targets;
  PlacementOrigin origin;

  std::uint64_t block_bytes() const { return model.bytes_per_token * model.block_tokens; }
  std::uint64_t payload_bytes() const {
    return replay_payload != 0 ? replay_payload : block_bytes();
  }
};

}  // namespace tiercel
