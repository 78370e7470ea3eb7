// Index and segment account from what a restart found on disk (tier/nvme_tier.h): the core then stands as before the crash.
//
// Law     The later record of a key, by sequence of its segment, stands for the earlier one. A parent may lie behind its child
//         (a reclaim moves it on) or be gone: then only its name is left. Nothing on a disk is trusted: a ring of parents is
//         cut where it closes.
// Cost    O(records): two look-ups each, no allocation per record beyond the table's own.
// Threads one thread; the core's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cache/core.h"
#include "tier/nvme_tier.h"

namespace tiercel {

struct RestoreHooks {
  // Payload bytes of a record of ours; nullopt for a stranger, which stays where it is until its segment is reclaimed.
  std::function<std::optional<std::uint64_t>(const RecoveredRecord&)> payload_of;
  // A block was made. No record: only its name is known, because a child tells of it.
  std::function<void(BlockId, const RecoveredRecord*)> on_block;
};

struct RestoreCounts {
  std::uint64_t blocks = 0;
  std::uint64_t strangers = 0;
};

// Requires a core with a cold log and an empty table.
RestoreCounts restore_index(const Recovered& recovered, const RestoreHooks& hooks, Core& core);

}  // namespace tiercel
