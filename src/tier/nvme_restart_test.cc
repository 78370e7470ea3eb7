// What a cold store still knows after a restart, a crash, damage, or in the wrong hands.
#include "tier/nvme_restart_testing.h"

namespace tiercel {
namespace {

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

// Somebody cut the file off: what lay behind the cut is gone, what lies before it is not.
TEST(NvmeRestart, ATruncatedSegmentFileGivesBackWhatIsLeftInIt) {
  for (const bool sealed : {false, true}) {
    SCOPED_TRACE(sealed ? "with a footer" : "without a footer");
    NvmeHarness harness;
    const Written written = write_records(harness, 150);
    harness.commit();
    if (sealed) harness.reopen();
    harness.close();
    constexpr std::uint64_t kCut = (1 << 20) + 12345;
    std::filesystem::resize_file(harness.segment_path(0), kCut);
    const Recovered& recovered = harness.reopen();
    std::vector<std::size_t> lost;
    for (std::size_t i = 0; i < written.places.size(); ++i) {
      const Place& place = written.places[i];
      if (place.segment == 0 && place.offset + place.bytes > kCut) lost.push_back(i);
    }
    ASSERT_LT(lost.size(), 150U);
    expect_found(harness, recovered, written, lost);
    EXPECT_EQ(recovered.resized_segments, 1U);
    EXPECT_EQ(std::filesystem::file_size(harness.segment_path(0)), NvmeHarness::kSegmentBytes);
    EXPECT_LE(harness.nvme().physical_bytes(), NvmeHarness::kCapacity);
    expect_found(harness, harness.reopen(), written, lost);
  }
}

TEST(NvmeRestart, ASegmentFileThatGrewIsCutBackAndLosesNothing) {
  NvmeHarness harness;
  const Written written = write_records(harness, 150);
  harness.commit();
  harness.reopen();
  harness.close();
  std::filesystem::resize_file(harness.segment_path(0), NvmeHarness::kSegmentBytes + 5000);
  const Recovered& recovered = harness.reopen();
  EXPECT_EQ(recovered.resized_segments, 1U);
  EXPECT_TRUE(recovered.segments[0].sealed) << "its footer is where it was";
  expect_found(harness, recovered, written);
  EXPECT_EQ(std::filesystem::file_size(harness.segment_path(0)), NvmeHarness::kSegmentBytes);
  EXPECT_EQ(harness.reopen().resized_segments, 0U);
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

}  // namespace
}  // namespace tiercel
