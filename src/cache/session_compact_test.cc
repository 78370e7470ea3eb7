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

// --- What proves bad while it is moved ---

// Full to the last segment, each half "keep N" and half dead; the second block of "keep 0" has a flipped bit. The segment it lies
// in has to be emptied, for all are.
class SessionDamageWhileMoved : public testing::Test {
 protected:
  SessionDamageWhileMoved() {
    for (std::uint64_t n = 0;; ++n) {
      auto keep = std::make_unique<TestSession>("keep " + std::to_string(n));
      TestSession go("go " + std::to_string(n));
      keep->add_run(1000 * n, 4);
      go.add_run(1000 * n + 500, 4);
      if (!keep->suspend(harness_.store())) break;
      kept_.push_back(std::move(keep));
      if (!go.suspend(harness_.store())) break;
      fresh_blocks_ += 4;
    }
    fresh_blocks_ -= 16;
    const auto sessions = *harness_.store().list();
    for (const SessionManifest& session : sessions) {
      if (!session.name.starts_with("go")) continue;
      EXPECT_TRUE(harness_.store().forget(session.name));
    }
    harness_.close();
    SessionHarness::flip_bit(harness_.directory() + "/" + segment_file_name(0),
                             kPageBytes + record_bytes(kBlockPayload) + 6000);
    harness_.reopen();
    EXPECT_EQ(harness_.store().missing(*harness_.store().find("keep 0")), 0U) << "nobody knows yet";
    fresh_.add_run(0, 4).add_run(900'000, fresh_blocks_);
  }
  SessionHarness harness_;
  std::vector<std::unique_ptr<TestSession>> kept_;
  TestSession fresh_{"fresh"};
  std::uint32_t fresh_blocks_ = 0;  // New ones: nearly all that can be had.
};

TEST_F(SessionDamageWhileMoved, TheSuspendThatSharesItWritesItAnew) {
  const auto suspended = fresh_.suspend(harness_.store());
  ASSERT_TRUE(suspended) << suspended.error().what;
  EXPECT_GT(harness_.store().stats().compactions, 0U);
  EXPECT_EQ(fresh_.reads, fresh_blocks_ + 1) << "what was new, and the one that proved bad";
  harness_.expect_whole(fresh_);
  for (const auto& session : kept_) harness_.expect_whole(*session);
  harness_.reopen();
  harness_.expect_whole(fresh_);
  for (const auto& session : kept_) harness_.expect_whole(*session);
  ASSERT_TRUE(harness_.store().forget("fresh"));
  for (const auto& session : kept_) ASSERT_TRUE(harness_.store().forget(session->name));
  EXPECT_EQ(harness_.store().stats().live_bytes, 0U) << "every reference was given back";
}

TEST_F(SessionDamageWhileMoved, TheSuspendThatCannotWriteItAnewFails) {
  SessionDraft draft = fresh_.draft;
  draft.read = [&](std::size_t block, std::span<std::byte> payload) -> Result<void> {
    if (block < 4) return fail(Errc::busy, "the other session was to give it");
    std::ranges::copy(session_bytes(draft.blocks[block].head.key.low64(), payload.size()),
                      payload.begin());
    return {};
  };
  const auto suspended = harness_.store().suspend(draft, 0);
  ASSERT_FALSE(suspended) << "missing: " << harness_.store().missing(*suspended);
  EXPECT_EQ(suspended.error().code, Errc::busy) << suspended.error().what;
  EXPECT_GT(harness_.store().stats().compactions, 0U);
  EXPECT_FALSE(harness_.store().find("fresh"));
  EXPECT_EQ(harness_.store().missing(*harness_.store().find("keep 0")), 1U) << "and says so";
  for (std::size_t n = 1; n < kept_.size(); ++n) harness_.expect_whole(*kept_[n]);
  for (const auto& session : kept_) ASSERT_TRUE(harness_.store().forget(session->name));
  EXPECT_EQ(harness_.store().stats().live_bytes, 0U) << "every reference was given back";
}

// --- When it gives up ---

// Full of records of 8 KiB, one in 32 of them dead, so one of a segment at most: a larger record takes several segments. Or one of
// all.
class SessionLittleRoom : public testing::Test {
 protected:
  void add_small(TestSession& session, std::uint64_t first_seed, std::uint32_t count) const {
    for (std::uint32_t i = 0; i < count; ++i) session.add(first_seed + i, i, {}, bytes_);
  }
  void fill(bool forget_many) {
    for (std::uint64_t n = 0;; ++n) {
      TestSession keep("keep " + std::to_string(n)), go("go " + std::to_string(n));
      add_small(keep, 1000 * n, 15);
      add_small(go, 1000 * n + 500, 1);
      if (!keep.suspend(harness_.store()) || !go.suspend(harness_.store())) break;
    }
    for (int n = 0;; ++n) {
      TestSession pad("pad " + std::to_string(n));
      add_small(pad, 800'000 + static_cast<std::uint64_t>(n), 1);
      if (!pad.suspend(harness_.store())) break;
    }
    const auto sessions = *harness_.store().list();
    for (const SessionManifest& session : sessions) {
      const bool goes = session.name == "go 2" || (forget_many && session.name.starts_with("go") &&
                                                   session.name.back() % 2 == 0);
      if (!goes) continue;
      ASSERT_TRUE(harness_.store().forget(session.name));
    }
    before_ = harness_.store().stats().compactions;
  }
  std::uint64_t compactions() { return harness_.store().stats().compactions - before_; }

  SessionHarness harness_{3 * kMiB};
  std::uint64_t bytes_ = 4000;
  std::uint64_t before_ = 0;
};

TEST_F(SessionLittleRoom, TheDeadlineHoldsWhileRoomIsMade) {
  fill(true);
  harness_.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
    if (request.type == IoType::read) harness_.clock().advance_ns(1'000'000'000);
    return std::nullopt;
  };
  TestSession late("late"), patient("patient");
  late.add_run(900'000, 1);
  patient.add_run(900'000, 1);
  const auto suspended = late.suspend(harness_.store(), harness_.clock().now_ns() + 500'000'000);
  ASSERT_FALSE(suspended) << compactions();
  EXPECT_EQ(suspended.error().code, Errc::busy) << suspended.error().what;
  EXPECT_EQ(compactions(), 1U) << "the one that was under way";
  harness_.disk().hooks = {};
  ASSERT_TRUE(patient.suspend(harness_.store())) << "the control: it only took time";
  EXPECT_GT(compactions(), 1U);
}

TEST_F(SessionLittleRoom, NothingIsMovedWhereAllOfItWouldNotDo) {
  bytes_ =
      8000;  // No whole number of these fills a segment: what is left at the ends is room, and of no use.
  fill(false);
  TestSession large("large"), small("small");
  add_small(large, 900'000, 8);
  add_small(small, 900'000, 1);
  const auto suspended = large.suspend(harness_.store());
  ASSERT_FALSE(suspended);
  EXPECT_EQ(suspended.error().code, Errc::no_space);
  EXPECT_EQ(compactions(), 0U);
  ASSERT_TRUE(small.suspend(harness_.store())) << "the control: what there is can be had";
  EXPECT_EQ(compactions(), 1U);
}

// --- A block that may still be written to ---

TEST(SessionSource, WhatMayStillBeWrittenToIsNotUsedAgain) {
  SessionHarness harness;
  TestSession kept("kept"), session("s");
  kept.add_run(1, 3);
  session.add_run(10, 3);
  ASSERT_TRUE(kept.suspend(harness.store()));
  std::vector<const std::byte*> payloads;
  SessionDraft draft = session.draft;
  Error why = fail(Errc::io, "no answer");
  draft.read = [&](std::size_t, std::span<std::byte> payload) -> Result<void> {
    payloads.push_back(payload.data());
    return why;
  };
  EXPECT_FALSE(harness.store().suspend(draft, 0));
  EXPECT_FALSE(harness.store().suspend(draft, 0));
  ASSERT_EQ(payloads.size(), 2U);
  EXPECT_EQ(payloads[0], payloads[1]) << "the control: given back, and taken again";
  why.os_errno = ETIMEDOUT;
  EXPECT_EQ(harness.store().suspend(draft, 0).error().what, "no answer");
  EXPECT_FALSE(harness.store().suspend(draft, 0));
  EXPECT_EQ(payloads.size(), 3U) << "nobody is given a buffer any more";
  harness.reopen();
  harness.expect_whole(kept);
  ASSERT_TRUE(session.suspend(harness.store()));
}

}  // namespace
}  // namespace tiercel
