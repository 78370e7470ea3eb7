// The bytes of a checkpoint: round trips, what a flipped bit or a lie does, what is left out where the slot is full.
#include "tier/checkpoint_format.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kSegmentBytes = 1 << 20;

FooterEntry sample_entry(std::uint64_t offset) {
  FooterEntry entry;
  entry.key.bytes[0] = static_cast<std::uint8_t>(offset / kPageBytes);
  entry.kind = {.id = 2, .reach = Reach::window, .window_tokens = 128};
  entry.token_count = 16;
  entry.offset = offset;
  entry.bytes = kRecordBytesMin;
  entry.head_checksum = 77 + offset;
  return entry;
}

CheckpointSegment sample_row(std::uint32_t segment, std::size_t entries) {
  CheckpointSegment row{
      .segment = segment, .life = {.sequence = 9 + segment, .epoch = 3}, .sealed = entries == 0};
  for (std::size_t i = 0; i < entries; ++i) {
    row.entries.push_back(sample_entry(row.data_end));
    row.data_end += kRecordBytesMin;
  }
  return row;
}

QuarantinedPlace sample_place(std::uint32_t segment, std::uint64_t offset) {
  QuarantinedPlace place{.segment = segment,
                         .life = {.sequence = 9 + segment, .epoch = 3},
                         .offset = offset,
                         .key = {},
                         .unix_s = 1'790'000'000,
                         .reason = "checksum of chunk 0 of 1 does not match"};
  place.key.bytes[5] = 5;
  return place;
}

Checkpoint sample() {
  return {.store = {1, 2, 3},
          .sequence = 41,
          .epoch = 6,
          .unix_s = 1'800'000'000,
          .segments = {sample_row(0, 0), sample_row(2, 5), sample_row(7, 1)},
          .quarantined = {sample_place(2, 8192), sample_place(7, 4096)}};
}

std::vector<std::byte> encode(const Checkpoint& checkpoint) {
  std::vector<std::byte> bytes(checkpoint_bytes(checkpoint));
  encode_checkpoint(checkpoint, bytes);
  return bytes;
}

void set_sums(std::vector<std::byte>& bytes) {
  const std::span<std::byte> out(bytes);
  put_number<std::uint64_t>(out, 80, checksum64(out.subspan(kCheckpointHeaderBytes)));
  put_number<std::uint64_t>(out, 88, checksum64(out.first(88)));
}

TEST(CheckpointFormat, ReadsBackAsItWasWritten) {
  for (const Checkpoint& checkpoint : {sample(), Checkpoint{.sequence = 1}}) {
    const auto bytes = encode(checkpoint);
    EXPECT_EQ(bytes.size() % kPageBytes, 0U);
    EXPECT_EQ(*peek_checkpoint_bytes(bytes, bytes.size()), bytes.size());
    const auto again = parse_checkpoint(bytes, kSegmentBytes);
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(*again, checkpoint);
  }
}

TEST(CheckpointFormat, AFlippedBitAnywhereIsCaught) {
  auto bytes = encode(sample());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{16};
    const auto parsed = parse_checkpoint(bytes, kSegmentBytes);
    ASSERT_FALSE(parsed) << at;
    EXPECT_EQ(parsed.error().code, Errc::corrupt) << "never taken for a newer version: " << at;
    bytes[at] ^= std::byte{16};
  }
}

TEST(CheckpointFormat, ANewerVersionIsToldFromADamagedOne) {
  auto bytes = encode(sample());
  bytes[8] = std::byte{2};
  EXPECT_EQ(parse_checkpoint(bytes, kSegmentBytes).error().code, Errc::corrupt);
  set_sums(bytes);
  const auto newer = parse_checkpoint(bytes, kSegmentBytes);
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, Errc::invalid);
  EXPECT_NE(newer.error().what.find("newer"), std::string::npos);
}

