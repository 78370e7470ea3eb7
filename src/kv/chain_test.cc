#include "kv/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/sha256.h"

namespace tiercel {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::span<const std::byte> bytes_of(const std::vector<std::uint32_t>& tokens) {
  return std::as_bytes(std::span(tokens));
}

FingerprintParts sample_parts() {
  return FingerprintParts{.model_weights_id = "m",
                          .tokenizer = "t",
                          .rope = "r",
                          .adapter = "",
                          .quantization_scales = "",
                          .rotation = "",
                          .layout = Layout::opaque(8),
                          .block_tokens = 4,
                          .rank = 0,
                          .world = 1};
}

// A dump of the docs: bytes ("0010  70 72 ...  text") up to the line "name  HEX".
struct Dump {
  std::vector<std::byte> bytes;
  std::string name;
};

std::vector<Dump> read_dumps(const std::string& path) {
  std::vector<Dump> dumps;
  Dump dump;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("name  ")) {
      dump.name = line.substr(6);
      dumps.push_back(std::move(dump));
      dump = {};
    } else if (line.size() > 6 && line.substr(4, 2) == "  " &&
               line.find_first_not_of("0123456789abcdef") == 4) {
      std::istringstream row(line.substr(6, 47));
      for (unsigned byte = 0; row >> std::hex >> byte;) {
        dump.bytes.push_back(static_cast<std::byte>(byte));
      }
    }
  }
  return dumps;
}

// Names are on disk: a change of the code or of the page is a new format version.
TEST(Names, AgreeWithTheWorkedExampleOfTheDocs) {
  const auto dumps = read_dumps(TIERCEL_SOURCE_DIR "/docs/formats/names.md");
  ASSERT_EQ(dumps.size(), 4U);
  for (const Dump& dump : dumps) {
    EXPECT_EQ(hex(sha256(dump.bytes)).substr(0, 32), dump.name);
  }
  const std::vector<std::uint32_t> tokens{1, 2, 3, 4, 5, 6};
  const auto chain = make_chain(bytes_of("salt"), 4, tokens);
  ASSERT_EQ(chain.size(), 2U);
  const Fingerprint fingerprint = make_fingerprint(sample_parts());
  EXPECT_EQ(hex(chain[0]), dumps[0].name);
  EXPECT_EQ(hex(chain[1]), dumps[1].name);
  EXPECT_EQ(hex(fingerprint), dumps[2].name);
  EXPECT_EQ(hex(make_key(chain[1], fingerprint, Kind{})), dumps[3].name);
}

TEST(Chain, EqualPromptsShareTheirHashesUpToTheFirstDifference) {
  std::vector<std::uint32_t> one(64);
  for (std::uint32_t i = 0; i < 64; ++i) one[i] = i;
  std::vector<std::uint32_t> other = one;
  other[33] = 1000;  // In the third block of 16.
  const auto a = make_chain(bytes_of("s"), 16, one);
  const auto b = make_chain(bytes_of("s"), 16, other);
  ASSERT_EQ(a.size(), 4U);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);
  EXPECT_NE(a[3], b[3]) << "equal tokens after another past are another position";
}

TEST(Chain, TheSaltOfATenantReachesEveryPosition) {
  const std::vector<std::uint32_t> tokens(64, 7);
  const auto a = make_chain(bytes_of("tenant a"), 16, tokens);
  const auto b = make_chain(bytes_of("tenant b"), 16, tokens);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]) << i;
}

TEST(Chain, RepeatedTokensStillGiveDistinctPositions) {
  const auto chain = make_chain({}, 1, std::vector<std::uint32_t>(1000, 7));
  EXPECT_EQ(std::set(chain.begin(), chain.end()).size(), 1000U);
}

TEST(Chain, EndsWithAPartialBlockThatTheFullOneDoesNotShare) {
  const std::vector<std::uint32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  const auto full = make_chain({}, 4, tokens);
  const auto partial = make_chain({}, 4, std::span(tokens).first(7));
  ASSERT_EQ(partial.size(), 2U);
  EXPECT_EQ(partial[0], full[0]);
  EXPECT_NE(partial[1], full[1]);
  EXPECT_TRUE(make_chain({}, 4, {}).empty());
}

TEST(Chain, BlockByBlockGivesTheSameAsTheWholePrompt) {
  const std::vector<std::uint32_t> tokens{1, 2, 3, 4, 5};
  const auto chain = make_chain(bytes_of("salt"), 2, tokens);
  std::optional<PrefixHash> parent;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::vector<std::uint32_t> block(
        tokens.begin() + static_cast<std::ptrdiff_t>(2 * i),
        tokens.begin() + std::min<std::ptrdiff_t>(2 * static_cast<std::ptrdiff_t>(i) + 2, 5));
    parent = make_prefix_hash(bytes_of("salt"), parent, static_cast<std::uint32_t>(block.size()),
                              ChainContent::tokens, bytes_of(block));
    EXPECT_EQ(*parent, chain[i]);
  }
}

