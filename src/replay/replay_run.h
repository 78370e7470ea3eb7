// One replay: a trace through an engine model and the cache core, carried out by an executor.
//
// Scale   All capacities of the placement are multiplied by payload / block bytes, rounded down; links keep their unscaled
//         times. Space in warm and cold is counted in physical record bytes, so equal payloads are compared.
// Errors  invalid  the trace does not fit the placement, or a capacity is too small for its records; names key and remedy.
//         others   from the executor.
// Threads one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/core.h"
#include "placement/placement.h"
#include "replay/executor.h"
#include "replay/outcome.h"
#include "trace/request.h"

namespace tiercel {

// What a placement becomes at a payload.
struct ScaledPlacement {
  std::uint64_t payload_bytes = 0;  // Of one block.
  std::uint64_t record_bytes = 0;   // Physical, in warm and cold.
  std::uint64_t cold_bytes = 0;     // The cap.
  CoreOptions core;
};

Result<ScaledPlacement> scale_placement(const Placement& placement, std::uint64_t payload_bytes);

// What a replay's blocks agree on: a store of its own, never an engine's.
Fingerprint replay_fingerprint(std::uint32_t block_tokens);

// Names of the trace's blocks: `keys[id]`. Ids are prefix-chained by the format's promise, so each is an engine's hash of
// its whole prefix, and needs no parent to be unique.
std::vector<Key> trace_keys(const Trace& trace, std::uint32_t block_tokens);

struct ReplayControls {
  double pace = 0;  // Virtual seconds per real second; 0 = as fast as it goes.
  std::function<void(std::size_t done, std::size_t total)>
      progress;  // Requests arrived; may be empty.
};

Result<ReplayOutcome> run_replay(const Placement& placement, const ScaledPlacement& scaled,
                                 const Trace& trace, std::span<const Key> keys, Executor& executor,
                                 const ReplayControls& controls);

}  // namespace tiercel
