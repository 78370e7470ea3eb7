// Traces and placements for the tests of this room.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/random.h"
#include "placement/placement.h"
#include "trace/read_trace.h"

namespace tiercel {

// A trace of the shared material; nullopt where that is absent.
inline std::optional<Trace> shared_trace(const std::string& path, std::uint32_t every) {
  const char* root = std::getenv("TIERCEL_SHARED");
  const std::string file =
      (root != nullptr ? std::string(root) : std::string(TIERCEL_SOURCE_DIR "/../shared")) + "/" +
      path;
  if (!std::filesystem::exists(file)) return std::nullopt;
  auto trace = read_trace(file, {.every = every});
  if (!trace) return std::nullopt;
  return std::move(*trace);
}

// Requests that walk down a random tree of `nodes` blocks from a root, at most `depth` deep. One request a second.
inline Trace random_tree_trace(std::uint64_t seed, std::uint32_t requests, std::uint32_t nodes,
                               std::uint32_t depth) {
  Rng rng(seed);
  std::vector<std::uint32_t> parent(nodes);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    parent[n] = n == 0 || rng.chance(0.15) ? n : static_cast<std::uint32_t>(rng.below(n));
  }
  Trace trace;
  trace.format = "tiercel";
  trace.block_tokens = 512;
  trace.has_blocks = true;
  std::vector<std::uint32_t> dense(nodes, 0xffffffff);
  for (std::uint32_t r = 0; r < requests; ++r) {
    std::vector<std::uint32_t> path;
    for (auto n = static_cast<std::uint32_t>(rng.below(nodes));; n = parent[n]) {
      path.insert(path.begin(), n);
      if (parent[n] == n) break;
    }
    if (path.size() > depth) path.resize(depth);
    Request request{.arrival_ns = static_cast<std::int64_t>(r) * 1'000'000'000,
                    .input_tokens = static_cast<std::uint32_t>(path.size()) * 512 -
                                    static_cast<std::uint32_t>(rng.below(100)),
                    .output_tokens = 1 + static_cast<std::uint32_t>(rng.below(900)),
                    .block_first = trace.block_ids.size(),
                    .block_count = static_cast<std::uint32_t>(path.size()),
                    .session = r};
    for (const std::uint32_t n : path) {
      if (dense[n] == 0xffffffff) dense[n] = static_cast<std::uint32_t>(trace.unique_blocks++);
      trace.block_ids.push_back(dense[n]);
    }
    trace.requests.push_back(request);
  }
  trace.session_count = requests;
  trace.duration_s = requests - 1;
  return trace;
}

// Three small tiers of blocks of 64 MiB, moved as 8 KiB, under pressure from random_tree_trace().
inline Placement small_placement() {
  Placement placement;
  placement.name = "small";
  placement.model = {.name = "test", .bytes_per_token = 128 * kKiB, .block_tokens = 512};
  placement.hot.bytes = 24 * 64 * kMiB;
  placement.warm = {.bytes = 60 * 64 * kMiB,
                    .link = {.latency_ns = 20'000,
                             .read_bytes_per_s = 20'000'000'000,
                             .write_bytes_per_s = 20'000'000'000}};
  placement.cold.bytes = 400 * 64 * kMiB;
  placement.cold.segment_bytes = 128 * kKiB;
  placement.cold.sync_bytes = 10 * 64 * kMiB;
  placement.cold.sync_interval_ns = 5'000'000'000;
  placement.cold.sync_latency_ns = 5'000'000;
  placement.cold.link = {
      .latency_ns = 100'000, .read_bytes_per_s = 3'000'000'000, .write_bytes_per_s = 3'000'000'000};
  placement.staging_bytes = 40 * 64 * kMiB;
  placement.replay_payload = 8 * kKiB;
  return placement;
}

}  // namespace tiercel
