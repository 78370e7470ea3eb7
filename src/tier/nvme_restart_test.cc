// What a cold store still knows after a restart, a crash, damage, or in the wrong hands.
#include <filesystem>
#include <fstream>
#include <map>

#include "base/checksum.h"
#include "kv/little_endian.h"
#include "tier/nvme_harness.h"
#include "tier/store_reader.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kPayload = 100'000;

struct Written {
  std::vector<TestRecord> records;
  std::vector<Place> places;
};

Written write_records(NvmeHarness& harness, std::size_t count, std::uint64_t seed = 1) {
  Written written;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < count; ++i) {
    written.records.push_back(make_test_record(seed + i, kPayload));
    written.places.push_back(harness.place(written.records.back().bytes.size()));
    ops.push_back(written.records.back().store(written.places.back()));
    if (ops.size() == 32 || i + 1 == count) {
      for (const Completion& completion : harness.run(std::move(ops)))
        EXPECT_EQ(completion.outcome, Outcome::delivered);
      ops.clear();
    }
  }
  return written;
}

std::map<Key, Place> places_of(const Recovered& recovered) {
  std::map<Key, Place> places;
  for (const RecoveredSegment& segment : recovered.segments) {
    for (const RecoveredRecord& record : segment.records) places[record.key] = record.place;
  }
  return places;
}

// Everything but the records in `lost` is found at its place with its bytes; those are not found.
void expect_found(NvmeHarness& harness, const Recovered& recovered, const Written& written,
                  std::vector<std::size_t> lost = {}) {
  const auto places = places_of(recovered);
  EXPECT_EQ(places.size(), written.records.size() - lost.size());
  for (std::size_t i = 0; i < written.records.size(); ++i) {
    const auto found = places.find(written.records[i].head.key);
    if (std::ranges::find(lost, i) != lost.end()) {
      EXPECT_EQ(found, places.end()) << i;
      continue;
    }
    ASSERT_NE(found, places.end()) << i;
    EXPECT_EQ(found->second, written.places[i]);
    EXPECT_EQ(harness.load(written.records[i], found->second).outcome, Outcome::delivered) << i;
  }
}

TEST(NvmeRestart, FindsEverythingByWalkingAndThenByFooter) {
  NvmeHarness harness;
  const Written written = write_records(harness, 150);  // Two segments.
  harness.commit();
  const Recovered& walked = harness.reopen();
  ASSERT_EQ(walked.segments.size(), 2U);
  EXPECT_FALSE(walked.segments[0].sealed);
  EXPECT_EQ(walked.torn + walked.dropped_segments, 0U);
  EXPECT_EQ(walked.segments[0].records[3].parent, written.records[3].head.parent);
  EXPECT_EQ(walked.segments[0].records[3].token_count, 512U);
  EXPECT_EQ(walked.segments[0].records[3].fingerprint, test_fingerprint());
  expect_found(harness, walked, written);
  const std::uint64_t epoch = walked.epoch;
  const Recovered& by_footer = harness.reopen();
  EXPECT_TRUE(by_footer.segments[0].sealed);
  EXPECT_TRUE(by_footer.segments[1].sealed);
  EXPECT_EQ(by_footer.epoch, epoch + 1);
  expect_found(harness, by_footer, written);
}

