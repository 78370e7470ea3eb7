// The bytes in docs/formats are those that the code writes.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/checksum.h"
#include "kv/record.h"
#include "tier/checkpoint_format.h"
#include "tier/segment_format.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

// One dump: offset -> byte, from lines like "0010  a0 a1 ...  text". A new one starts where offsets go back.
using Dump = std::vector<std::pair<std::size_t, std::byte>>;

std::vector<Dump> read_dumps(const std::string& name) {
  std::ifstream file(std::string(TIERCEL_SOURCE_DIR "/docs/formats/") + name);
  std::vector<Dump> dumps;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) dumps.emplace_back();
    }
    if (!inside || line.size() < 53 || line.find_first_not_of("0123456789abcdef") != 4) continue;
    std::istringstream bytes(line.substr(6, 47));
    std::size_t at = std::stoul(line.substr(0, 4), nullptr, 16);
    for (unsigned value = 0; bytes >> std::hex >> value;)
      dumps.back().emplace_back(at++, static_cast<std::byte>(value));
  }
  std::erase_if(dumps, [](const Dump& dump) { return dump.empty(); });
  return dumps;
}

void expect_same(const Dump& dump, std::span<const std::byte> bytes) {
  ASSERT_GE(dump.size(), 64U);
  for (const auto& [at, byte] : dump) {
    ASSERT_LT(at, bytes.size());
    EXPECT_EQ(byte, bytes[at]) << "at " << at;
  }
}

RecordHead sample_head() {
  RecordHead head;
  head.key.bytes.fill(0x11);
  head.fingerprint.bytes.fill(0x22);
  head.prefix.bytes.fill(0x33);
  head.parent.bytes.fill(0x44);
  head.kind = {.id = 1, .reach = Reach::window, .window_tokens = 4096};
  head.token_count = 512;
  head.rank = 1;
  head.world = 2;
  const std::string_view body = "tiercel";
  head.chunks.push_back({.layer_count = 32,
                         .plain_bytes = body.size(),
                         .stored_bytes = body.size(),
                         .checksum = checksum64(std::as_bytes(std::span(body)))});
  return head;
}

StoreUuid sample_store() {
  StoreUuid store;
  for (std::size_t i = 0; i < store.size(); ++i) store[i] = static_cast<std::uint8_t>(0xa0 + i);
  return store;
}

TEST(FormatDocs, Record) {
  std::vector<std::byte> page(kPageBytes);
  ASSERT_TRUE(encode_head(sample_head(), page));
  const auto dumps = read_dumps("record.md");
  ASSERT_EQ(dumps.size(), 1U);
  expect_same(dumps[0], page);
}

TEST(FormatDocs, Segment) {
  const SegmentLife life{.sequence = 9, .epoch = 2};
  const auto dumps = read_dumps("segment.md");
  ASSERT_EQ(dumps.size(), 4U);
  std::vector<std::byte> page(kPageBytes);
  encode_segment_header(
      {.store = sample_store(), .segment = 3, .life = life, .segment_bytes = 64 * kMiB}, page);
  expect_same(dumps[0], page);
  std::array<std::byte, kPlaceEchoBytes> echo;
  encode_place_echo({.store = sample_store(), .segment = 3, .offset = 4096, .life = life}, echo);
  expect_same(dumps[1], echo);
  const RecordHead head = sample_head();
  ASSERT_TRUE(encode_head(head, page));
  FooterEntry entry{.key = head.key,
                    .parent = head.parent,
                    .prefix = head.prefix,
                    .fingerprint = head.fingerprint,
                    .kind = head.kind,
                    .token_count = head.token_count,
                    .offset = 4096,
                    .bytes = 8192,
                    .head_checksum = head_checksum(page)};
  const auto footer = encode_footer({.store = sample_store(),
                                     .segment = 3,
                                     .life = life,
                                     .data_end = 4096 + 8192,
                                     .entries = {entry}});
  expect_same(dumps[2], footer);
  expect_same(dumps[3], footer);
}

TEST(FormatDocs, Checkpoint) {
  std::vector<std::byte> page(kPageBytes);
  const RecordHead head = sample_head();
  ASSERT_TRUE(encode_head(head, page));
  const FooterEntry entry{.key = head.key,
                          .parent = head.parent,
                          .prefix = head.prefix,
                          .fingerprint = head.fingerprint,
                          .kind = head.kind,
                          .token_count = head.token_count,
                          .offset = 4096,
                          .bytes = 8192,
                          .head_checksum = head_checksum(page)};
  const Checkpoint checkpoint{
      .store = sample_store(),
      .sequence = 5,
      .epoch = 2,
      .unix_s = 1'790'000'000,
      .segments = {{.segment = 3,
                    .life = {.sequence = 9, .epoch = 2},
                    .data_end = 4096 + 8192,
                    .entries = {entry}},
                   {.segment = 4,
                    .life = {.sequence = 8, .epoch = 2},
                    .sealed = true,
                    .data_end = 32 * kMiB}},
      .quarantined = {{.segment = 4,
                       .life = {.sequence = 8, .epoch = 2},
                       .offset = 20480,
                       .key = head.parent,
                       .unix_s = 1'789'999'000,
                       .reason = "checksum of chunk 0 of 1 does not match"}}};
  std::vector<std::byte> bytes(checkpoint_bytes(checkpoint));
  encode_checkpoint(checkpoint, bytes);
  const auto dumps = read_dumps("checkpoint.md");
  ASSERT_EQ(dumps.size(), 1U);
  expect_same(dumps[0], bytes);
}

TEST(FormatDocs, Superblock) {
  const auto dumps = read_dumps("store.md");
  ASSERT_EQ(dumps.size(), 1U);
  expect_same(dumps[0], encode_superblock({.store = sample_store(),
                                           .segment_bytes = 64 * kMiB,
                                           .record_bytes_max = kMiB,
                                           .epoch = 2}));
}

}  // namespace
}  // namespace tiercel
