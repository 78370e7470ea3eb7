// The index against a std::map, collisions included.
#include "cache/block_table.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace tiercel {
namespace {

// Few distinct home slots, so that probing, wrap-around and gaps are exercised.
Key crowded_key(std::uint64_t n) {
  Key key;
  key.bytes[0] = static_cast<std::uint8_t>(n % 7 == 0 ? 0xff : n % 3);
  key.bytes[1] = static_cast<std::uint8_t>(n % 7 == 0 ? 0xff : 0);
  key.bytes[8] = static_cast<std::uint8_t>(n);
  key.bytes[9] = static_cast<std::uint8_t>(n >> 8);
  return key;
}

TEST(BlockTable, AgreesWithAMapWhileBlocksComeAndGo) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    BlockTable table;
    std::map<std::uint64_t, std::pair<BlockId, int>> model;  // n -> {id, references}
    for (int step = 0; step < 20000; ++step) {
      const std::uint64_t n = rng.below(3000);
      const auto found = model.find(n);
      ASSERT_EQ(table.find(crowded_key(n)), found == model.end() ? kNoBlock : found->second.first);
      if (found == model.end() || rng.chance(0.3)) {
        const BlockId id = table.intern(crowded_key(n), kNoBlock, 1, 1);
        auto& entry = model[n];
        if (entry.second > 0) {
          ASSERT_EQ(entry.first, id);
        }
        entry = {id, entry.second + 1};
      } else {
        table.release(found->second.first);
        if (--found->second.second == 0) model.erase(found);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    for (const auto& [n, entry] : model) ASSERT_EQ(table.find(crowded_key(n)), entry.first);
  }
}

TEST(BlockTable, AChildKeepsItsAncestorsKnownAndTheLastOneTakesThemAlong) {
  BlockTable table;
  const BlockId head = table.intern(crowded_key(1), kNoBlock, 1, 1);
  const BlockId middle = table.intern(crowded_key(2), head, 1, 1);
  const BlockId tail = table.intern(crowded_key(4), middle, 1, 1);
  table.release(head);
  table.release(middle);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table[middle].children, 1U);
  table.release(tail);
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace tiercel
