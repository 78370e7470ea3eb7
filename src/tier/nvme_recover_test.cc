// A restart over what it cannot trust or cannot read: foreign indices, sectors that are gone, files that were cut. One bad
// segment never costs what the others hold.
#include "tier/nvme_sim_testing.h"

namespace tiercel {
namespace {

using NvmeRecover = SimStoreTest;

std::string sim_segment(std::uint32_t segment) {
  return std::string(kSimStorePath) + "/" + segment_file_name(segment);
}

// The footer of segment 0, changed and with a good checksum.
void edit_footer(SimDisk& disk, const std::function<void(Footer&)>& change) {
  const auto file = *disk.open(sim_segment(0), {.write = true});
  std::vector<std::byte> page(kPageBytes);
  ASSERT_TRUE(file->read(SimStore::kSegmentBytes - kPageBytes, page));
  auto footer = parse_footer(page, SimStore::kSegmentBytes);
  ASSERT_TRUE(footer) << footer.error().what;
  change(*footer);
  ASSERT_TRUE(file->write(SimStore::kSegmentBytes - kPageBytes, encode_footer(*footer)));
}

// A record larger than any of this store would not fit the memory that reads it: such a footer is no index of ours.
TEST_F(NvmeRecover, AFooterThatNamesARecordTooLargeForTheStoreIsNotBelieved) {
  const SimWritten written = store_durably(store_, 6);
  open();
  edit_footer(disk_, [](Footer& footer) {
    footer.entries[1].bytes += footer.entries[2].bytes;
    footer.entries.erase(footer.entries.begin() + 2);
  });
  open();
  EXPECT_EQ(store_.recovered().walked_segments, 1U);
  EXPECT_EQ(look_for(store_, written).delivered, 6U);
}

// The same footer put there under a scrub that is under way: it is counted, and read no further.
TEST_F(NvmeRecover, AFooterThatGrowsTooLargeUnderTheScrubIsCounted) {
  store_.options().scrub_bytes_per_s = 1 * kMiB;
  store_.options().staging = {};
  store_durably(store_, 12);
  open();
  edit_footer(disk_, [](Footer& footer) {
    footer.entries[0].bytes = 120 * kPageBytes / 4;
    footer.entries.resize(1);
    footer.data_end = kSegmentHeaderBytes + footer.entries[0].bytes;
  });
  std::vector<Completion> done;
  for (int step = 0; step < 100; ++step) {
    store_.clock().advance_ns(100'000'000);
    store_.tier().poll(done);
  }
  EXPECT_GE(store_.tier().stats().corrupt, 1U);
  EXPECT_TRUE(store_.tier().take_findings().empty());
}

// One segment of three cannot be read any more: the others give all they have, the store goes on, and once the device is well
// again nothing of that segment was lost either.
TEST_F(NvmeRecover, ASegmentThatCannotBeReadCostsNoOther) {
  const SimWritten written = store_durably(store_, 3 * kSimRecordsPerSegment);
  for (const bool sealed : {false, true}) {
    SCOPED_TRACE(sealed);
    if (sealed) open();
    const auto ill = disk_.restarted(1, LossMode::drop);
    ill->add_fault({.op = SimOp::read, .path_part = segment_file_name(1), .times = kForever});
    SimStore store(*ill);
    for (int boot = 0; boot < 2; ++boot) {
      const auto opened = store.open();
      ASSERT_TRUE(opened) << opened.error().what;
      EXPECT_EQ(store.recovered().unreadable_segments, 1U);
      const SimFound found = look_for(store, written);
      EXPECT_EQ(found.delivered, 2 * kSimRecordsPerSegment);
      EXPECT_EQ(found.missing, kSimRecordsPerSegment);
    }
    store.close();
    ill->clear_faults();
    ASSERT_TRUE(store.open());
    EXPECT_EQ(store.recovered().unreadable_segments, 0U);
    EXPECT_EQ(look_for(store, written).delivered, written.records.size()) << "left as it was";
  }
}

// Nobody stores over it unasked; its owner may reclaim it.
TEST_F(NvmeRecover, ASegmentThatCannotBeReadIsClosedUntilItIsReclaimed) {
  store_durably(store_, 3 * kSimRecordsPerSegment);
  disk_.add_fault({.op = SimOp::read, .path_part = segment_file_name(1), .times = kForever});
  open();
  const SimWritten fresh = make_sim_records(2, 1, 500);
  EXPECT_FALSE(store_.tier().submit(std::array{fresh.records[0].store(fresh.places[0])}));
  EXPECT_EQ(store_.run_one({.type = OpType::reclaim, .place = {.segment = 1}}).outcome,
            Outcome::delivered);
  EXPECT_EQ(count(store_all(store_, fresh), Outcome::delivered), 2U);
  EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
  disk_.clear_faults();
  open();
  EXPECT_EQ(look_for(store_, fresh).delivered, 2U);
}

// A device with pages that cannot be read, and a file that hands on all else.
class SectorlessFile final : public File {
 public:
  SectorlessFile(std::unique_ptr<File> real, std::set<std::uint64_t> bad)
      : real_(std::move(real)), bad_(std::move(bad)) {}
  const std::string& path() const override { return real_->path(); }
  bool direct() const override { return real_->direct(); }
  IoAlignment alignment() const override { return real_->alignment(); }
  Result<FileStatus> status() const override { return real_->status(); }
  Result<void> allocate(std::uint64_t bytes) override { return real_->allocate(bytes); }
  Result<void> truncate(std::uint64_t bytes) override { return real_->truncate(bytes); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> memory) override {
    const auto first = bad_.lower_bound(offset);
    if (first != bad_.end() && *first < offset + memory.size()) return fail_errno(path(), EIO);
    return real_->read(offset, memory);
  }
  Result<void> write(std::uint64_t offset, std::span<const std::byte> memory) override {
    return real_->write(offset, memory);
  }
  Result<void> sync() override { return real_->sync(); }

