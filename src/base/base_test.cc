// Sizes, durations, JSON and hashes: what the rest of the house takes for granted.
#include <gtest/gtest.h>

#include "base/byte_size.h"
#include "base/checksum.h"
#include "base/json_writer.h"
#include "base/random.h"
#include "base/sha256.h"

namespace tiercel {
namespace {

TEST(ByteSize, ParsesBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_byte_size("110 GiB"), 110 * kGiB);
  EXPECT_EQ(*parse_byte_size("1.5KiB"), 1536U);
  EXPECT_EQ(*parse_byte_size("3 GB"), 3000000000U);
  EXPECT_EQ(*parse_byte_rate("20 GB/s"), 20000000000U);
  EXPECT_EQ(*parse_duration_ns("30 ms"), 30000000);
  EXPECT_EQ(*parse_byte_count("4096"), 4096U);
}

TEST(ByteSize, RefusesABareNumberAndNamesTheUnits) {
  for (const char* text : {"", "64", "64 gib", "-1 GiB", "1 GiB extra", "nan B", "1e3 B", "9999999999 TiB"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Errc::invalid);
    EXPECT_NE(size.error().what.find("GiB"), std::string::npos) << text;
  }
  EXPECT_FALSE(parse_byte_rate("3 GB"));
  EXPECT_FALSE(parse_duration_ns("3 GB"));
}

TEST(ByteSize, ExactSpellingReadsBackToTheSameValue) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t value = rng.next() >> (1 + rng.below(62));
    if (value > (1ULL << 53)) continue;  // Beyond the exact range of the parser's double.
    EXPECT_EQ(*parse_byte_size(exact_byte_size(value)), value);
    EXPECT_EQ(*parse_byte_rate(exact_byte_rate(value)), value);
    EXPECT_EQ(*parse_duration_ns(exact_duration(static_cast<std::int64_t>(value))),
              static_cast<std::int64_t>(value));
  }
}

TEST(JsonWriter, QuotesSeparatesAndWritesNumbersUnrounded) {
  JsonWriter json(false);
  json.begin_object().member("a", "x\"\n").key("b").begin_array().value(0.1).value(1U).null().end_array();
  json.member("c", true).key("d").begin_object().end_object().end_object();
  EXPECT_EQ(json.text(), "{\"a\":\"x\\\"\\u000a\",\"b\":[0.1,1,null],\"c\":true,\"d\":{}}");
}

TEST(Sha256, AgreesWithThePublishedVectorForAbc) {
  const std::string abc = "abc";
  EXPECT_EQ(hex(sha256(std::as_bytes(std::span(abc)))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  pieces.update("a");
  pieces.update("bc");
  EXPECT_EQ(pieces.finish(), sha256(std::as_bytes(std::span(abc))));
}

TEST(Checksum, PiecesGiveTheSumOfTheWholeAndOneFlippedBitAnother) {
  std::string text(100000, 'k');
  const auto bytes = std::as_bytes(std::span(text));
  const std::uint64_t whole = checksum64(bytes);
  Checksum64 pieces;
  pieces.update(bytes.first(777));
  pieces.update(bytes.subspan(777));
  EXPECT_EQ(pieces.finish(), whole);
  text[5000] = static_cast<char>(text[5000] ^ 1);
  EXPECT_NE(checksum64(bytes), whole);
}

}  // namespace
}  // namespace tiercel
