// The bytes of a manifest: written and read back, damaged in every bit, of another version, and as docs/formats/session.md shows them.
#include "cache/session_manifest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/checksum.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

// The worked example of docs/formats/session.md.
SessionManifest sample() {
  SessionManifest manifest{.name = "evening",
                           .version = 3,
                           .created_unix_s = 1'790'000'000,
                           .updated_unix_s = 1'790'003'600,
                           .block_tokens = 512,
                           .position = 2,
                           .token_count = 700};
  SessionKind kind{.kind = {.id = 1, .reach = Reach::window, .window_tokens = 4096},
                   .fingerprint = {}};
  kind.fingerprint.bytes.fill(0x22);
  manifest.kinds = {kind};
  SessionBlock full{.kind = 0, .index = 0, .token_count = 512, .bytes = 1 << 20};
  full.key.bytes.fill(0x11);
  SessionBlock tail{.kind = 0, .index = 1, .token_count = 188, .bytes = 385'024};
  tail.key.bytes.fill(0x12);
  manifest.blocks = {full, tail};
  SessionPiece tokens{.key = {}, .bytes = 2800};
  tokens.key.bytes.fill(0x33);
  manifest.tokens = {tokens};
  return manifest;
}

void seal(std::vector<std::byte>& bytes) {
  const std::span<std::byte> all(bytes);
  put_number<std::uint64_t>(all, all.size() - 8, checksum64(all.first(all.size() - 8)));
}

TEST(SessionManifest, ComesBackAsItWas) {
  SessionManifest manifest = sample();
  manifest.expires_unix_s = -5;
  manifest.state = {{.key = manifest.blocks[0].key, .bytes = 1}};
  const auto bytes = encode_manifest(manifest);
  EXPECT_EQ(bytes.size(), manifest_bytes(manifest));
  const auto parsed = parse_manifest(bytes);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(*parsed, manifest);
}

TEST(SessionManifest, EveryFlippedBitAndEveryCutIsSeen) {
  const auto bytes = encode_manifest(sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto parsed = parse_manifest(damaged);
    ASSERT_FALSE(parsed) << "bit " << bit;
    ASSERT_EQ(parsed.error().code, Errc::corrupt) << "bit " << bit << ", the version's included";
  }
  for (std::size_t length = 0; length < bytes.size(); ++length)
    ASSERT_EQ(parse_manifest(std::span(bytes).first(length)).error().code, Errc::corrupt);
}

TEST(SessionManifest, ANewerVersionIsToldFromDamage) {
  for (const std::size_t at : {8, 12}) {  // Version, flags.
    auto bytes = encode_manifest(sample());
    put_number<std::uint32_t>(bytes, at, 2);
    seal(bytes);
    const auto parsed = parse_manifest(bytes);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Errc::invalid);
    EXPECT_NE(parsed.error().what.find("newer build"), std::string::npos);
  }
}

TEST(SessionManifest, WhatDoesNotHoldTogetherIsRefusedAlsoWithAGoodChecksum) {
  const auto refused = [](auto change) {
    SessionManifest manifest = sample();
    change(manifest);
    const auto parsed = parse_manifest(encode_manifest(manifest));
    return !parsed && parsed.error().code == Errc::corrupt;
  };
  EXPECT_FALSE(refused([](SessionManifest&) {})) << "the control";
  EXPECT_TRUE(refused([](SessionManifest& m) { m.name.clear(); }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.version = 0; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.block_tokens = 0; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.block_tokens = 511; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.position = 1; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.blocks[0].index = 1; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { std::swap(m.blocks[0], m.blocks[1]); }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.blocks[1].kind = 1; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.blocks[1].bytes = 0; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.blocks[1].token_count = 0; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.kinds.push_back(m.kinds[0]); }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.kinds[0].kind.window_tokens = 0; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.kinds[0].kind.id = kTokensKindId; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.tokens[0].bytes = 2801; }));
  EXPECT_TRUE(refused([](SessionManifest& m) { m.tokens[0].bytes = 0; }));
}

TEST(SessionManifest, ACountThatPromisesMoreThanIsThereCostsNoMemory) {
  auto bytes = encode_manifest(sample());
  put_number<std::uint32_t>(bytes, 80, 0xffffffff);
  seal(bytes);
  EXPECT_EQ(parse_manifest(bytes).error().code, Errc::corrupt);
}

TEST(SessionManifest, FileNamesAreOneToOneAndHarmless) {
  const std::string file = manifest_file_name("../evening");
  EXPECT_TRUE(is_manifest_file_name(file)) << file;
  EXPECT_NE(file, manifest_file_name("evening"));
  EXPECT_FALSE(is_manifest_file_name("evening.session"));
  EXPECT_FALSE(is_manifest_file_name(file + ".tmp"));
  EXPECT_FALSE(is_manifest_file_name("segment-00000001"));
}

TEST(SessionManifest, TheBytesInTheDocsAreThoseThatTheCodeWrites) {
  const auto bytes = encode_manifest(sample());
  std::ifstream file(TIERCEL_SOURCE_DIR "/docs/formats/session.md");
  std::size_t seen = 0;
  bool named = false;
  for (std::string line; std::getline(file, line);) {
    named = named || line.find(manifest_file_name("evening")) != std::string::npos;
    if (line.size() < 53 || line.find_first_not_of("0123456789abcdef") != 4) continue;
    std::istringstream text(line.substr(6, 47));
    std::size_t at = std::stoul(line.substr(0, 4), nullptr, 16);
    for (unsigned value = 0; text >> std::hex >> value; ++at, ++seen) {
      ASSERT_LT(at, bytes.size());
      EXPECT_EQ(static_cast<std::byte>(value), bytes[at]) << "at " << at;
    }
  }
  EXPECT_GE(seen, 240U);
  EXPECT_TRUE(named) << manifest_file_name("evening");
}

}  // namespace
}  // namespace tiercel
