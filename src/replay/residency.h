// Residency: which blocks of a trace a cache of some size would still hold. No time, blocks reusable at once.
//
// Hit     Prefix semantics: the leading blocks of a request that are resident at its arrival; a resident block behind a
//         missing one does not count. The denominator is all block ids of the request.
// Order   Requests in trace order. After scoring, all blocks become resident; within a request the deepest first, so the head
//         is the most recent and LRU never strands a tail. A prompt longer than the cache goes through it deepest first.
// Cost    One pass per policy and size; memory proportional to unique blocks (OPT: to accesses).
// Threads Pure functions over an immutable trace.
// Source  docs/adr/0002-two-questions-one-core.md
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "trace/request.h"

namespace tiercel {

enum class ResidencyPolicy : std::uint8_t {
  lru,
  fifo,  // Evicts at each insertion, never touches.
  opt,  // Belady with bypass, ties evict the deeper block: optimal for prefix hits. Looks into the future.
};

// Errors: invalid, naming the policies that exist.
Result<ResidencyPolicy> parse_residency_policy(std::string_view name);

// Blocks hit over the whole trace by one cache of `capacity_blocks`.
std::uint64_t residency_hits(const Trace& trace, ResidencyPolicy policy,
                             std::uint64_t capacity_blocks);

// Blocks hit by a cache that never evicts.
std::uint64_t infinite_hits(const Trace& trace);

struct TierSplit {
  std::uint64_t hot = 0, warm = 0, cold = 0, miss = 0;  // Blocks.
};

// Three exclusive LRU tiers: a hit moves to hot, an eviction demotes one tier down, out of cold it drops.
// `cold_blocks` empty = unbounded.
TierSplit residency_tiers(const Trace& trace, std::uint64_t hot_blocks, std::uint64_t warm_blocks,
                          std::optional<std::uint64_t> cold_blocks);

}  // namespace tiercel
