// The cold tier on a disk that says no: errors, full, read-only, gone, slow. What it holds already is served as far as the disk
// lets it; what could not be kept is an error of that op and of no other.
#include "tier/nvme_sim_testing.h"
#include "tier/store_reader.h"

namespace tiercel {
namespace {

class NvmeFaults : public testing::Test {
 protected:
  NvmeFaults() { open(); }

  void open() {
    const auto opened = store_.open();
    ASSERT_TRUE(opened) << opened.error().what;
  }
  Completion store_one(std::uint64_t seed, std::uint32_t segment) {
    const SimWritten made = make_sim_records(1, segment, seed);
    return store_.run_one(made.records[0].store(made.places[0]));
  }
  std::size_t count(const std::vector<Completion>& done, Outcome outcome) {
    return static_cast<std::size_t>(std::ranges::count(done, outcome, &Completion::outcome));
  }

  SimDisk disk_;
  SimStore store_{disk_};
};

// The device had one bad moment: that load is an error, the next one of the same record is served.
TEST_F(NvmeFaults, AReadErrorOnceIsAnErrorOfThatLoadOnly) {
  const SimWritten written = store_durably(store_, 3);
  disk_.add_fault({.op = SimOp::read, .path_part = "segment-"});
  const Completion failed = store_.load(written.records[1], written.places[1]);
  EXPECT_EQ(failed.outcome, Outcome::error);
  EXPECT_EQ(failed.error.code, Errc::io);
  EXPECT_NE(failed.error.what.find("segment-00000000"), std::string::npos) << "names the file";
  EXPECT_EQ(store_.load(written.records[1], written.places[1]).outcome, Outcome::delivered);
}

// dynamo#15079: the load failed, its status was dropped, and another request's bytes went out. Here each load of an ill disk
// ends as an error, none as delivered, and none is left hanging.
TEST_F(NvmeFaults, AReadErrorForEverFailsEveryLoadAndDeliversNone) {
  const SimWritten written = store_durably(store_, 30);
  disk_.add_fault({.op = SimOp::read, .times = kForever});
  std::vector<AlignedBytes> back;
  std::vector<Op> loads;
  for (std::size_t i = 0; i < written.records.size(); ++i) {
    back.emplace_back(written.records[i].bytes.size());
    loads.push_back(written.records[i].load(written.places[i], back[i].span()));
  }
  EXPECT_EQ(count(store_.run(loads), Outcome::error), loads.size());
  EXPECT_EQ(store_.tier().stats().errors, loads.size());
  disk_.clear_faults();
  EXPECT_EQ(count(store_.run(loads), Outcome::delivered), loads.size());
}

// A short read that the device tells as done: what was in the memory before must not pass for a block.
TEST_F(NvmeFaults, AShortReadToldAsDoneIsNeverDelivered) {
  const SimWritten written = store_durably(store_, 2);
  for (const std::uint64_t bytes : {0, 512, 4096, 8192, 12287}) {
    disk_.add_fault({.op = SimOp::read, .os_errno = 0, .bytes_done = bytes});
    EXPECT_NE(store_.load(written.records[0], written.places[0]).outcome, Outcome::delivered)
        << bytes;
  }
  EXPECT_EQ(store_.load(written.records[0], written.places[0]).outcome, Outcome::delivered);
}

TEST_F(NvmeFaults, AWriteErrorOnceIsAnErrorOfItsStoresAndTheRestIsDurable) {
  const SimWritten first = store_durably(store_, 4);
  SimWritten made = make_sim_records(12);
  disk_.add_fault({.op = SimOp::write, .path_part = "segment-", .skip = 1});
  made.records.erase(made.records.begin(), made.records.begin() + 4);  // Behind the first four.
  made.places.erase(made.places.begin(), made.places.begin() + 4);
  const auto done = store_all(store_, made);
  EXPECT_EQ(count(done, Outcome::delivered), 4U);
  EXPECT_EQ(count(done, Outcome::error), 4U);
  EXPECT_EQ(done.back().error.code, Errc::io);
  EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
  disk_.restart(1, LossMode::drop);
  open();
  EXPECT_EQ(look_for(store_, first).delivered, 4U);
  EXPECT_EQ(look_for(store_, made).delivered, 4U);
  EXPECT_EQ(look_for(store_, made).missing, 4U);
}

TEST_F(NvmeFaults, AWriteErrorForEverEndsStoringButNotLoading) {
  const SimWritten written = store_durably(store_, 4);
  disk_.add_fault({.op = SimOp::write, .times = kForever});
  for (std::uint32_t segment = 1; segment < 4; ++segment) {
    const Completion done = store_one(100 + segment, segment);
    EXPECT_EQ(done.outcome, Outcome::error);
    EXPECT_EQ(done.error.code, Errc::io);
  }
  EXPECT_EQ(look_for(store_, written).missing, 4U) << "a fresh store recovered nothing";
  EXPECT_EQ(store_.load(written.records[0], written.places[0]).outcome, Outcome::delivered);
}

// Without its header a segment's new life could not be told from its old one: the tier stores no more, and loses nothing that
// it acknowledged.
TEST_F(NvmeFaults, AFailedSegmentHeaderEndsStoringAndLosesNothingAcknowledged) {
  const SimWritten written = store_durably(store_, 4);
  disk_.add_fault({.op = SimOp::write, .path_part = "segment-00000001"});
  EXPECT_EQ(store_one(100, 1).outcome, Outcome::error);
  EXPECT_EQ(store_one(101, 2).outcome, Outcome::error);
  EXPECT_EQ(store_.commit().outcome, Outcome::error);
  EXPECT_EQ(store_.load(written.records[0], written.places[0]).outcome, Outcome::delivered);
  disk_.restart(1, LossMode::torn);
  open();
  EXPECT_EQ(look_for(store_, written).delivered, 4U);
  store_durably(store_, 4, 1, 200);
}

// A segment's header went to the disk alone, because the first store of that life never began, and was still on its way when
// the segment was reclaimed. It must not land on the header of the next life: its records would be gone after a restart.
TEST(NvmeReclaim, TheHeaderOfALifeThatIsOverNeverLandsOnThatOfTheNext) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SimDisk disk({.seed = seed});
    SimStore store(disk);
    ASSERT_TRUE(store.open());
    store.clock().advance_ns(1000);
    const SimWritten old = make_sim_records(2);
    Op late = old.records[0].store(old.places[0]);
    late.deadline_ns = 1;
    ASSERT_EQ(store.run_one(late).error.code, Errc::cancelled);
    ASSERT_EQ(store.run_one(old.records[1].store(old.places[1])).outcome, Outcome::delivered);
    const SimWritten fresh = make_sim_records(1, 0, 100);
    for (const Completion& done : store.run({{.type = OpType::reclaim, .place = {.segment = 0}},
                                             fresh.records[0].store(fresh.places[0]),
                                             {.type = OpType::commit}})) {
      ASSERT_EQ(done.outcome, Outcome::delivered);
    }
    store.close();
    disk.restart(seed, LossMode::drop);
    ASSERT_TRUE(store.open());
    ASSERT_EQ(look_for(store, fresh).delivered, 1U) << "seed " << seed;
  }
}