// A good sum does not make sense of the numbers: nothing on a disk is trusted.
TEST(CheckpointFormat, LiesWithGoodSumsAreCaught) {
  const Checkpoint good = sample();
  const auto refused = [](Checkpoint lie, const char* why) {
    const auto parsed = parse_checkpoint(encode(lie), kSegmentBytes);
    ASSERT_FALSE(parsed) << why;
    EXPECT_EQ(parsed.error().code, Errc::corrupt);
    EXPECT_NE(parsed.error().what.find(why), std::string::npos) << parsed.error().what;
  };
  Checkpoint lie = good;
  lie.segments[1].segment = 0;
  refused(lie, "out of order");
  lie = good;
  lie.segments[1].data_end = kSegmentBytes + kPageBytes;
  refused(lie, "ends outside");
  lie = good;
  lie.segments[1].data_end -= kPageBytes;
  refused(lie, "outside the records");
  lie = good;
  lie.segments[1].entries[1].offset = lie.segments[1].entries[0].offset;
  refused(lie, "across another");
  lie = good;
  lie.segments[1].entries[1].bytes = kRecordBytesMin - kPageBytes;
  refused(lie, "smaller than any record");
  lie = good;
  lie.segments[1].sealed = true;
  refused(lie, "sealed and with entries");
  lie = good;
  lie.quarantined[0].offset = 0;
  refused(lie, "quarantined place outside");

  auto bytes = encode(good);
  put_number<std::uint32_t>(std::span(bytes), 64, 0xffffffff);  // Rows.
  set_sums(bytes);
  EXPECT_FALSE(parse_checkpoint(bytes, kSegmentBytes));
  bytes = encode(good);
  put_number<std::uint32_t>(std::span(bytes), kCheckpointHeaderBytes + 28, 7);  // Entries of a row.
  set_sums(bytes);
  EXPECT_FALSE(parse_checkpoint(bytes, kSegmentBytes));
}

TEST(CheckpointFormat, ReasonsAreCutAndMadePrintable) {
  Checkpoint checkpoint = sample();
  checkpoint.quarantined[0].reason = "tab\tand " + std::string(100, 'x');
  const auto parsed = parse_checkpoint(encode(checkpoint), kSegmentBytes);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->quarantined[0].reason,
            "tab?and " + std::string(kQuarantineReasonBytes - 8, 'x'));
}

TEST(CheckpointFormat, ASlotHoldsTwoFullSegmentsOfTheSmallestRecordsAndAFullQuarantine) {
  for (const std::uint64_t segment_bytes : {72 * kKiB, kMiB, 64 * kMiB}) {
    const std::uint64_t slot = checkpoint_slot_bytes(segment_bytes);
    const std::size_t full = segment_bytes / kRecordBytesMin;
    Checkpoint checkpoint{.segments = {sample_row(0, 0), sample_row(1, full), sample_row(2, full)}};
    for (std::uint64_t i = 0; i < quarantine_max(segment_bytes); ++i)
      checkpoint.quarantined.push_back(sample_place(0, kSegmentHeaderBytes));
    Checkpoint fitted = checkpoint;
    fit_checkpoint(fitted, slot);
    EXPECT_EQ(fitted, checkpoint) << "nothing had to go";
    EXPECT_LE(checkpoint_bytes(fitted), slot);
  }
}

TEST(CheckpointFormat, WhatDoesNotFitIsLeftOutSealedRowsFirst) {
  const std::uint64_t slot = checkpoint_slot_bytes(72 * kKiB);
  Checkpoint checkpoint = sample();
  for (std::uint32_t i = 10; i < 300; ++i) checkpoint.segments.push_back(sample_row(i, 0));
  checkpoint.segments.push_back(sample_row(300, 1));
  checkpoint.segments.push_back(sample_row(301, slot / kFooterEntryBytes));  // Too large by itself.
  fit_checkpoint(checkpoint, slot);
  EXPECT_LE(checkpoint_bytes(checkpoint), slot);
  const auto has = [&](std::uint32_t segment) {
    return std::ranges::find(checkpoint.segments, segment, &CheckpointSegment::segment) !=
           checkpoint.segments.end();
  };
  EXPECT_TRUE(has(2) && has(7) && has(300)) << "unsealed ones stay before any sealed one";
  EXPECT_FALSE(has(301));
  EXPECT_EQ(checkpoint.quarantined.size(), 2U);
  EXPECT_TRUE(parse_checkpoint(encode(checkpoint), kSegmentBytes));
}

}  // namespace
}  // namespace tiercel