TEST(NvmeRestart, ASealedSegmentHasItsFooterAfterTheNextCommit) {
  NvmeHarness harness;
  const Written written = write_records(harness, 20);
  const std::uint64_t before = harness.nvme().stats().bytes_written;
  ASSERT_EQ(harness.run_one({.type = OpType::seal, .place = {.segment = 0}}).outcome,
            Outcome::delivered);
  EXPECT_EQ(harness.nvme().stats().bytes_written, before) << "not durable yet, so no footer";
  harness.commit();
  std::vector<Completion> none;
  harness.nvme().wait(none, 1'000'000'000);  // Nobody's op, but under way: the footer.
  EXPECT_EQ(harness.nvme().stats().bytes_written, before + footer_bytes(20));
  harness.commit();
  const Op late = written.records[0].store(
      {.segment = 0, .offset = 8 << 20, .bytes = written.records[0].bytes.size()});
  EXPECT_EQ(harness.nvme().submit(std::span(&late, 1)).error().code, Errc::invalid)
      << "closed to stores";
  const Recovered& recovered = harness.reopen();
  EXPECT_TRUE(recovered.segments[0].sealed);
  expect_found(harness, recovered, written);
}

TEST(NvmeRestart, AFlippedBitInTheFooterCostsAWalkNotARecord) {
  NvmeHarness harness;
  const Written written = write_records(harness, 20);
  harness.commit();
  harness.reopen();
  harness.close();
  harness.flip_bit_at(0, NvmeHarness::kSegmentBytes - footer_bytes(20) + 200);
  const Recovered& recovered = harness.reopen();
  EXPECT_FALSE(recovered.segments[0].sealed);
  expect_found(harness, recovered, written);
}

TEST(NvmeRestart, AFlippedBitInTheHeaderIsCoveredByTheFooter) {
  NvmeHarness harness;
  const Written written = write_records(harness, 20);
  harness.commit();
  harness.reopen();
  harness.close();
  harness.flip_bit_at(0, 40);
  const Recovered& by_footer = harness.reopen();
  EXPECT_EQ(by_footer.rescued_segments, 1U);
  EXPECT_TRUE(by_footer.segments[0].sealed);
  expect_found(harness, by_footer, written);
  EXPECT_EQ(harness.reopen().rescued_segments, 0U) << "its header was repaired";
  harness.close();
  harness.flip_bit_at(0, 40);
  harness.flip_bit_at(0, NvmeHarness::kSegmentBytes - 20);
  const Recovered& recovered = harness.reopen();  // Both gone: the records tell.
  EXPECT_EQ(recovered.rescued_segments, 1U);
  EXPECT_EQ(recovered.dropped_segments, 0U);
  expect_found(harness, recovered, written);
}

TEST(NvmeRestart, ABadHeaderPageLosesNoSyncedRecordOfAnUnsealedSegment) {
  for (const bool blank : {true, false}) {
    SCOPED_TRACE(blank ? "header page zeroed" : "one padding byte flipped");
    NvmeHarness harness;
    const Written written = write_records(harness, 20);
    harness.commit();
    harness.close();
    if (blank) {
      harness.zero_page(0, 0);
    } else {
      harness.flip_bit_at(0, 3000);
    }
    const auto report = read_store(harness.disk(), harness.directory(), StoreReading::verify);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->damaged, 1U);
    EXPECT_EQ(report->records, 20U);
    EXPECT_NE(fmt::format("{}", fmt::join(report->complaints, "\n")).find("header damaged"),
              std::string::npos);
    const Recovered& recovered = harness.reopen();
    EXPECT_EQ(recovered.rescued_segments, 1U);
    expect_found(harness, recovered, written);
    harness.close();
    EXPECT_EQ(read_store(harness.disk(), harness.directory(), StoreReading::verify)->damaged, 0U);
  }
}

TEST(NvmeRestart, WithoutAHeaderTheLatestLifeCountsNotThatOfAnOldFooter) {
  NvmeHarness harness;
  write_records(harness, 40);
  harness.commit();
  harness.reopen();  // Writes the footer of the first life.
  ASSERT_EQ(harness.run_one({.type = OpType::reclaim, .place = {.segment = 0}}).outcome,
            Outcome::delivered);
  harness.log().start_segment(0);
  const Written fresh = write_records(harness, 3, 500);
  harness.commit();
  harness.close();
  harness.zero_page(0, 0);
  expect_found(harness, harness.reopen(), fresh);
}

