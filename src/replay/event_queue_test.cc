// Whatever lane an event takes, it comes out in the order of the rules.
#include "replay/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/random.h"

namespace tiercel {
namespace {

TEST(EventQueue, LanesAndHeapGiveOneOrder) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    EventQueue queue;
    std::vector<std::tuple<std::int64_t, int, std::uint32_t>> expected;  // {time, rank, creation}
    std::int64_t now_ns = 0;
    std::uint32_t created = 0;
    while (created < 5000 || !expected.empty()) {
      if (created < 5000 && rng.chance(0.6)) {
        const auto type = static_cast<EventType>(rng.below(7));
        const int rank = type == EventType::arrival ? 2 : type == EventType::wait_limit ? 1 : 0;
        const std::int64_t time_ns = now_ns + static_cast<std::int64_t>(rng.below(20));
        // Lanes at random, so that many an event would go back in its lane's time.
        queue.push({.time_ns = time_ns, .type = type, .request = created}, static_cast<EventLane>(rng.below(7)));
        expected.emplace_back(time_ns, rank, created++);
      } else if (!expected.empty()) {
        const auto first = std::min_element(expected.begin(), expected.end());
        ASSERT_FALSE(queue.empty());
        const Event event = queue.pop();
        ASSERT_EQ(event.request, std::get<2>(*first));
        now_ns = event.time_ns;
        expected.erase(first);
      }
    }
    EXPECT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace tiercel
