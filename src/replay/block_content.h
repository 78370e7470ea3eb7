// The bytes of a block in a driven replay: made from its key alone, so that whatever a tier delivers can be compared whole.
//
// Shape   KV-like BF16 values from a table made once (normal, mean 0, a few large channels). Page by page (4096 bytes) a
//         stretch of the table at an offset hashed from key and page; the first 16 bytes are the key itself. So two blocks
//         differ in their first bytes, and two pages of a store hold the same bytes only by chance of the table.
// Cost    One copy of a page from a table that fits the cache: several GB/s; docs/performance.md has the figure.
// Threads immutable; all calls are const.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/key.h"

namespace tiercel {

class BlockContent {
 public:
  BlockContent();

  // Requires a size of at least 16 bytes.
  void fill(const Key& key, std::span<std::byte> block) const;

  // How many bytes differ from what fill() would write.
  std::uint64_t count_wrong(const Key& key, std::span<const std::byte> block) const;

 private:
  std::span<const std::byte> page_source(const Key& key, std::uint64_t page,
                                         std::size_t bytes) const;

  std::span<const std::byte> table_;
};

}  // namespace tiercel
