// Ranges given out never overlap, and all space comes back.
#include "cache/extent_allocator.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace tiercel {
namespace {

TEST(ExtentAllocator, OneSizeFillsTheCapacityWithoutLoss) {
  ExtentAllocator space(1000);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(space.allocate(100), i * 100U);
  EXPECT_FALSE(space.allocate(1));
  space.release(300, 100);
  EXPECT_EQ(space.allocate(100), 300U);
  EXPECT_EQ(space.peak_bytes(), 1000U);
}

TEST(ExtentAllocator, RandomMixNeverOverlapsAndMergesBackToOneRange) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    ExtentAllocator space(100000);
    std::map<std::uint64_t, std::uint64_t> given;
    std::uint64_t used = 0;
    for (int step = 0; step < 20000; ++step) {
      if (given.empty() || rng.chance(0.55)) {
        const std::uint64_t bytes = 1 + rng.below(3000);
        const auto offset = space.allocate(bytes);
        if (!offset) continue;
        const auto next = given.lower_bound(*offset);
        ASSERT_TRUE(next == given.end() || *offset + bytes <= next->first);
        ASSERT_TRUE(next == given.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= *offset);
        ASSERT_LE(*offset + bytes, 100000U);
        given.emplace(*offset, bytes);
        used += bytes;
      } else {
        auto victim = given.lower_bound(rng.below(100000));
        if (victim == given.end()) victim = given.begin();
        space.release(victim->first, victim->second);
        used -= victim->second;
        given.erase(victim);
      }
      ASSERT_EQ(space.used_bytes(), used);
    }
    for (const auto& [offset, bytes] : given) space.release(offset, bytes);
    EXPECT_EQ(space.allocate(100000), 0U);
  }
}

TEST(ExtentAllocatorDeathTest, ReleasingTwiceStopsTheProcessAtTheNextMerge) {
  ExtentAllocator space(1000);
  ASSERT_TRUE(space.allocate(100));
  ASSERT_TRUE(space.allocate(100));
  space.release(0, 100);
  space.release(0, 100);
  EXPECT_DEATH((void)space.allocate(900), "broken invariant");
}

}  // namespace
}  // namespace tiercel