TEST(NvmeRestart, ATornTailIsDroppedAndADamagedMiddleHidesNothingBehindIt) {
  NvmeHarness harness;
  const Written written = write_records(harness, 30);
  harness.commit();
  harness.close();
  harness.flip_bit_at(0, written.places[29].offset + 90'000);  // Body of the last.
  harness.flip_bit_at(0, written.places[10].offset + 4);       // Magic.
  harness.flip_bit_at(0, written.places[15].offset + 180);     // Place echo.
  harness.flip_bit_at(0, written.places[16].offset + 50);      // Head.
  const Recovered& recovered = harness.reopen();
  EXPECT_EQ(recovered.torn, 4U);
  expect_found(harness, recovered, written, {10, 15, 16, 29});
}

TEST(NvmeRestart, ATruncatedSegmentFileIsRemovedTheOthersStay) {
  NvmeHarness harness;
  const Written written = write_records(harness, 150);
  harness.commit();
  harness.close();
  std::filesystem::resize_file(harness.segment_path(0), 1 << 20);
  const Recovered& recovered = harness.reopen();
  std::vector<std::size_t> lost;
  for (std::size_t i = 0; i < written.places.size(); ++i) {
    if (written.places[i].segment == 0) lost.push_back(i);
  }
  expect_found(harness, recovered, written, lost);
  EXPECT_FALSE(std::filesystem::exists(harness.segment_path(0)));
}

TEST(NvmeRestart, RecordsOfThePreviousLifeAreNotThere) {
  NvmeHarness harness;
  const Written old = write_records(harness, 40);
  harness.commit();
  ASSERT_EQ(harness.run_one({.type = OpType::reclaim, .place = {.segment = 0}}).outcome,
            Outcome::delivered);
  EXPECT_EQ(harness.load(old.records[5], old.places[5]).outcome, Outcome::miss);
  harness.log().start_segment(0);
  const Written fresh = write_records(harness, 10, 500);
  harness.commit();
  EXPECT_EQ(harness.load(old.records[20], old.places[20]).error.code, Errc::corrupt)
      << "intact, but of another life";
  const Recovered& recovered = harness.reopen();
  EXPECT_EQ(recovered.torn, 0U) << "an earlier life is no damage";
  EXPECT_EQ(recovered.segments[0].data_end, kSegmentHeaderBytes + 10 * fresh.places[0].bytes);
  expect_found(harness, recovered, fresh);
}

TEST(NvmeRestart, AFooterOfThePreviousLifeIsNotBelieved) {
  NvmeHarness harness;
  const Written old = write_records(harness, 40);
  harness.commit();
  harness.reopen();  // Writes the footer.
  ASSERT_EQ(harness.run_one({.type = OpType::reclaim, .place = {.segment = 0}}).outcome,
            Outcome::delivered);
  harness.log().start_segment(0);
  const Written fresh = write_records(harness, 3, 500);
  harness.commit();
  const Recovered& recovered = harness.reopen();
  EXPECT_FALSE(recovered.segments[0].sealed);
  expect_found(harness, recovered, fresh);
}

TEST(NvmeRestart, LaterSegmentsComeLater) {
  NvmeHarness harness;
  harness.log().start_segment(5);
  write_records(harness, 2);
  harness.log().start_segment(2);
  write_records(harness, 2, 50);
  harness.commit();
  const Recovered& recovered = harness.reopen();
  ASSERT_EQ(recovered.segments.size(), 2U);
  EXPECT_EQ(recovered.segments[0].segment, 5U);
  EXPECT_EQ(recovered.segments[1].segment, 2U);
  EXPECT_LT(recovered.segments[0].sequence, recovered.segments[1].sequence);
}

TEST(NvmeRestart, ASecondOpenerIsToldWhoHoldsTheStore) {
  NvmeHarness harness;
  const auto second = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_NE(second.error().what.find(fmt::format("pid {}", ::getpid())), std::string::npos)
      << second.error().what;
  harness.close();
  EXPECT_TRUE(NvmeTier::open(harness.disk(), harness.directory(), harness.options()));
}

TEST(NvmeRestart, AForeignDirectoryIsRefusedUntouched) {
  NvmeHarness harness;
  const std::string foreign = harness.directory() + "-foreign";
  std::filesystem::create_directory(foreign);
  std::ofstream(foreign + "/thesis.tex") << "years of work";
  for (const StoreStart start : {StoreStart::recover, StoreStart::empty}) {
    NvmeOptions options = harness.options();
    options.start = start;
    const auto opened = NvmeTier::open(harness.disk(), foreign, options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid);
    EXPECT_NE(opened.error().what.find("thesis.tex"), std::string::npos);
  }
  EXPECT_EQ(harness.disk().list(foreign)->size(), 1U) << "not even a lock was left";
}

TEST(NvmeRestart, ANewerFormatAndADamagedSuperblockAreRefusedUntouched) {
  NvmeHarness harness;
  write_records(harness, 3);
  harness.commit();
  harness.close();
  const std::string path = harness.directory() + "/store.meta";
  auto page = *read_file(harness.disk(), path, 4096);
  const auto original = page;
  page[8] = std::byte{2};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  auto opened = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::invalid);
  EXPECT_NE(opened.error().what.find("newer"), std::string::npos) << opened.error().what;
  EXPECT_EQ(*read_file(harness.disk(), path, 4096), page);
  page = original;
  page[50] ^= std::byte{1};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  opened = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::corrupt);
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", original));
  EXPECT_EQ(harness.reopen().segments.size(), 1U) << "nothing was touched";
}

TEST(NvmeRestart, AnotherGeometryIsRefusedAndNoneMeansTheStoresOwn) {
  NvmeHarness harness;
  const Written written = write_records(harness, 3);
  harness.commit();
  harness.close();
  NvmeOptions options = harness.options();
  options.geometry.segment_bytes *= 2;
  options.geometry.capacity_bytes *= 2;
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::invalid);
  options = harness.options();
  options.geometry.capacity_bytes = NvmeHarness::kSegmentBytes;
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::invalid);
  options = harness.options();
  options.geometry.segment_bytes = options.geometry.record_bytes_max = 0;
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_EQ(opened->recovered.segments[0].records.size(), 3U);
}

