// The ring against std::deque.
#include "base/ring.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"

namespace tiercel {
namespace {

TEST(Ring, AgreesWithADequeWhileItGrowsAndWraps) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Ring<std::uint64_t> ring;
    std::deque<std::uint64_t> model;
    for (int step = 0; step < 20000; ++step) {
      const double push = step / 4000 % 2 == 0 ? 0.6 : 0.4;  // Fills and drains, several times.
      if (model.empty() || rng.chance(push)) {
        ring.push_back(static_cast<std::uint64_t>(step));
        model.push_back(static_cast<std::uint64_t>(step));
      } else {
        ring.pop_front();
        model.pop_front();
      }
      ASSERT_EQ(ring.size(), model.size());
      if (model.empty()) continue;
      ASSERT_EQ(ring.front(), model.front());
      ASSERT_EQ(ring.back(), model.back());
      const std::size_t at = rng.below(model.size());
      ASSERT_EQ(ring[at], model[at]);
    }
  }
}

}  // namespace
}  // namespace tiercel
