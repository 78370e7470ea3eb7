// The cold tier on a disk that refuses: errors once and for ever, short reads, failed syncs, errors in a recovery. What it holds
// already is served as far as the disk lets it; what could not be kept is an error of that op and of no other.
#include "tier/nvme_sim_testing.h"

namespace tiercel {
namespace {

using NvmeFaults = SimStoreTest;

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

// Two segments to sync, one of them sealed: its sync fails while the other's is still out. No footer may call its records durable.
TEST(NvmeSyncFault, NoFooterIsWrittenForRecordsWhoseSyncHasJustFailed) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    for (int polls = 0; polls < 4; ++polls) {
      SimDisk disk({.seed = seed});
      SimStore store(disk);
      ASSERT_TRUE(store.open());
      store_durably(store, 1);
      store_durably(store, 1, 1, 50);
      SimWritten made = make_sim_records(5), other = make_sim_records(5, 1, 50);
      for (std::size_t i = 1; i < 5; ++i) {
        store.run_one(made.records[i].store(made.places[i]));
        store.run_one(other.records[i].store(other.places[i]));
      }
      disk.add_fault({.op = SimOp::sync, .path_part = "segment-00000000"});
      const Op commit{.type = OpType::commit};
      const Op seal{.type = OpType::seal, .place = {.segment = 0}};
      ASSERT_TRUE(store.tier().submit(std::span(&commit, 1)));
      std::vector<Completion> done;
      for (int i = 0; i < polls; ++i) store.tier().poll(done);
      ASSERT_TRUE(store.tier().submit(std::span(&seal, 1)));
      for (int i = 0; i < 100; ++i) store.tier().poll(done);
      store.close();
      for (const LossMode mode : kLossModes) {
        const auto next = disk.restarted(seed, mode);
        SimStore again(*next);
        ASSERT_TRUE(again.open());
        ASSERT_EQ(look_for(again, made).refused, 0U)
            << "seed " << seed << ", " << polls << " polls, " << loss_mode_name(mode);
      }
    }
  }
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