 private:
  const std::unique_ptr<File> real_;
  const std::set<std::uint64_t> bad_;
};

TEST_F(NvmeRecover, APageThatCannotBeReadCostsTheRecordThatLiesThereAndNoOther) {
  const SimWritten written = store_durably(store_, 12);
  const Superblock superblock = store_.tier().superblock();
  store_.close();
  ScanOptions options{.store = superblock.store,
                      .segment_bytes = superblock.segment_bytes,
                      .record_bytes_max = superblock.record_bytes_max,
                      .pass_over_unreadable = true};
  const AlignedBytes buffer(scan_buffer_bytes(superblock.record_bytes_max));
  const auto scan = [&](std::set<std::uint64_t> bad) {
    SectorlessFile file(*disk_.open(sim_segment(0), {}), std::move(bad));
    return scan_segment(file, 0, options, buffer.span());
  };
  const std::uint64_t middle = written.places[5].offset;
  for (const std::set<std::uint64_t>& bad :
       std::vector<std::set<std::uint64_t>>{{0},
                                            {SimStore::kSegmentBytes - kPageBytes},
                                            {middle},
                                            {middle + 2 * kPageBytes},
                                            {0, middle + kPageBytes}}) {
    const auto found = scan(bad);
    ASSERT_TRUE(found) << found.error().what;
    const bool in_record = *bad.rbegin() >= middle && *bad.rbegin() < middle + 3 * kPageBytes;
    EXPECT_EQ(found->records.size(), in_record ? 11U : 12U) << *bad.rbegin();
    EXPECT_GE(found->unreadable_pages, bad.size());
    EXPECT_FALSE(found->complaints.empty());
  }
  options.pass_over_unreadable = false;
  EXPECT_EQ(scan({middle}).error().code, Errc::io) << "verify is told";
}

// A file that was cut, and no room to bring it to its length: that segment stays out of use, and comes back when there is.
TEST_F(NvmeRecover, ACutSegmentWithoutRoomToRestoreItCostsNoOther) {
  const SimWritten written = store_durably(store_, 3 * kSimRecordsPerSegment);
  store_.close();
  const std::uint64_t kept = written.places[kSimRecordsPerSegment + 4].offset;
  disk_.cut_file(sim_segment(1), kept);
  disk_.add_fault({.op = SimOp::allocate,
                   .path_part = segment_file_name(1),
                   .times = kForever,
                   .os_errno = ENOSPC});
  open();
  EXPECT_EQ(store_.recovered().unreadable_segments, 1U);
  EXPECT_EQ(look_for(store_, written).delivered, 2 * kSimRecordsPerSegment);
  EXPECT_NE(store_.tier().notes().back().find("make room"), std::string::npos);
  disk_.clear_faults();
  open();
  EXPECT_EQ(store_.recovered().resized_segments, 1U);
  EXPECT_EQ(look_for(store_, written).delivered, 2 * kSimRecordsPerSegment + 4);
}

// Its owner may give it up: the next store makes it anew once there is room, and the cap is kept.
TEST_F(NvmeRecover, ACutSegmentThatIsReclaimedIsMadeAnewWhereThereIsRoom) {
  store_durably(store_, 3 * kSimRecordsPerSegment);
  store_.close();
  const SimWritten fresh = make_sim_records(2, 1, 500);
  for (const bool room : {true, false}) {
    disk_.cut_file(sim_segment(1), 10 * kPageBytes);
    disk_.add_fault({.op = SimOp::allocate,
                     .path_part = segment_file_name(1),
                     .times = kForever,
                     .os_errno = ENOSPC});
    open();
    EXPECT_EQ(store_.recovered().unreadable_segments, 1U);
    if (room) disk_.clear_faults();
    store_.run_one({.type = OpType::reclaim, .place = {.segment = 1}});
    for (const Completion& done : store_all(store_, fresh)) {
      EXPECT_EQ(done.outcome, room ? Outcome::delivered : Outcome::error);
      EXPECT_EQ(done.error.code == Errc::no_space, !room);
    }
    EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
    EXPECT_EQ(store_.tier().physical_bytes(), disk_.allocated_bytes(kSimStorePath));
    store_.close();
    disk_.clear_faults();
    open();
    EXPECT_EQ(look_for(store_, fresh).delivered, room ? 2U : 0U);
    store_.close();
  }
}

// What a checkpoint lists of a file that was cut may be gone: it is looked for, not believed.
TEST_F(NvmeRecover, ACheckpointsListOfAFileThatWasCutIsNotBelieved) {
  const SimWritten written = store_durably(store_, 12);
  EXPECT_EQ(store_.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
  store_.close();
  disk_.cut_file(sim_segment(0), written.places[7].offset);
  open();
  EXPECT_TRUE(store_.recovered().checkpoint_used);
  const SimFound found = look_for(store_, written);
  EXPECT_EQ(found.delivered, 7U);
  EXPECT_EQ(found.missing, 5U);
}

// What it was due for is not forgotten, and it is not tried again in a tight loop.
TEST_F(NvmeRecover, AFailedCheckpointIsDueAgainAfterTheNextCommit) {
  store_durably(store_, 12);
  ASSERT_TRUE(store_.tier().checkpoint_due());
  disk_.add_fault({.op = SimOp::write, .path_part = kCheckpointName});
  EXPECT_EQ(store_.run_one({.type = OpType::checkpoint}).outcome, Outcome::error);
  EXPECT_FALSE(store_.tier().checkpoint_due());
  EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
  EXPECT_TRUE(store_.tier().checkpoint_due());
  EXPECT_EQ(store_.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
  EXPECT_EQ(store_.commit().outcome, Outcome::delivered);
  EXPECT_FALSE(store_.tier().checkpoint_due());
}

}  // namespace
}  // namespace tiercel
