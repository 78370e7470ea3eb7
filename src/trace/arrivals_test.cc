// The 3 s grid: spread exactly as specified, and left alone where there is none.
#include "trace/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tiercel {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Trace arriving_ms(const std::vector<std::int64_t>& times_ms) {
  Trace trace;
  for (const std::int64_t ms : times_ms) trace.requests.push_back({.arrival_ns = ms * kMs});
  return trace;
}

TEST(Arrivals, TheIthOfNInASlotArrivesIOverNIntoIt) {
  // 2,999 ms belongs to slot 1 like 3,000 and 3,003; 5,999 and 6,000 are slot 2.
  EXPECT_EQ(
      spread_arrivals(arriving_ms({0, 0, 2999, 3000, 3003, 5999})),
      (std::vector<std::int64_t>{0, 1500 * kMs, 3000 * kMs, 4000 * kMs, 5000 * kMs, 6000 * kMs}));
}

TEST(Arrivals, FractionsAreRoundedDownToANanosecond) {
  const auto spread = spread_arrivals(arriving_ms({0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(spread[1], 428'571'428);
  EXPECT_EQ(spread[6], 2'571'428'571);
}

TEST(Arrivals, OffTheGridTimesStayAsTheyAre) {
  const std::vector<std::int64_t> times = {0, 1000, 1000, 3000, 7777};
  const auto spread = spread_arrivals(arriving_ms(times));
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(spread[i], times[i] * kMs);
}

TEST(Arrivals, MoreThanNinetyNinePercentWithinFiveMilliseconds) {
  std::vector<std::int64_t> times(198, 3005);  // 5 ms off counts as on the grid.
  times.push_back(6000);
  times.push_back(6500);
  EXPECT_NE(spread_arrivals(arriving_ms(times))[1], 3005 * kMs) << "199 of 200 lie on the grid";
  times[198] = 6006;  // 198 of 200 are not more than 99 %.
  EXPECT_EQ(spread_arrivals(arriving_ms(times))[1], 3005 * kMs);
}

TEST(Arrivals, NoRequestsNoArrivals) { EXPECT_TRUE(spread_arrivals(Trace{}).empty()); }

}  // namespace
}  // namespace tiercel
