// How a session store makes room: very many segments that die at once, what proves bad while it is moved, and when it gives up.
#include "cache/session_harness.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

constexpr std::size_t kQueueOps = 24;  // Stands for the 4096 of a store; more than its buffers.

// The smallest segments there are, of eight blocks each, and more of them than the queue takes ops.
class SessionSegments : public testing::Test {
 protected:
  SessionSegments() : harness_(8 * kMiB) {
    harness_.close();
    std::filesystem::remove_all(harness_.directory());
    harness_.options().segment_bytes = 4096;
    harness_.options().queue_ops_max = kQueueOps;
    harness_.reopen();
  }
  std::uint64_t segments_with_files() {
    std::uint64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(harness_.directory()))
      count += entry.path().filename().string().starts_with("segment") ? 1 : 0;
    return count;
  }
  SessionHarness harness_;
};

TEST_F(SessionSegments, MoreOfThemMayDieAtOnceThanTheTierTakesOps) {
  TestSession kept("kept"), large("large"), after("after");
  kept.add_run(1, 5);
  large.add_run(1000, 340);
  after.add_run(5000, 300);
  ASSERT_TRUE(kept.suspend(harness_.store()));
  const auto suspended = large.suspend(harness_.store());
  ASSERT_TRUE(suspended) << suspended.error().what;
  ASSERT_GT(segments_with_files(), kQueueOps + 10);
  ASSERT_TRUE(harness_.store().forget("large"));
  harness_.expect_whole(kept);
  ASSERT_TRUE(after.suspend(harness_.store())) << "they start anew";
  EXPECT_EQ(harness_.store().missing(*harness_.store().find("after")), 0U);
}

TEST_F(SessionSegments, MoreOfThemMayBeFoundDeadAtOpen) {
  TestSession kept("kept"), large("large");
  kept.add_run(1, 5);
  large.add_run(1000, 340);
  ASSERT_TRUE(kept.suspend(harness_.store()));
  ASSERT_TRUE(large.suspend(harness_.store()));
  ASSERT_GT(segments_with_files(), kQueueOps + 10);
  harness_.close();
  std::filesystem::remove(harness_.manifest_path("large"));
  harness_.reopen();
  harness_.expect_whole(kept);
  ASSERT_TRUE(large.suspend(harness_.store()));
  EXPECT_EQ(large.reads, 680U) << "nothing was left of it";
}

}  // namespace
}  // namespace tiercel