// Linux: a failed fsync marks the pages clean, a second one succeeds, and the data is gone. So one failed sync ends storing.
TEST_F(NvmeFaults, AFailedSyncStopsStoresButNotLoadsAndNothingAcknowledgedIsLost) {
  const SimWritten written = store_durably(store_, 4);
  SimWritten more = make_sim_records(8);
  more.records.erase(more.records.begin(), more.records.begin() + 4);
  more.places.erase(more.places.begin(), more.places.begin() + 4);
  EXPECT_EQ(count(store_all(store_, more), Outcome::delivered), 4U);
  disk_.add_fault({.op = SimOp::sync, .path_part = "segment-"});
  EXPECT_EQ(store_.commit().outcome, Outcome::error);
  EXPECT_EQ(store_.commit().outcome, Outcome::error)
      << "the disk is well again, which proves nothing";
  EXPECT_EQ(store_one(100, 1).outcome, Outcome::error);
  EXPECT_EQ(store_.load(written.records[0], written.places[0]).outcome, Outcome::delivered);
  for (const LossMode mode : kLossModes) {
    const auto next = disk_.restarted(7, mode);
    SimStore again(*next);
    ASSERT_TRUE(again.open());
    EXPECT_EQ(look_for(again, written).delivered, 4U) << loss_mode_name(mode);
    EXPECT_EQ(look_for(again, more).refused, 0U) << "never acknowledged: whole or absent";
  }
}

