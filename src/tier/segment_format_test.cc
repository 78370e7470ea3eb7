// Segment header, place echo, footer: round trips, and what a flipped bit or a lie does.
#include "tier/segment_format.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kSegmentBytes = 1 << 20;

Footer sample_footer(std::size_t count) {
  Footer footer{.segment = 7, .life = {.sequence = 9, .epoch = 3}, .data_end = kSegmentHeaderBytes};
  footer.store[15] = 0xab;
  for (std::size_t i = 0; i < count; ++i) {
    FooterEntry entry;
    entry.key.bytes[0] = static_cast<std::uint8_t>(i);
    entry.parent.bytes[1] = 1;
    entry.prefix.bytes[2] = 2;
    entry.fingerprint.bytes[3] = 3;
    entry.kind = {.id = 2, .reach = Reach::window, .window_tokens = 128};
    entry.token_count = 512;
    entry.offset = footer.data_end;
    entry.bytes = 8192;
    entry.head_checksum = 0x1122334455667788U + i;
    footer.data_end += entry.bytes;
    footer.entries.push_back(entry);
  }
  return footer;
}

TEST(SegmentFormat, GeometryAddsUp) {
  EXPECT_EQ(footer_bytes(0), 4096U);
  EXPECT_EQ(footer_bytes(42), 4096U);  // 64 + 42 * 96 = 4096.
  EXPECT_EQ(footer_bytes(43), 8192U);
  const std::uint64_t smallest = segment_bytes_min(69632);
  EXPECT_TRUE(segment_has_room(smallest, kSegmentHeaderBytes + 7 * 69632, 69632, 8));
  EXPECT_FALSE(segment_has_room(smallest, kSegmentHeaderBytes + 8 * 69632, 4096, 9));
  EXPECT_EQ(segments_max(0, kSegmentBytes), 0U);
  const std::uint64_t ten = store_bytes(kSegmentBytes, 10);
  EXPECT_EQ(segments_max(ten, kSegmentBytes), 10U);
  EXPECT_EQ(segments_max(ten - 1, kSegmentBytes), 9U);
}

TEST(SegmentFormat, HeaderReadsBackAndAFlippedBitIsCaught) {
  const SegmentHeader header{.store = {1, 2, 3},
                             .segment = 5,
                             .life = {.sequence = 77, .epoch = 6},
                             .segment_bytes = kSegmentBytes};
  std::vector<std::byte> page(kPageBytes);
  encode_segment_header(header, page);
  ASSERT_EQ(*parse_segment_header(page), header);
  for (std::size_t at = 0; at < 64; ++at) {
    page[at] ^= std::byte{4};
    EXPECT_FALSE(parse_segment_header(page)) << at;
    page[at] ^= std::byte{4};
  }
}

TEST(SegmentFormat, PlaceEchoReadsBackAndAFlippedBitIsCaught) {
  const PlaceEcho echo{
      .store = {9}, .segment = 5, .offset = 8192, .life = {.sequence = 77, .epoch = 6}};
  std::array<std::byte, kPlaceEchoBytes> bytes;
  encode_place_echo(echo, bytes);
  ASSERT_EQ(*parse_place_echo(bytes), echo);
  for (std::byte& byte : bytes) {
    byte ^= std::byte{16};
    EXPECT_FALSE(parse_place_echo(bytes));
    byte ^= std::byte{16};
  }
  EXPECT_FALSE(parse_place_echo(std::array<std::byte, kPlaceEchoBytes>{})) << "zeros are no place";
}

TEST(SegmentFormat, FooterReadsBackAtEverySize) {
  for (const std::size_t count : {0, 1, 42, 43, 100}) {
    const Footer footer = sample_footer(count);
    const auto bytes = encode_footer(footer);
    ASSERT_EQ(bytes.size(), footer_bytes(count));
    EXPECT_EQ(footer_bytes_from_trailer(std::span(bytes).last(kPageBytes), kSegmentBytes),
              bytes.size());
    const auto parsed = parse_footer(bytes, kSegmentBytes);
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(*parsed, footer);
  }
}

TEST(SegmentFormat, AFlippedBitAnywhereInTheFooterIsCaught) {
  auto bytes = encode_footer(sample_footer(50));
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    bytes[at] ^= std::byte{1};
    EXPECT_FALSE(parse_footer(bytes, kSegmentBytes)) << at;
    bytes[at] ^= std::byte{1};
  }
}

TEST(SegmentFormat, AFooterThatLiesIsRefusedAlthoughItsChecksumFits) {
  Footer overlapping = sample_footer(3);
  overlapping.entries[2].offset = overlapping.entries[1].offset;
  EXPECT_FALSE(parse_footer(encode_footer(overlapping), kSegmentBytes));
  Footer outside = sample_footer(3);
  outside.entries[2].bytes = kSegmentBytes;
  EXPECT_FALSE(parse_footer(encode_footer(outside), kSegmentBytes));
  Footer beyond = sample_footer(3);
  beyond.data_end = kSegmentBytes;
  EXPECT_FALSE(parse_footer(encode_footer(beyond), kSegmentBytes));
  EXPECT_FALSE(parse_footer(encode_footer(sample_footer(3)), 4 * kPageBytes))
      << "a smaller segment";
}

// What lies on a disk may be anybody's: no entry smaller than a record, no footer longer than the memory for the longest.
TEST(SegmentFormat, AFooterWithMoreOrSmallerRecordsThanASegmentHoldsIsRefused) {
  Footer small = sample_footer(3);
  small.entries[1].bytes = kRecordBytesMin - kPageBytes;
  EXPECT_FALSE(parse_footer(encode_footer(small), kSegmentBytes));
  constexpr std::size_t kMost = kSegmentBytes / kRecordBytesMin;
  for (const std::size_t count : {kMost, kMost + 1}) {
    const auto bytes = encode_footer(sample_footer(count));
    EXPECT_EQ(
        footer_bytes_from_trailer(std::span(bytes).last(kPageBytes), kSegmentBytes).has_value(),
        count == kMost);
  }
}

}  // namespace
}  // namespace tiercel
