#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace tiercel {
namespace {

std::vector<std::byte> random_bytes(std::size_t size) {
  Rng rng(size + 1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// The value is on disk: another library version, or another instruction set, must give the same.
TEST(Checksum, IsXxh3WithoutSeed) {
  const std::string text = "abc";
  EXPECT_EQ(checksum64({}), 0x2d06800538d394c2U);
  EXPECT_EQ(checksum64(std::as_bytes(std::span(text))), 0x78af5f94892f3950U);
}

// XXH3 takes another path for every class of lengths: 0, 1-3, 4-8, 9-16, 17-128, 129-240, and blocks beyond.
TEST(Checksum, EveryFlippedBitChangesTheSumAtEveryLengthClass) {
  for (const std::size_t size : {1, 3, 8, 16, 100, 200, 240, 1000, 1024, 5000}) {
    std::vector<std::byte> bytes = random_bytes(size);
    const std::uint64_t whole = checksum64(bytes);
    for (std::size_t bit = 0; bit<size * 8; bit += size> 300 ? 37 : 1) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_NE(checksum64(bytes), whole) << size << " bytes, bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    EXPECT_EQ(checksum64(bytes), whole);
  }
}

TEST(Checksum, PiecesGiveTheSumOfTheWholeWhereverTheyAreCut) {
  Rng rng(5);
  for (const std::size_t size : {0, 1, 240, 241, 1024, 100000}) {
    const std::vector<std::byte> bytes = random_bytes(size);
    Checksum64 pieces;
    std::size_t at = 0;
    while (at < size) {
      const std::size_t length = std::min<std::size_t>(rng.below(3000), size - at);
      pieces.update(std::span(bytes).subspan(at, length));
      at += length;
    }
    EXPECT_EQ(pieces.finish(), checksum64(bytes)) << size;
  }
}

TEST(Checksum, SwappedPiecesAndAShorterTextGiveAnotherSum) {
  const std::vector<std::byte> bytes = random_bytes(8192);
  const auto span = std::span(bytes);
  Checksum64 swapped;
  swapped.update(span.subspan(4096));
  swapped.update(span.first(4096));
  EXPECT_NE(swapped.finish(), checksum64(bytes));
  EXPECT_NE(checksum64(span.first(8191)), checksum64(bytes));
}

}  // namespace
}  // namespace tiercel
