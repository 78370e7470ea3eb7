// How far a prompt is cached, where a model has kinds of different reach: a pure search over who is resident.
//
// Position p of a chain of n blocks (0 <= p <= n) can be served where, of the kinds asked for,
//   all        every block before p is resident
//   window(w)  every block that holds one of the last w tokens before p is resident
//   last       the record taken at p is resident: that of block p - 1, for p > 0
// Position 0 can always be served. The largest such p is the match.
// Cost    Each (kind, block) is asked at most once; O(kinds * n).
// Threads Pure.
// Source  docs/adr/0005-library-door.md
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/kind.h"

namespace tiercel {

// Blocks of `block_tokens` tokens, the last one of `last_tokens`.
struct ChainShape {
  std::uint32_t block_count = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t last_tokens = 0;

  std::uint64_t tokens_before(std::uint32_t position) const {
    if (position == 0) return 0;
    const std::uint64_t full = static_cast<std::uint64_t>(position - 1) * block_tokens;
    return full + (position == block_count ? last_tokens : block_tokens);
  }
};

// The first block a kind needs for position p > 0; it needs [first, p).
std::uint32_t first_needed(const Kind& kind, const ChainShape& shape, std::uint32_t position);

// resident(kind index, block).
using Resident = std::function<bool(std::size_t, std::uint32_t)>;

std::uint32_t match_position(std::span<const Kind> kinds, const ChainShape& shape,
                             const Resident& resident);

}  // namespace tiercel
