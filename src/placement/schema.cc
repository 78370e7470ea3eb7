#include "placement/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace tiercel {
namespace {

using enum ValueType;

constexpr double kBytesMax = 0x1p53;  // 8 PiB: the exact range of the parser.
constexpr double kDurationMax =
    3600e9 * 100;                 // 100 h: longer than any trace; exact in seconds as a double.
constexpr double kTextMax = 512;  // Bytes of a text.
constexpr double kUnused = 0;

// clang-format off
constexpr std::array kKeys{
    PlacementKey{"name", text, 0, kTextMax, false, "\"one-box\"", "what reports call this placement",
                 [](Placement& p) -> ValueSlot { return &p.name; }},
    PlacementKey{"wait_limit", duration, 0, kDurationMax, false, "\"1 s\"", "a request that waits longer for admission is rejected",
                 [](Placement& p) -> ValueSlot { return &p.wait_limit_ns; }},
    PlacementKey{"prefix_sharing", flag, kUnused, kUnused, false, "true", "whether requests reuse the blocks of equal prefixes; `false` computes every prompt whole",
                 [](Placement& p) -> ValueSlot { return &p.prefix_sharing; }},

    PlacementKey{"model.name", text, 0, kTextMax, false, "\"Llama-3-8B\"", "for people",
                 [](Placement& p) -> ValueSlot { return &p.model.name; }},
    PlacementKey{"model.bytes_per_token", byte_size, 1, 0x1p30, true, "\"128 KiB\"", "KV bytes of one token over all layers",
                 [](Placement& p) -> ValueSlot { return &p.model.bytes_per_token; }},
    PlacementKey{"model.block_tokens", integer, 1, 0x1p20, false, "512", "tokens of a full block; that of the trace where the trace has one",
                 [](Placement& p) -> ValueSlot { return &p.model.block_tokens; }},
    PlacementKey{"model.parameters", real, 0, 1e15, false, "8.0e9", "for `prefill = \"flops\"`: active parameters",
                 [](Placement& p) -> ValueSlot { return &p.model.parameters; }},
    PlacementKey{"model.layers", integer, 0, 100000, false, "32", "for `prefill = \"flops\"`: layers with attention",
                 [](Placement& p) -> ValueSlot { return &p.model.layers; }},
    PlacementKey{"model.hidden", integer, 0, 1e7, false, "4096", "for `prefill = \"flops\"`: heads x head_dim of the queries",
                 [](Placement& p) -> ValueSlot { return &p.model.hidden; }},

    PlacementKey{"engine.prefill", prefill_model, kUnused, kUnused, false, "\"nominal\"", "`nominal`: tokens / rate, no lanes; `flops`: arithmetic over planned FLOP/s, FIFO over lanes",
                 [](Placement& p) -> ValueSlot { return &p.engine.prefill; }},
    PlacementKey{"engine.prefill_tokens_per_s", real, 1e-3, 1e12, false, "10000", "for `nominal`: input tokens per second of one request",
                 [](Placement& p) -> ValueSlot { return &p.engine.prefill_tokens_per_s; }},
    PlacementKey{"engine.flops", real, 0, 1e21, false, "4.0e14", "for `flops`: planned FLOP/s of one lane",
                 [](Placement& p) -> ValueSlot { return &p.engine.flops; }},
    PlacementKey{"engine.prefill_lanes", integer, 1, 1024, false, "1", "for `flops`: prefills that run at once",
                 [](Placement& p) -> ValueSlot { return &p.engine.prefill_lanes; }},
    PlacementKey{"engine.decode_per_token", duration, 0, kDurationMax, false, "\"30 ms\"", "time of one output token",
                 [](Placement& p) -> ValueSlot { return &p.engine.decode_per_token_ns; }},

    PlacementKey{"hot.bytes", byte_size, 0, kBytesMax, true, "\"110 GiB\"", "the envelope: GPU memory for KV; at least one block",
                 [](Placement& p) -> ValueSlot { return &p.hot.bytes; }},

    PlacementKey{"warm.bytes", byte_size, 0, kBytesMax, false, "\"640 GiB\"", "host memory for KV, at least `hot.bytes`; `0 B` = no warm tier",
                 [](Placement& p) -> ValueSlot { return &p.warm.bytes; }},
    PlacementKey{"warm.latency", duration, 0, kDurationMax, false, "\"20 us\"", "of one transfer between warm and hot",
                 [](Placement& p) -> ValueSlot { return &p.warm.link.latency_ns; }},
    PlacementKey{"warm.read_bandwidth", byte_rate, 0, kBytesMax, false, "\"20 GB/s\"", "warm to hot",
                 [](Placement& p) -> ValueSlot { return &p.warm.link.read_bytes_per_s; }},
    PlacementKey{"warm.write_bandwidth", byte_rate, 0, kBytesMax, false, "\"20 GB/s\"", "hot to warm",
                 [](Placement& p) -> ValueSlot { return &p.warm.link.write_bytes_per_s; }},

    PlacementKey{"cold.bytes", byte_size, 0, kBytesMax, false, "\"6 TiB\"", "disk space for KV, physical; `0 B` = no cold tier; needs a warm tier",
                 [](Placement& p) -> ValueSlot { return &p.cold.bytes; }},
    PlacementKey{"cold.path", text, 0, kTextMax, false, "\"/mnt/nvme0/tiercel\"", "directory of the store; empty: `store` below the output directory",
                 [](Placement& p) -> ValueSlot { return &p.cold.path; }},
    PlacementKey{"cold.segment_bytes", byte_size, 0, 0x1p40, false, "\"64 MiB\"", "size of a segment file, physical and not scaled; a multiple of 4 KiB; raised to 8 records where those are larger",
                 [](Placement& p) -> ValueSlot { return &p.cold.segment_bytes; }},
    PlacementKey{"cold.sync_bytes", byte_size, 0, kBytesMax, false, "\"1 GiB\"", "group commit once so many bytes (unscaled) wait; `0 B` = by time alone",
                 [](Placement& p) -> ValueSlot { return &p.cold.sync_bytes; }},
    PlacementKey{"cold.sync_interval", duration, 0, kDurationMax, false, "\"1 s\"", "group commit once the oldest waits so long; `0 ns` = by bytes alone",
                 [](Placement& p) -> ValueSlot { return &p.cold.sync_interval_ns; }},
    PlacementKey{"cold.sync_latency", duration, 0, kDurationMax, false, "\"5 ms\"", "what a commit takes in virtual time",
                 [](Placement& p) -> ValueSlot { return &p.cold.sync_latency_ns; }},
    PlacementKey{"cold.latency", duration, 0, kDurationMax, false, "\"100 us\"", "of one transfer between cold and warm",
                 [](Placement& p) -> ValueSlot { return &p.cold.link.latency_ns; }},
    PlacementKey{"cold.read_bandwidth", byte_rate, 0, kBytesMax, false, "\"3 GB/s\"", "cold to warm",
                 [](Placement& p) -> ValueSlot { return &p.cold.link.read_bytes_per_s; }},
    PlacementKey{"cold.write_bandwidth", byte_rate, 0, kBytesMax, false, "\"3 GB/s\"", "warm to cold",
                 [](Placement& p) -> ValueSlot { return &p.cold.link.write_bytes_per_s; }},

    PlacementKey{"staging.bytes", byte_size, 0, kBytesMax, false, "\"16 GiB\"", "stores in flight to one tier, at most; what comes beyond is skipped and counted",
                 [](Placement& p) -> ValueSlot { return &p.staging_bytes; }},

    PlacementKey{"replay.payload", byte_size, 0, 0x1p40, false, "\"64 KiB\"", "bytes that stand for a full block when a replay moves it; every capacity scales by payload / block bytes; a multiple of 4 KiB; `0 B` = the block itself",
                 [](Placement& p) -> ValueSlot { return &p.replay_payload; }},

    PlacementKey{"targets.rejection_ratio", real, 0, 1, false, "0.01", "rejected requests over arrivals, at most",
                 [](Placement& p) -> ValueSlot { return &p.targets.rejection_ratio_max; }},
    PlacementKey{"targets.refill_p95", duration, 0, kDurationMax, false, "\"1 s\"", "P95 of the refill latency of a tier, at most",
                 [](Placement& p) -> ValueSlot { return &p.targets.refill_p95_s_max; }},
    PlacementKey{"targets.turn_drift", real, 0, 1e6, false, "2.0", "P95 of wait + refill in late turns over that of turns 2-3, at most",
                 [](Placement& p) -> ValueSlot { return &p.targets.turn_drift_max; }},
};
// clang-format on

std::string_view table_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Edits (insert, delete, replace, swap of neighbours) between two short names.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::span<const PlacementKey> placement_keys() { return kKeys; }

const PlacementKey* find_placement_key(std::string_view name) {
  const auto found = std::ranges::find(kKeys, name, &PlacementKey::name);
  return found != kKeys.end() ? &*found : nullptr;
}

bool is_placement_table(std::string_view name) {
  return !name.empty() && std::ranges::any_of(kKeys, [&](const PlacementKey& key) {
    return table_of(key.name) == name;
  });
}

std::string suggest_placement_key(std::string_view unknown) {
  constexpr std::size_t kLongestName = 64;  // Bounds the work; no key is half as long.
  std::string_view nearest;
  std::size_t best = std::numeric_limits<std::size_t>::max();
  const auto consider = [&](std::string_view candidate, std::size_t distance) {
    if (distance >= best) return;
    best = distance;
    nearest = candidate;
  };
  if (unknown.size() <= kLongestName) {
    for (const PlacementKey& key : kKeys) {
      consider(key.name, edit_distance(unknown, key.name));
      // The right name in the wrong table is nearer than any typo.
      if (leaf_of(key.name) == leaf_of(unknown)) consider(key.name, 1);
      if (unknown.find('.') == std::string_view::npos) {
        consider(table_of(key.name), edit_distance(unknown, table_of(key.name)));
      }
    }
  }
  if (!nearest.empty() && best <= std::max<std::size_t>(2, unknown.size() / 3)) {
    return fmt::format("; did you mean \"{}\"?", nearest);
  }
  std::string names;
  for (const PlacementKey& key : kKeys) {
    if (table_of(key.name) == table_of(unknown)) names += fmt::format(" {}", leaf_of(key.name));
  }
  if (names.empty() || table_of(unknown).empty())
    return "; the keys are listed in docs/formats/placement.md";
  return fmt::format("; [{}] has:{}", table_of(unknown), names);
}

}  // namespace tiercel