TEST(NvmeRestart, StartingEmptyRemovesOnlyOurOwnSegments) {
  NvmeHarness harness;
  write_records(harness, 3);
  harness.commit();
  harness.close();
  std::ofstream(harness.directory() + "/notes.txt") << "somebody's";
  NvmeOptions options = harness.options();
  options.start = StoreStart::empty;
  options.geometry.segment_bytes = 16 << 20;  // Empty, so it may change.
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_TRUE(opened->recovered.segments.empty());
  EXPECT_FALSE(std::filesystem::exists(harness.segment_path(0)));
  EXPECT_TRUE(std::filesystem::exists(harness.directory() + "/notes.txt"));
}

TEST(NvmeRestart, ADamagedSuperblockIsReplacedOnlyByAStartThatEmpties) {
  NvmeHarness harness;
  write_records(harness, 3);
  harness.close();
  auto page = *read_file(harness.disk(), harness.directory() + "/store.meta", 4096);
  page[60] ^= std::byte{1};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  NvmeOptions options = harness.options();
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::corrupt);
  options.start = StoreStart::empty;
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_TRUE(opened->recovered.segments.empty());
}

TEST(NvmeRestart, AReplayNeverEmptiesTheStoreOfACacheNorTheOtherWayRound) {
  for (const StorePurpose owner : {StorePurpose::cache, StorePurpose::replay}) {
    NvmeHarness harness;
    harness.close();
    const std::string directory = harness.directory() + "-" + store_purpose_name(owner);
    NvmeOptions options = harness.options();
    options.geometry.purpose = owner;
    {
      const auto made = NvmeTier::open(harness.disk(), directory, options);
      ASSERT_TRUE(made) << made.error().what;
    }
    const auto superblock = *read_file(harness.disk(), directory + "/store.meta", 4096);
    EXPECT_EQ(superblock[12], owner == StorePurpose::cache ? std::byte{1} : std::byte{3});
    const std::string segment = directory + "/" + segment_file_name(0);
    std::ofstream(segment) << "years of cache";
    options.geometry.purpose =
        owner == StorePurpose::cache ? StorePurpose::replay : StorePurpose::cache;
    for (const StoreStart start : {StoreStart::recover, StoreStart::empty}) {
      options.start = start;
      const auto opened = NvmeTier::open(harness.disk(), directory, options);
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().code, Errc::invalid);
      EXPECT_NE(opened.error().what.find(directory), std::string::npos) << opened.error().what;
      EXPECT_NE(opened.error().what.find("another directory"), std::string::npos);
      EXPECT_TRUE(std::filesystem::exists(segment));
      EXPECT_EQ(*read_file(harness.disk(), directory + "/store.meta", 4096), superblock);
    }
    options.geometry.purpose = owner;  // The owner may, also empty.
    EXPECT_TRUE(NvmeTier::open(harness.disk(), directory, options));
    EXPECT_FALSE(std::filesystem::exists(segment));
  }
}

TEST(NvmeRestart, AReplayDoesNotReplaceADamagedSuperblockAndNobodyOpensUnknownFlags) {
  NvmeHarness harness;
  harness.close();
  const auto original = *read_file(harness.disk(), harness.directory() + "/store.meta", 4096);
  NvmeOptions options = harness.options();
  options.start = StoreStart::empty;
  auto page = original;
  page[60] ^= std::byte{1};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  options.geometry.purpose = StorePurpose::replay;
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::corrupt);
  options.geometry.purpose = StorePurpose::cache;
  for (const std::byte flags : {std::byte{0}, std::byte{5}, std::byte{0x81}}) {
    page = original;
    page[12] = flags;
    put_number<std::uint64_t>(page, 56, checksum64(std::span(page).first(56)));
    ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
    const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid);
    EXPECT_NE(opened.error().what.find("flags"), std::string::npos) << opened.error().what;
  }
}

TEST(NvmeRestart, LeftOversOfACrashedStartAreCleanedUp) {
  NvmeHarness harness;
  harness.close();
  std::ofstream(harness.directory() + "/store.meta.tmp") << "half";
  std::ofstream(harness.directory() + "/" + segment_file_name(3)) << "half made";
  harness.reopen();
  EXPECT_FALSE(std::filesystem::exists(harness.directory() + "/store.meta.tmp"));
  EXPECT_FALSE(std::filesystem::exists(harness.segment_path(3)));
  const std::string young = harness.directory() + "-young";  // Died between lock and superblock.
  std::filesystem::create_directory(young);
  std::ofstream(young + "/lock") << "tiercel pid 1";
  EXPECT_TRUE(NvmeTier::open(harness.disk(), young, harness.options()));
}

}  // namespace
}  // namespace tiercel
