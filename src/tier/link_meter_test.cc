// The link meter: rates over busy time, whatever the number of transfers in parallel.
#include "tier/link_meter.h"

#include <gtest/gtest.h>

namespace tiercel {
namespace {

constexpr auto kRead = LinkMeter::Direction::read;
constexpr auto kWrite = LinkMeter::Direction::write;

TEST(LinkMeter, MeasuresBytesOverBusyTimeNotOverIdleTime) {
  LinkMeter meter;
  EXPECT_EQ(meter.estimate().read_bytes_per_s, 0);
  std::int64_t now = 0;
  for (int i = 0; i < 50; ++i) {
    meter.start(kRead, now);
    now += 10'000'000;  // 10 MB in 10 ms: 1 GB/s.
    meter.finish(kRead, 10'000'000, 10'000'000, now);
    now += 1'000'000'000;  // Idle.
  }
  EXPECT_NEAR(meter.estimate().read_bytes_per_s, 1e9, 1e6);
  EXPECT_EQ(meter.estimate().write_bytes_per_s, 0);
  EXPECT_EQ(meter.estimate().queued_ops, 0U);
}

TEST(LinkMeter, ParallelTransfersCountTogether) {
  LinkMeter meter;
  std::int64_t now = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 4; ++i) meter.start(kWrite, now);
    EXPECT_EQ(meter.estimate().queued_ops, 4U);
    now += 8'000'000;
    for (int i = 0; i < 4; ++i) meter.finish(kWrite, 4'000'000, 8'000'000, now);  // 16 MB in 8 ms.
  }
  EXPECT_NEAR(meter.estimate().write_bytes_per_s, 2e9, 5e7);
}

TEST(LinkMeter, FollowsALinkThatBecomesSlow) {
  LinkMeter meter;
  std::int64_t now = 0;
  for (int i = 0; i < 100; ++i) {
    meter.start(kRead, now);
    const std::int64_t took = i < 50 ? 10'000'000 : 200'000'000;
    now += took;
    meter.finish(kRead, 10'000'000, took, now);
  }
  EXPECT_NEAR(meter.estimate().read_bytes_per_s, 5e7, 5e6);
}

}  // namespace
}  // namespace tiercel