// LMCache#4725, Mooncake#2187: what does not fit any more is not cached, and that is all that happens.
TEST_F(NvmeFaults, NoSpaceInTheMiddleOfABatchIsNoSpaceForThoseStoresOnly) {
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
TEST_F(NvmeFaults, AQuotaSmallerThanTheCapHoldsTheStoreAtTheQuota) {
  const std::uint64_t quota = 3 * SimStore::kSegmentBytes + 100'000;
  disk_.set_limits(1024 * kGiB, quota);
  const SimWritten written = store_durably(store_, 3 * kSimRecordsPerSegment);
  EXPECT_EQ(written.places.back().segment, 2U);
  const Completion refused = store_one(1000, 3);
  EXPECT_EQ(refused.outcome, Outcome::error);
  EXPECT_EQ(refused.error.code, Errc::no_space);
  EXPECT_LE(disk_.allocated_bytes("/"), quota);
  EXPECT_EQ(disk_.files(),
            (std::vector<std::string>{"/disk/store/lock", "/disk/store/segment-00000000",
                                      "/disk/store/segment-00000001",
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

TEST_F(NvmeFaults, AReadOnlyDirectoryIsRefusedAtOpenAndReadByVerify) {
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
TEST_F(NvmeFaults, ADirectoryRemovedWhileOpenServesWhatItHasAndMakesNothingNew) {
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
TEST_F(NvmeFaults, OnASlowDiskDeadlinesHold) {
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
TEST_F(NvmeFaults, AClockThatJumpsBackHangsNothing) {
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
TEST_F(NvmeFaults, AFullStagingPoolDelaysLoadsAndLosesNone) {
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
TEST_F(NvmeFaults, ASecondWriterIsRefusedAndTouchesNothingAndADeadOnesLockIsFree) {
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

// Whatever the disk refuses while a store is recovered: one error that names the place, or a store that opened all the same; and
// once the disk is well again, everything acknowledged is there.
TEST_F(NvmeFaults, AnErrorAnywhereInTheRecoveryCostsNothingForGood) {
  const SimWritten written = store_durably(store_, kSimRecordsPerSegment + 5);
  std::uint64_t refused = 0;
  for (const SimOp op : {SimOp::open, SimOp::create, SimOp::read, SimOp::write, SimOp::sync,
                         SimOp::truncate, SimOp::rename}) {
    for (std::uint64_t skip = 0; skip < 100; ++skip) {
      SCOPED_TRACE(testing::Message() << sim_op_name(op) << " " << skip);
      const auto next = disk_.restarted(1, LossMode::drop);
      next->add_fault({.op = op, .skip = skip});
      SimStore again(*next);
      const auto opened = again.open();
      if (!opened) {
        ++refused;
        EXPECT_EQ(opened.error().os_errno, EIO);
        EXPECT_NE(opened.error().what.find(kSimStorePath), std::string::npos)
            << opened.error().what;
      }
      again.close();
      next->clear_faults();
      next->restart(skip, LossMode::torn);
      ASSERT_TRUE(again.open());
      ASSERT_EQ(look_for(again, written).delivered, written.records.size());
      if (opened) break;  // The recovery has no so many operations of that kind.
    }
  }
  EXPECT_GT(refused, 15U);
}

// Mooncake#3052: a quick restart found its own old registration and gave everything up.
TEST_F(NvmeFaults, RestartedAtOnceAgainAndAgainItKeepsEverything) {
  const SimWritten written = store_durably(store_, 30);
  std::uint64_t epoch = store_.recovered().epoch;
  for (std::uint64_t round = 0; round < 20; ++round) {
    disk_.restart(round, kLossModes[round % 4]);
    open();
    EXPECT_GT(store_.recovered().epoch, epoch) << "lives are never named twice";
    epoch = store_.recovered().epoch;
  }
  EXPECT_EQ(look_for(store_, written).delivered, 30U);
}

}  // namespace
}  // namespace tiercel
