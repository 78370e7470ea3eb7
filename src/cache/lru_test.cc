// The one LRU against a plain list.
#include "cache/lru.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "base/random.h"
#include "cache/tier_lru.h"

namespace tiercel {
namespace {

TEST(Lru, AgreesWithAPlainListUnderRandomOperations) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Lru lru;
    std::list<std::uint32_t> model;  // Front = most recent.
    for (int step = 0; step < 20000; ++step) {
      const auto id = static_cast<std::uint32_t>(rng.below(50));
      const auto found = std::find(model.begin(), model.end(), id);
      ASSERT_EQ(lru.contains(id), found != model.end());
      if (found == model.end()) {
        if (rng.chance(0.8)) {
          lru.push_front(id);
          model.push_front(id);
        } else {
          lru.push_back(id);
          model.push_back(id);
        }
      } else if (rng.chance(0.5)) {
        lru.touch(id);
        model.erase(found);
        model.push_front(id);
      } else {
        lru.remove(id);
        model.erase(found);
      }
      ASSERT_EQ(lru.size(), model.size());
      ASSERT_EQ(lru.front(), model.empty() ? Lru::kNone : model.front());
      ASSERT_EQ(lru.back(), model.empty() ? Lru::kNone : model.back());
    }
    for (std::uint32_t id = lru.back(); id != Lru::kNone; id = lru.before(id)) {
      ASSERT_EQ(id, model.back());
      model.pop_back();
    }
    EXPECT_TRUE(model.empty());
  }
}

TEST(TierLru, AVictimIsDemotedToTheTierBelowAndFallsOutOfTheLast) {
  TierLru below({.capacity = 1, .on_evict = OnEvict::drop});
  TierLru above({.capacity = 2, .on_evict = OnEvict::demote, .below = &below});
  above.insert(1);
  above.insert(2);
  above.touch(1);
  above.insert(3);
  EXPECT_TRUE(above.contains(1) && above.contains(3) && !above.contains(2));
  EXPECT_TRUE(below.contains(2));
  above.insert(4);
  EXPECT_TRUE(below.contains(1) && !below.contains(2));
}

TEST(TierLru, ATierWithoutCapacityPassesEverythingOn) {
  TierLru below({.capacity = 5, .on_evict = OnEvict::drop});
  TierLru above({.capacity = 0, .on_evict = OnEvict::demote, .below = &below});
  above.insert(7);
  EXPECT_FALSE(above.contains(7));
  EXPECT_TRUE(below.contains(7));
}

}  // namespace
}  // namespace tiercel
