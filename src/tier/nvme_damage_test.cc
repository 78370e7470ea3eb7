// The cold tier on a disk that lies or decays: short writes told as done, torn writes, syncs that are none, flipped bits, cut
// files. A record may be gone; it is never wrong, and it takes no other with it.
#include "tier/nvme_sim_testing.h"

namespace tiercel {
namespace {

std::string segment_path(std::uint32_t segment) {
  return std::string(kSimStorePath) + "/" + segment_file_name(segment);
}

class NvmeDamage : public SimStoreTest {
 protected:
  void seal(std::uint32_t segment) {
    ASSERT_EQ(store_.run_one({.type = OpType::seal, .place = {.segment = segment}}).outcome,
              Outcome::delivered);
    ASSERT_EQ(store_.commit().outcome, Outcome::delivered);  // Its footer follows,
    ASSERT_EQ(store_.commit().outcome, Outcome::delivered);  // and is durable.
  }
};

// nixl#1696: ENOSPC cut a write short, the completion said DONE, and the block was served as if it were whole.
TEST_F(NvmeDamage, AShortWriteReportedAsDoneIsFoundAtTheLoadAndAtTheRestart) {
  const SimWritten before = store_durably(store_, 4);
  for (const std::uint64_t landed : {0, 512, 4096, 8192, 11 * 1024}) {
    SCOPED_TRACE(landed);
    const auto segment = static_cast<std::uint32_t>(1);
    ASSERT_EQ(store_.run_one({.type = OpType::reclaim, .place = {.segment = segment}}).outcome,
              Outcome::delivered);
    SimWritten made = make_sim_records(3, segment, 100 + landed);
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == 1) disk_.add_fault({.op = SimOp::write, .os_errno = 0, .bytes_done = landed});
      EXPECT_EQ(store_.run_one(made.records[i].store(made.places[i])).outcome, Outcome::delivered);
    }
    EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
    EXPECT_EQ(store_.load(made.records[0], made.places[0]).outcome, Outcome::delivered);
    EXPECT_NE(store_.load(made.records[1], made.places[1]).outcome, Outcome::delivered);
    EXPECT_EQ(store_.load(made.records[2], made.places[2]).outcome, Outcome::delivered);
    const auto next = disk_.restarted(1, LossMode::drop);
    store_.close();
    {
      SimStore again(*next);
      ASSERT_TRUE(again.open());
      EXPECT_EQ(look_for(again, made).delivered, 2U);
      EXPECT_EQ(look_for(again, made).missing, 1U);
      EXPECT_EQ(look_for(again, before).delivered, 4U);
    }
    open();
  }
}

TEST_F(NvmeDamage, ATornTailIsCountedAndDroppedWhateverWasAcknowledgedIsBack) {
  std::uint64_t torn = 0, whole = 0, gone = 0;
  const SimWritten before = store_durably(store_, 8);
  SimWritten more = make_sim_records(12);
  more.records.erase(more.records.begin(), more.records.begin() + 8);
  more.places.erase(more.places.begin(), more.places.begin() + 8);
  for (const Completion& done : store_all(store_, more))
    EXPECT_EQ(done.outcome, Outcome::delivered);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto next = disk_.restarted(seed, LossMode::torn);
    SimStore again(*next);
    ASSERT_TRUE(again.open());
    torn += again.recovered().torn;
    const SimFound found = look_for(again, more);
    whole += found.delivered;
    gone += found.missing;
    EXPECT_EQ(found.refused, 0U) << "what the walk found has been read";
    EXPECT_EQ(look_for(again, before).delivered, 8U);
  }
  EXPECT_GT(torn, 0U);
  EXPECT_GT(whole, 0U);
  EXPECT_GT(gone, 0U);
}

// A disk that acknowledges syncs and keeps nothing. Where all of it is lost, nothing can tell: the records are misses, the store
// may even be empty. Where a part is left, checksums and place echoes tell: torn at the restart, or, where a footer vouches for
// records that the disk has not, refused at the load. Never wrong bytes.
TEST(NvmeLyingDisk, LosesRecordsAsMissesOrFindsThemTornButNeverServesThem) {
  std::uint64_t missing = 0, torn = 0, refused = 0, empty = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SimDisk disk({.seed = seed});
    SimWritten written;
    {
      SimStore store(disk);
      ASSERT_TRUE(store.open());
      disk.add_fault({.op = SimOp::sync,
                      .path_part = seed % 3 == 0 ? "" : "segment-",
                      .times = kForever,
                      .os_errno = 0});
      written = store_durably(store, kSimRecordsPerSegment + 5);
      EXPECT_EQ(store.run_one({.type = OpType::seal, .place = {.segment = 0}}).outcome,
                Outcome::delivered);
      EXPECT_EQ(store.commit().outcome, Outcome::delivered);
      EXPECT_EQ(store.commit().outcome, Outcome::delivered);
    }
    for (const LossMode mode : {LossMode::drop, LossMode::torn, LossMode::reorder}) {
      const auto next = disk.restarted(seed, mode);
      SimStore again(*next);
      ASSERT_TRUE(again.open());
      const SimFound found = look_for(again, written);
      missing += found.missing;
      refused += found.refused;
      torn += again.recovered().torn;
      if (again.recovered().segments.empty()) ++empty;
      if (mode == LossMode::drop) {
        EXPECT_EQ(found.delivered, 0U);
      }
    }
  }
  EXPECT_GT(missing, 0U);
  EXPECT_GT(torn, 0U);
  EXPECT_GT(refused, 0U);
  EXPECT_GT(empty, 0U);
}

