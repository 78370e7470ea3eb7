// The record: what is written reads back, and no flipped bit anywhere in it passes for good.
#include "kv/record.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

RecordHead sample_head(std::vector<Chunk> chunks) {
  RecordHead head;
  for (std::size_t i = 0; i < 16; ++i) {
    head.key.bytes[i] = static_cast<std::uint8_t>(i);
    head.fingerprint.bytes[i] = static_cast<std::uint8_t>(0x20 + i);
    head.prefix.bytes[i] = static_cast<std::uint8_t>(0x40 + i);
    head.parent.bytes[i] = static_cast<std::uint8_t>(0x60 + i);
    head.tag[i] = static_cast<std::uint8_t>(0x80 + i);
  }
  head.kind = {.id = 3, .reach = Reach::window, .window_tokens = 1024};
  head.token_count = 512;
  head.rank = 1;
  head.world = 2;
  head.key_id = 9;
  head.nonce[11] = 7;
  head.chunks = std::move(chunks);
  return head;
}

// A whole record with chunks of these stored lengths, filled from the seed.
std::vector<std::byte> sample_record(std::span<const std::uint64_t> lengths, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Chunk> chunks;
  std::vector<std::byte> body;
  for (const std::uint64_t length : lengths) {
    const std::size_t first = body.size();
    body.resize(first + align_up(length, kRecordAlignment));
    for (std::uint64_t i = 0; i < length; ++i) body[first + i] = static_cast<std::byte>(rng.next());
    chunks.push_back({.region = static_cast<std::uint16_t>(chunks.size()),
                      .plain_bytes = length,
                      .stored_bytes = length,
                      .checksum = checksum64(std::span(body).subspan(first, length))});
  }
  std::vector<std::byte> record(record_head_bytes(chunks.size()));
  EXPECT_TRUE(encode_head(sample_head(chunks), record));
  record.insert(record.end(), body.begin(), body.end());
  return record;
}

Result<void> verify(std::span<const std::byte> record) {
  TIERCEL_TRY(const RecordHead head, parse_head(record));
  const std::span<const std::byte> body = record.subspan(record_head_bytes(head.chunks.size()));
  return verify_chunks(head, std::span(&body, 1));
}

TEST(Record, ReadsBackEveryFieldThatWasWritten) {
  std::vector<Chunk> chunks;
  for (std::uint16_t i = 0; i < 80; ++i) {
    chunks.push_back({.region = i,
                      .layer_first = 2,
                      .layer_count = 4,
                      .codec = 5,
                      .plain_bytes = 100U + i,
                      .stored_bytes = 50U + i,
                      .codec_parameters = {1, 2, 3},
                      .checksum = 0x1122334455667788U});
  }
  const RecordHead head = sample_head(chunks);
  std::vector<std::byte> page(record_head_bytes(80));
  ASSERT_EQ(page.size(), 4096U);
  ASSERT_TRUE(encode_head(head, page));
  EXPECT_EQ(*parse_head(page), head);
  EXPECT_EQ(record_bytes(chunks), 81 * 4096U);
}

TEST(Record, CountsPhysicalBytes) {
  EXPECT_EQ(record_bytes(65536), 4096U + 65536U);
  EXPECT_EQ(record_bytes(65537), 4096U + 65536U + 4096U);
  EXPECT_EQ(record_bytes(65536, 4), 4096U + 65536U);
  EXPECT_EQ(record_bytes(10000, 2), 4096U + 2 * 8192U);
  EXPECT_EQ(record_head_bytes(80), 4096U);
  EXPECT_EQ(record_head_bytes(81), 8192U);
}

TEST(Record, EveryFlippedBitOfEveryByteIsCaught) {
  const std::vector<std::uint64_t> lengths{5000, 300};
  const auto record = sample_record(lengths, 1);
  ASSERT_TRUE(verify(record));
  std::size_t caught = 0;
  auto broken = record;
  for (std::size_t at = 0; at < record.size(); ++at) {
    const auto bit = static_cast<std::byte>(1U << (at % 8));
    broken[at] ^= bit;
    const bool in_placement = at >= kPlacementOffset && at < kPlacementOffset + kPlacementBytes;
    if (in_placement) {
      EXPECT_TRUE(verify(broken)) << "the placement area belongs to the tier";
    } else {
      const auto result = verify(broken);
      ASSERT_FALSE(result) << "byte " << at;
      ASSERT_EQ(result.error().code, Errc::corrupt);
      ++caught;
    }
    broken[at] ^= bit;
  }
  EXPECT_EQ(caught, record.size() - kPlacementBytes);
}

TEST(Record, AHeadThatLiesAboutLengthsIsRefusedEvenWithAGoodChecksum) {
  auto record = sample_record(std::vector<std::uint64_t>{100}, 2);
  const RecordHead head = *parse_head(record);
  RecordHead lying = head;
  lying.chunks[0].stored_bytes = 0;
  EXPECT_FALSE(encode_head(lying, std::span(record).first(4096)));
  lying.chunks[0].stored_bytes = kChunkBytesMax + 1;
  EXPECT_FALSE(encode_head(lying, std::span(record).first(4096)));
  lying.chunks.clear();
  EXPECT_FALSE(encode_head(lying, std::span(record).first(4096)));
  lying.chunks.assign(kChunksMax + 1, head.chunks[0]);
  std::vector<std::byte> large(record_head_bytes(kChunksMax + 1));
  EXPECT_FALSE(encode_head(lying, large));
  for (const std::size_t size : {0, 1, 255, 4095})
    EXPECT_FALSE(parse_head(std::span(record).first(size)));
}

TEST(Record, BodyMayLieInAnyPiecesAndTheCopyEqualsTheSource) {
  const std::vector<std::uint64_t> lengths{70000, 1, 4096, 33333};
  const auto record = sample_record(lengths, 3);
  const RecordHead head = *parse_head(record);
  const std::span<const std::byte> body = std::span(record).subspan(4096);
  Rng rng(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> copy(body.size());
    std::vector<std::span<const std::byte>> from;
    std::vector<std::span<std::byte>> to;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t length = std::min<std::size_t>(body.size() - at, rng.below(30000));
      from.push_back(body.subspan(at, length));
      at += length;
    }
    for (std::size_t at = 0; at < copy.size();) {
      const std::size_t length = std::min<std::size_t>(copy.size() - at, rng.below(30000));
      to.push_back(std::span(copy).subspan(at, length));
      at += length;
    }
    ASSERT_TRUE(verify_chunks(head, from));
    ASSERT_TRUE(copy_verified(head, from, to));
    ASSERT_TRUE(std::ranges::equal(copy, body));
    from.pop_back();
    EXPECT_FALSE(verify_chunks(head, from)) << "a body cut short";
  }
}

TEST(LittleEndian, WritesTheLeastSignificantByteFirst) {
  std::array<std::byte, 8> bytes{};
  put_number<std::uint32_t>(bytes, 1, 0x01020304U);
  EXPECT_EQ(bytes[1], std::byte{4});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(get_number<std::uint32_t>(bytes, 1), 0x01020304U);
}

}  // namespace
}  // namespace tiercel
