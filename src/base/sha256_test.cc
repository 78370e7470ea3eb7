#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace tiercel {
namespace {

std::string hash_of(const std::string& text) { return hex(sha256(std::as_bytes(std::span(text)))); }

// Source: FIPS 180-2, appendix B.
TEST(Sha256, AgreesWithThePublishedVectors) {
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, PiecesGiveTheHashOfTheWholeWhereverTheyAreCut) {
  Rng rng(3);
  std::string text(1000, '\0');
  for (char& c : text) c = static_cast<char>(rng.next());
  for (int round = 0; round < 50; ++round) {
    Sha256 pieces;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t length = std::min<std::size_t>(rng.below(200), text.size() - at);
      pieces.update(std::string_view(text).substr(at, length));
      at += length;
    }
    EXPECT_EQ(hex(pieces.finish()), hash_of(text));
  }
}

TEST(Sha256, AMovedHashGoesOn) {
  Sha256 first;
  first.update("a");
  Sha256 second = std::move(first);
  second.update("bc");
  EXPECT_EQ(hex(second.finish()), hash_of("abc"));
}

TEST(Hex, WritesTwoLowerCaseDigitsPerByteInOrder) {
  const std::uint8_t bytes[] = {0x00, 0x0f, 0xf0, 0xab};
  EXPECT_EQ(hex(bytes), "000ff0ab");
}

}  // namespace
}  // namespace tiercel