// Where every byte of two segments (one sealed, one open) flips once in a while: at most the record that owns it is lost.
TEST_F(NvmeDamage, AFlippedBitAnywhereLosesAtMostTheRecordItIsIn) {
  const SimWritten written = store_durably(store_, kSimRecordsPerSegment + 6);
  seal(0);
  store_.close();
  Rng rng(9);
  std::uint64_t lost = 0, kept = 0;
  for (int round = 0; round < 300; ++round) {
    const auto next = disk_.restarted(1, LossMode::drop);
    const auto segment = static_cast<std::uint32_t>(rng.below(2));
    const std::uint64_t offset = rng.below(SimStore::kSegmentBytes);
    next->flip(segment_path(segment), offset, static_cast<unsigned>(rng.below(8)));
    SimStore again(*next);
    ASSERT_TRUE(again.open());
    const SimFound found = look_for(again, written);
    std::size_t owned = 0;  // Is the bit in a record?
    for (const Place& place : written.places) {
      if (place.segment == segment && place.offset <= offset && offset < place.offset + place.bytes)
        ++owned;
    }
    EXPECT_LE(found.missing + found.refused, owned)
        << "segment " << segment << " offset " << offset;
    lost += found.missing + found.refused;
    kept += found.delivered;
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(kept, 300 * kSimRecordsPerSegment);
}

struct FlipCase {
  const char* name;
  std::uint64_t offset;  // In the first segment, which is sealed.
  std::size_t lost;
};
TEST_F(NvmeDamage, AFlippedBitInHeaderPayloadOrFooterTellsItsOwnStory) {
  const SimWritten written = store_durably(store_, kSimRecordsPerSegment);
  seal(0);
  store_.close();
  const std::uint64_t footer = SimStore::kSegmentBytes - footer_bytes(kSimRecordsPerSegment);
  const FlipCase cases[] = {{"segment header", 40, 0},
                            {"record head", written.places[3].offset + 20, 1},
                            {"place echo", written.places[3].offset + 4000, 1},
                            {"payload", written.places[3].offset + 5000, 1},
                            {"footer entry", footer + 100, 0},
                            {"footer trailer", SimStore::kSegmentBytes - 20, 0}};
  for (const FlipCase& one : cases) {
    SCOPED_TRACE(one.name);
    const auto next = disk_.restarted(1, LossMode::drop);
    next->flip(segment_path(0), one.offset, 3);
    SimStore again(*next);
    ASSERT_TRUE(again.open());
    const SimFound found = look_for(again, written);
    EXPECT_LE(found.missing + found.refused, one.lost);
    EXPECT_GE(found.delivered, written.records.size() - one.lost);
  }
}

// Without its superblock nothing in a store can be trusted: one clear error, and nothing is touched.
TEST_F(NvmeDamage, AFlippedBitInTheSuperblockRefusesTheStoreUntouched) {
  store_durably(store_, 4);
  store_.close();
  const std::string path = std::string(kSimStorePath) + "/store.meta";
  Rng rng(4);
  for (int round = 0; round < 50; ++round) {
    const auto next = disk_.restarted(1, LossMode::drop);
    const std::uint64_t offset = rng.below(kPageBytes);
    next->flip(path, offset, static_cast<unsigned>(rng.below(8)));
    const auto files = next->files();
    SimStore again(*next);
    const auto opened = again.open();
    ASSERT_FALSE(opened) << offset;
    EXPECT_TRUE(opened.error().code == Errc::corrupt || opened.error().code == Errc::invalid);
    EXPECT_NE(opened.error().what.find(kSimStorePath), std::string::npos) << opened.error().what;
    EXPECT_EQ(next->steps(), 0U) << "untouched";
  }
}

// A file system check cut a segment short. What it held is right or gone; the other segments are whole; the store goes on.
TEST_F(NvmeDamage, ATruncatedSegmentFileCostsAtMostWhatWasCutOrItsOwnSegment) {
  const SimWritten written = store_durably(store_, 3 * kSimRecordsPerSegment);
  store_.close();
  for (const std::uint64_t bytes : {0UL, 100UL, 4096UL, 50'000UL, SimStore::kSegmentBytes - 4096}) {
    SCOPED_TRACE(bytes);
    const auto next = disk_.restarted(1, LossMode::drop);
    next->cut_file(segment_path(1), bytes);
    SimStore again(*next);
    ASSERT_TRUE(again.open());
    EXPECT_GE(look_for(again, written).delivered, 2 * kSimRecordsPerSegment);
    ASSERT_EQ(again.run_one({.type = OpType::reclaim, .place = {.segment = 1}}).outcome,
              Outcome::delivered);
    const SimWritten fresh = store_durably(again, 5, 1, 700);
    again.close();
    next->restart(2, LossMode::drop);
    ASSERT_TRUE(again.open());
    EXPECT_EQ(look_for(again, fresh).delivered, 5U);
  }
}

}  // namespace
}  // namespace tiercel
