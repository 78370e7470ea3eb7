// The cold tier at its limits: full, over quota, read-only, gone, slow, out of staging memory, two of it. Each ends in one clear
// error of the ops it concerns; nothing else is lost, nothing hangs.
#include "tier/nvme_sim_testing.h"
#include "tier/store_reader.h"

namespace tiercel {
namespace {

using NvmeLimits = SimStoreTest;

// LMCache#4725, Mooncake#2187: what does not fit any more is not cached, and that is all that happens.
TEST_F(NvmeLimits, NoSpaceInTheMiddleOfABatchIsNoSpaceForThoseStoresOnly) {
  const SimWritten before = store_durably(store_, 1);  // The segment has its header.
  const SimWritten made = make_sim_records(13);
  std::vector<Op> ops;
  for (std::size_t i = 1; i < made.records.size(); ++i)
    ops.push_back(made.records[i].store(made.places[i]));
  disk_.add_fault({.op = SimOp::write,
                   .path_part = "segment-",
                   .skip = 1,
                   .os_errno = ENOSPC,
                   .bytes_done = 5000});
  ops.push_back({.type = OpType::commit});
  const auto done = store_.run(ops);
  EXPECT_EQ(done.back().outcome, Outcome::delivered) << "a full disk is no failed sync";
  SimWritten kept, refused;
  for (std::size_t i = 1; i < made.records.size(); ++i) {
    const Completion& outcome = done[i - 1];
    if (outcome.outcome == Outcome::error) {
      EXPECT_EQ(outcome.error.code, Errc::no_space);
    }
    SimWritten& list = outcome.outcome == Outcome::delivered ? kept : refused;
    list.records.push_back(make_test_record(1 + i, 2 * kPageBytes));
    list.places.push_back(made.places[i]);
  }
  EXPECT_GT(kept.records.size(), 0U);
  EXPECT_GT(refused.records.size(), 0U);
  disk_.restart(1, LossMode::drop);
  open();
  EXPECT_EQ(look_for(store_, before).delivered, 1U);
  EXPECT_EQ(look_for(store_, kept).delivered, kept.records.size());
  EXPECT_EQ(look_for(store_, refused).missing, refused.records.size());
}

// Mooncake#3426: the file system does not tell of its quota. The store stops there, keeps what it has, and goes on in place.
TEST_F(NvmeLimits, AQuotaSmallerThanTheCapHoldsTheStoreAtTheQuota) {
  const std::uint64_t quota = 3 * SimStore::kSegmentBytes + 100'000;
  disk_.set_limits(1024 * kGiB, quota);
  const SimWritten written = store_durably(store_, 3 * kSimRecordsPerSegment);
  EXPECT_EQ(written.places.back().segment, 2U);
  const Completion refused = store_one(1000, 3);
  EXPECT_EQ(refused.outcome, Outcome::error);
  EXPECT_EQ(refused.error.code, Errc::no_space);
  EXPECT_LE(disk_.allocated_bytes("/"), quota);
  EXPECT_EQ(disk_.files(), (std::vector<std::string>{
                               "/disk/store/index.checkpoint", "/disk/store/lock",
                               "/disk/store/segment-00000000", "/disk/store/segment-00000001",
                               "/disk/store/segment-00000002", "/disk/store/store.meta"}))
      << "nothing half made stays";
  ASSERT_EQ(store_.run_one({.type = OpType::reclaim, .place = {.segment = 1}}).outcome,
            Outcome::delivered);
  const SimWritten fresh = store_durably(store_, 5, 1, 500);
  disk_.restart(1, LossMode::drop);
  open();
  EXPECT_EQ(look_for(store_, fresh).delivered, 5U);
  EXPECT_EQ(look_for(store_, written).delivered, 2 * kSimRecordsPerSegment);
}

TEST_F(NvmeLimits, AReadOnlyDirectoryIsRefusedAtOpenAndReadByVerify) {
  const SimWritten written = store_durably(store_, 4);
  disk_.set_read_only(kSimStorePath, true);
  EXPECT_EQ(store_one(100, 1).outcome, Outcome::error) << "it became so while in use";
  EXPECT_EQ(store_.load(written.records[0], written.places[0]).outcome, Outcome::delivered);
  store_.close();
  const auto opened = store_.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().os_errno, EROFS);
  EXPECT_NE(opened.error().what.find(kSimStorePath), std::string::npos) << opened.error().what;
  const auto report = read_store(disk_, kSimStorePath, StoreReading::verify);
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_EQ(report->records, 4U);
  EXPECT_EQ(report->damaged, 0U);
}

// Somebody ran rm -rf under a running store. Its open files serve on; new ones cannot be made; the next open starts empty.
TEST_F(NvmeLimits, ADirectoryRemovedWhileOpenServesWhatItHasAndMakesNothingNew) {
  const SimWritten written = store_durably(store_, 4);
  disk_.remove_tree("/disk");
  EXPECT_EQ(store_.load(written.records[2], written.places[2]).outcome, Outcome::delivered);
  const Completion refused = store_one(100, 1);
  EXPECT_EQ(refused.outcome, Outcome::error);
  EXPECT_NE(refused.error.what.find("segment-00000001"), std::string::npos) << refused.error.what;
  static_cast<void>(store_.commit());
  disk_.restart(1, LossMode::keep);
  open();
  EXPECT_TRUE(store_.recovered().segments.empty());
  EXPECT_EQ(store_.load(written.records[2], written.places[2]).outcome, Outcome::miss);
}

// R8: a disk of 50 MB/s is no reason to wait longer than recomputing would take: past their deadline, loads that were not
// started are taken back, and the link's estimate says how slow it is.
TEST_F(NvmeLimits, OnASlowDiskDeadlinesHold) {
  constexpr std::uint64_t kBytesPerSecond = 50'000'000;
  constexpr std::int64_t kMillisecond = 1'000'000;
  const SimWritten written = store_durably(store_, 80);
  disk_.set_pace(kBytesPerSecond, &store_.clock());
  std::vector<AlignedBytes> back;
  std::vector<Op> loads;
  for (std::size_t i = 0; i < written.records.size(); ++i) {
    back.emplace_back(written.records[i].bytes.size());
    loads.push_back(written.records[i].load(written.places[i], back[i].span()));
    loads[i].deadline_ns = store_.clock().now_ns() + 2 * kMillisecond;
  }
  const std::int64_t start_ns = store_.clock().now_ns();
  const auto done = store_.run(loads);
  const auto in_flight_ns = static_cast<std::int64_t>(
      (store_.options().bytes_in_flight_max + store_.options().request_bytes_max) * 1'000'000'000 /
      kBytesPerSecond);
  EXPECT_LE(store_.clock().now_ns() - start_ns, 2 * kMillisecond + in_flight_ns);
  EXPECT_GT(count(done, Outcome::delivered), 0U);
  EXPECT_GT(count(done, Outcome::error), 0U);
  for (const Completion& completion : done) {
    if (completion.outcome == Outcome::error) {
      EXPECT_EQ(completion.error.code, Errc::cancelled);
    }
  }
  EXPECT_NEAR(store_.tier().link().read_bytes_per_s / kBytesPerSecond, 1.0, 0.2);
  for (Op& load : loads) load.deadline_ns = 0;
  const std::int64_t again_ns = store_.clock().now_ns();
  EXPECT_EQ(count(store_.run(loads), Outcome::delivered), loads.size()) << "without one, all come";
  EXPECT_GT(store_.clock().now_ns() - again_ns, 15 * kMillisecond);
}

// The wall clock was set back by an hour: nothing hangs, nothing is called late.
TEST_F(NvmeLimits, AClockThatJumpsBackHangsNothing) {
  const SimWritten written = store_durably(store_, 4);
  store_.clock().advance_ns(-3'600'000'000'000);
  AlignedBytes back(written.records[0].bytes.size());
  Op load = written.records[0].load(written.places[0], back.span());
  load.deadline_ns = store_.clock().now_ns() + 1'000'000;
  EXPECT_EQ(store_.run_one(load).outcome, Outcome::delivered);
  EXPECT_EQ(store_one(100, 1).outcome, Outcome::delivered);
  EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
}

// LMCache#2942 spins when its staging pool is full. Here memory that the device cannot reach waits for one of two slots.
TEST_F(NvmeLimits, AFullStagingPoolDelaysLoadsAndLosesNone) {
  const SimWritten written = store_durably(store_, 40);
  const std::uint64_t bytes = written.records[0].bytes.size();
  std::vector<AlignedBytes> back;
  std::vector<Op> loads;
  for (std::size_t i = 0; i < written.records.size(); ++i) {
    back.emplace_back(bytes + 8);
    loads.push_back(written.records[i].load(written.places[i], back[i].span().subspan(8)));
  }
  EXPECT_EQ(count(store_.run(loads), Outcome::delivered), loads.size());
  for (std::size_t i = 0; i < loads.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(back[i].span().subspan(8), written.records[i].bytes.span()));
  }
}

// sglang!31926: a second process with the same directory truncated the files of the first.
TEST_F(NvmeLimits, ASecondWriterIsRefusedAndTouchesNothingAndADeadOnesLockIsFree) {
  const SimWritten written = store_durably(store_, 4);
  const std::uint64_t steps = disk_.steps();
  SimStore second(disk_);
  const auto refused = second.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_NE(refused.error().what.find("tiercel pid"), std::string::npos) << refused.error().what;
  EXPECT_EQ(disk_.steps(), steps);
  disk_.restart(1, LossMode::keep);  // The lock file stays, its holder is dead.
  open();
  EXPECT_EQ(look_for(store_, written).delivered, 4U);
}

}  // namespace
}  // namespace tiercel
