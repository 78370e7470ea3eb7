// What the core decides: actions for an executor to carry out, on real tiers or in virtual time.
//
// An action with op != 0 ends with one Core::complete(op); its source and destination stay reserved until then. The others
// (drop, compute, seal, reclaim) take effect in the core at once; the executor carries them out in the order given.
// Threads Plain values.
#pragma once

#include <cstdint>
#include <limits>

#include "kv/key.h"
#include "tier/tier.h"

namespace tiercel {

using BlockId = std::uint32_t;  // Dense, of one core; see cache/block_table.h.
inline constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();

// caller: memory of whoever put or fetches the block, outside the tiers.
enum class TierId : std::uint8_t { none, caller, hot, warm, cold };
const char* tier_name(TierId tier);

enum class ActionType : std::uint8_t {
  compute,  // The engine has computed the block at `target` in hot: its bytes exist from here on.
  store,    // Copy one tier down: source -> target.
  load,     // Copy one tier up (or two): source -> target, verified.
  move,     // Copy within cold, out of a segment that is being reclaimed.
  drop,     // The block leaves `from`; source is where it was.
  commit,   // Make all cold writes that completed before durable.
  seal,     // source.segment is full: write its index.
  reclaim,  // source.segment is empty and free for a new life.
};
const char* action_name(ActionType type);

struct Action {
  ActionType type = ActionType::drop;
  TierId from = TierId::none;
  TierId to = TierId::none;
  BlockId block = kNoBlock;
  std::uint64_t op = 0;  // 0: no completion expected.
  std::int64_t time_ns = 0;
  Key key;
  Place source;
  Place target;
};

}  // namespace tiercel
