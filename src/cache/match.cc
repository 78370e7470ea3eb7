#include "cache/match.h"

#include <algorithm>

namespace tiercel {

std::uint32_t first_needed(const Kind& kind, const ChainShape& shape, std::uint32_t position) {
  switch (kind.reach) {
    case Reach::all:
      return 0;
    case Reach::last:
      return position - 1;
    case Reach::window:
      break;
  }
  const std::uint64_t end = shape.tokens_before(position);
  if (kind.window_tokens >= end) return 0;
  // Every block but the last has block_tokens, and a window of at least one token reaches into it.
  return static_cast<std::uint32_t>((end - kind.window_tokens) / shape.block_tokens);
}

std::uint32_t match_position(std::span<const Kind> kinds, const ChainShape& shape,
                             const Resident& resident) {
  // The run of blocks that every `all` kind has bounds the position from above.
  std::uint32_t limit = shape.block_count;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k].reach != Reach::all) continue;
    std::uint32_t run = 0;
    while (run < limit && resident(k, run)) ++run;
    limit = run;
  }
  // runs[k][p]: where the run of resident blocks that ends before p begins. Each block is asked once.
  std::vector<std::vector<std::uint32_t>> runs(kinds.size());
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k].reach == Reach::all) continue;
    runs[k].resize(limit + 1);
    for (std::uint32_t p = 1; p <= limit; ++p) runs[k][p] = resident(k, p - 1) ? runs[k][p - 1] : p;
  }
  for (std::uint32_t position = limit; position > 0; --position) {
    bool served = true;
    for (std::size_t k = 0; k < kinds.size() && served; ++k) {
      served = kinds[k].reach == Reach::all ||
               runs[k][position] <= first_needed(kinds[k], shape, position);
    }
    if (served) return position;
  }
  return 0;
}

}  // namespace tiercel
