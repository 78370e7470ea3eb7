// inspect and verify: what they find, and that a flipped bit anywhere in what a store holds turns verify red.
#include "tier/store_reader.h"

#include <filesystem>
#include <fstream>

#include "tier/nvme_harness.h"

namespace tiercel {
namespace {

class StoreReaderTest : public testing::Test {
 protected:
  // Two segments: one sealed with its footer, one open.
  StoreReaderTest() {
    for (int i = 0; i < 20; ++i) places_.push_back(harness_.store(make_test_record(i, 100'000)));
    harness_.run_one({.type = OpType::seal, .place = {.segment = 0}});
    harness_.log().start_segment(1);
    for (int i = 20; i < 25; ++i) places_.push_back(harness_.store(make_test_record(i, 100'000)));
    harness_.commit();
    std::vector<Completion> none;
    harness_.nvme().wait(none, 1'000'000'000);
    harness_.commit();
  }
  StoreReport read(StoreReading reading) {
    auto report = read_store(harness_.disk(), harness_.directory(), reading);
    EXPECT_TRUE(report) << report.error().what;
    return report ? *report : StoreReport{};
  }

  NvmeHarness harness_;
  std::vector<Place> places_;
};

TEST_F(StoreReaderTest, InspectCountsAndVerifyFindsNothingWrong) {
  harness_.close();
  for (const StoreReading reading : {StoreReading::inspect, StoreReading::verify}) {
    const StoreReport report = read(reading);
    EXPECT_EQ(report.records, 25U);
    EXPECT_EQ(report.record_bytes, 25 * places_[0].bytes);
    EXPECT_EQ(report.damaged, 0U) << (report.complaints.empty() ? "" : report.complaints[0]);
    ASSERT_EQ(report.segments.size(), 2U);
    EXPECT_EQ(report.segments[0].scan.state, SegmentState::sealed);
    EXPECT_EQ(report.segments[1].scan.state, SegmentState::open);
    EXPECT_GE(report.physical_bytes, 2 * NvmeHarness::kSegmentBytes);
    EXPECT_TRUE(report.holder.empty());
  }
}

TEST_F(StoreReaderTest, AStoreInUseIsInspectedButNotVerified) {
  const StoreReport report = read(StoreReading::inspect);
  EXPECT_EQ(report.records, 25U);
  EXPECT_NE(report.holder.find("pid"), std::string::npos);
  const auto verified = read_store(harness_.disk(), harness_.directory(), StoreReading::verify);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Errc::busy);
  EXPECT_EQ(harness_.load(make_test_record(3, 100'000), places_[3]).outcome, Outcome::delivered)
      << "the owner is not disturbed";
}

TEST_F(StoreReaderTest, InspectKeepsNobodyOutWhileItReads) {
  harness_.close();
  const std::string lock_path = harness_.directory() + "/" + kStoreLockName;
  bool free_to_write = false;
  harness_.disk().hooks.on_open = [&](const std::string& path) {
    if (path == harness_.segment_path(0))
      free_to_write = harness_.disk().lock(lock_path, "a writer").has_value();
  };
  read(StoreReading::inspect);
  EXPECT_TRUE(free_to_write);
  read(StoreReading::verify);
  EXPECT_FALSE(free_to_write) << "verify does";
}

TEST_F(StoreReaderTest, AFlippedBitAnywhereTurnsVerifyRed) {
  harness_.close();
  Rng rng(3);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> spots{
      {0, 0},
      {0, 40},
      {0, 3000},  // Segment header and the rest of its page.
      {1, 9},
      {0, NvmeHarness::kSegmentBytes - 64},  // Trailer.
      {0, NvmeHarness::kSegmentBytes - 4096},
      {0, NvmeHarness::kSegmentBytes - 52}};
  for (int i = 0; i < 40; ++i) {
    const Place& place = places_[rng.below(places_.size())];
    spots.emplace_back(place.segment, place.offset + rng.below(place.bytes));
  }
  for (const auto& [segment, offset] : spots) {
    SCOPED_TRACE(testing::Message() << "segment " << segment << " offset " << offset);
    harness_.flip_bit_at(segment, offset);
    const StoreReport report = read(StoreReading::verify);
    EXPECT_GE(report.damaged, 1U);
    EXPECT_FALSE(report.complaints.empty());
    harness_.flip_bit_at(segment, offset);
  }
  EXPECT_EQ(read(StoreReading::verify).damaged, 0U);
}

TEST_F(StoreReaderTest, WhatACrashToreBeforeTheFooterIsNoDamageAfterTheNextOpen) {
  harness_.close();
  harness_.flip_bit_at(1, places_[24].offset + 50'000);
  EXPECT_EQ(read(StoreReading::verify).damaged, 1U);
  harness_.reopen();  // Drops it and writes a footer without it.
  harness_.close();
  const StoreReport report = read(StoreReading::verify);
  EXPECT_EQ(report.damaged, 0U);
  EXPECT_EQ(report.records, 24U);
}

TEST_F(StoreReaderTest, AZeroedRecordHeadInAnUnsealedSegmentAndAMissingFileTurnVerifyRed) {
  harness_.close();
  for (const std::size_t lost : {20U, 22U}) {  // The first of its segment, and one in the middle.
    SCOPED_TRACE(lost);
    const Place& place = places_[lost];
    const std::string path = harness_.segment_path(place.segment);
    std::filesystem::copy_file(path, path + "-saved");
    harness_.zero_page(place.segment, place.offset);
    const StoreReport report = read(StoreReading::verify);
    EXPECT_EQ(report.damaged, 1U);
    EXPECT_EQ(report.records, 24U);
    ASSERT_FALSE(report.complaints.empty());
    EXPECT_NE(report.complaints[0].find("without a record"), std::string::npos);
    std::filesystem::rename(path + "-saved", path);
  }
  EXPECT_EQ(read(StoreReading::verify).damaged, 0U);
  std::filesystem::remove(harness_.segment_path(0));
  const StoreReport report = read(StoreReading::verify);
  EXPECT_EQ(report.damaged, 1U);
  ASSERT_EQ(report.complaints.size(), 1U);
  EXPECT_EQ(report.complaints[0], "segment 0: its file is missing");
}

TEST_F(StoreReaderTest, NoStoreATruncatedFileAndStrangersAreNamed) {
  const auto none =
      read_store(harness_.disk(), harness_.directory() + "/none", StoreReading::inspect);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::invalid);
  harness_.close();
  std::ofstream(harness_.directory() + "/notes.txt") << "somebody's";
  std::filesystem::resize_file(harness_.segment_path(1), 4096);
  const StoreReport report = read(StoreReading::verify);
  EXPECT_EQ(report.other_files, std::vector<std::string>{"notes.txt"});
  EXPECT_EQ(report.damaged, 1U);
}

}  // namespace
}  // namespace tiercel
