// What no single key can get wrong: sizes and links of a placement that contradict each other, or the machine.
//
// Errors  invalid, naming the place of the key to change (Placement::origin), the arithmetic and the remedy.
// Threads Pure functions; check_against_disk asks the file system.
// Source  docs/formats/placement.md, section "What is refused"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "placement/placement.h"

namespace tiercel {

// read_placement() has called it already; for placements made by code.
Result<void> check_contradictions(const Placement& placement);

// For the payload that a replay will use (--payload or the placement's own): it stands for a full block. Whether the
// scaled capacities still hold their records is the replay's business (scale_placement).
Result<void> check_payload(const Placement& placement, std::uint64_t payload_bytes);

// Bytes that a capacity of the placement stands for when `payload_bytes` stand for a block; rounded down.
std::uint64_t scaled_bytes(const Placement& placement, std::uint64_t payload_bytes,
                           std::uint64_t bytes);

// Only before real bytes are written: `scaled_cap_bytes` against what the file system of `dir` (or of its nearest existing
// parent) has free for this user, and `reusable_bytes` that an old store in `dir` will give back. Call it before that store
// is emptied, so that a refusal costs nothing.
// Errors  invalid  the cap does not fit
//         io       the file system cannot be asked
Result<void> check_against_disk(const Placement& placement, std::uint64_t scaled_cap_bytes,
                                const std::string& dir, std::uint64_t reusable_bytes = 0);

// What is allowed yet deserves a sentence in the report.
std::vector<std::string> placement_warnings(const Placement& placement);

}  // namespace tiercel