// What goes into the hash is length-prefixed: moving a byte from one field to its neighbour gives another name.
TEST(PrefixHash, FieldsNeverRunIntoEachOther) {
  const auto hash = [&](std::string_view salt, std::uint32_t count, ChainContent type,
                        std::string_view content) {
    return make_prefix_hash(bytes_of(salt), std::nullopt, count, type, bytes_of(content));
  };
  const std::set<PrefixHash> distinct{
      hash("ab", 1, ChainContent::tokens, "cdef"),
      hash("abcd", 1, ChainContent::tokens, "ef"),
      hash("", 1, ChainContent::tokens, "abcdef"),
      hash("abcdef", 1, ChainContent::tokens, ""),
      hash("ab", 2, ChainContent::tokens, "cdef"),
      hash("ab", 1, ChainContent::engine_hash, "cdef"),
      hash("ab", 1, ChainContent::tokens, std::string_view("cdef\0", 5))};
  EXPECT_EQ(distinct.size(), 7U);
}

TEST(PrefixHash, ASaltThatLooksLikeAParentIsNotOne) {
  const PrefixHash parent =
      make_prefix_hash({}, std::nullopt, 1, ChainContent::tokens, bytes_of("abcd"));
  const auto as_parent = make_prefix_hash({}, parent, 1, ChainContent::tokens, bytes_of("efgh"));
  const auto as_salt = make_prefix_hash(std::as_bytes(std::span(parent.bytes)), std::nullopt, 1,
                                        ChainContent::tokens, bytes_of("efgh"));
  EXPECT_NE(as_parent, as_salt);
}

TEST(PrefixHash, EachParentGivesAnotherChild) {
  std::set<PrefixHash> children;
  Rng rng(9);
  for (int i = 0; i < 1000; ++i) {
    PrefixHash parent;
    for (auto& byte : parent.bytes) byte = static_cast<std::uint8_t>(rng.next());
    children.insert(make_prefix_hash({}, parent, 1, ChainContent::tokens, bytes_of("same")));
  }
  EXPECT_EQ(children.size(), 1000U);
}

TEST(Fingerprint, EveryPartMatters) {
  std::set<Fingerprint> distinct{make_fingerprint(sample_parts())};
  const auto add = [&](auto change) {
    FingerprintParts parts = sample_parts();
    change(parts);
    EXPECT_TRUE(distinct.insert(make_fingerprint(parts)).second);
  };
  add([](FingerprintParts& p) { p.model_weights_id = "n"; });
  add([](FingerprintParts& p) { p.tokenizer = "u"; });
  add([](FingerprintParts& p) { p.rope = "s"; });
  add([](FingerprintParts& p) { p.adapter = "lora"; });
  add([](FingerprintParts& p) { p.quantization_scales = "lora"; });
  add([](FingerprintParts& p) { p.rotation = "lora"; });
  add([](FingerprintParts& p) { p.layout = Layout::opaque(9); });
  add([](FingerprintParts& p) { p.block_tokens = 5; });
  add([](FingerprintParts& p) { p.rank = 1; });
  add([](FingerprintParts& p) { p.world = 2; });
  add([](FingerprintParts& p) {  // The same letters over another boundary.
    p.model_weights_id = "mt";
    p.tokenizer = "";
  });
}

TEST(Key, KindsFingerprintsAndPositionsMakeDistinctKeys) {
  const auto chain = make_chain({}, 1, std::vector<std::uint32_t>{1, 2});
  FingerprintParts parts = sample_parts();
  const Fingerprint one = make_fingerprint(parts);
  parts.rank = 1;
  const Fingerprint other = make_fingerprint(parts);
  const std::vector<Kind> kinds{{},
                                {.id = 1},
                                {.id = 0, .reach = Reach::window, .window_tokens = 128},
                                {.id = 0, .reach = Reach::window, .window_tokens = 256},
                                {.id = 0, .reach = Reach::last}};
  std::set<Key> keys;
  for (const PrefixHash& prefix : chain) {
    for (const Fingerprint& fingerprint : {one, other}) {
      for (const Kind& kind : kinds) keys.insert(make_key(prefix, fingerprint, kind));
    }
  }
  EXPECT_EQ(keys.size(), 2U * 2U * 5U);
}

}  // namespace
}  // namespace tiercel
