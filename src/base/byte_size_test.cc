#include "base/byte_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "base/random.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(ByteSize, ParsesBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_byte_size("110 GiB"), 110 * kGiB);
  EXPECT_EQ(*parse_byte_size("1.5KiB"), 1536U);
  EXPECT_EQ(*parse_byte_size("3 GB"), 3000000000U);
  EXPECT_EQ(*parse_byte_size("  2  TiB  "), 2048 * kGiB);
  EXPECT_EQ(*parse_byte_size("0 B"), 0U);
  EXPECT_EQ(*parse_byte_rate("20 GB/s"), 20000000000U);
  EXPECT_EQ(*parse_byte_count("4096"), 4096U);
  EXPECT_EQ(*parse_byte_count("64 KiB"), 65536U);
}

TEST(ByteSize, ParsesEveryUnitOfTime) {
  EXPECT_EQ(*parse_duration_ns("7 ns"), 7);
  EXPECT_EQ(*parse_duration_ns("7 us"), 7000);
  EXPECT_EQ(*parse_duration_ns("30 ms"), 30000000);
  EXPECT_EQ(*parse_duration_ns("0.5 s"), 500000000);
  EXPECT_EQ(*parse_duration_ns("2 min"), 120000000000);
  EXPECT_EQ(*parse_duration_ns("1.25 h"), 4500000000000);
}

TEST(ByteSize, FractionsRoundToTheNearestByte) {
  EXPECT_EQ(*parse_byte_size("0.4 B"), 0U);
  EXPECT_EQ(*parse_byte_size("0.5 B"), 1U);
  EXPECT_EQ(*parse_byte_size(".5 KiB"), 512U);
  EXPECT_EQ(*parse_byte_size("5. KiB"), 5120U);
  EXPECT_EQ(*parse_byte_size("0.1 TiB"), 109951162778U);
}

TEST(ByteSize, RefusesABareNumberAndNamesTheUnits) {
  for (const char* text :
       {"", "64", "64 gib", "-1 GiB", "+1 GiB", "1 GiB extra", "nan B", "1e3 B", "0x10 B",
        "1.2.3 MiB", ". B", "B", "9999999999 TiB", "1 GiB/s", "1\tGiB", "1,5 GiB"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Errc::invalid);
    EXPECT_NE(size.error().what.find("GiB"), std::string::npos) << text;
  }
  EXPECT_FALSE(parse_byte_rate("3 GB"));
  EXPECT_FALSE(parse_byte_rate("/s"));
  EXPECT_FALSE(parse_duration_ns("3 GB"));
  EXPECT_FALSE(parse_byte_count("-1"));
}

TEST(ByteSize, AnErrorQuotesTheTextButNotAllOfALongOne) {
  EXPECT_NE(parse_byte_size("64 gib").error().what.find("\"64 gib\""), std::string::npos);
  EXPECT_LT(parse_byte_size(std::string(1000000, 'x')).error().what.size(), 300U);
}

TEST(ByteSize, WhatDoesNotFitInto63BitsIsTooLargeNotWrapped) {
  EXPECT_EQ(*parse_byte_size("9223372036854775807 B"), kLargest);
  for (const char* text : {"9223372036854775808 B", "18446744073709551617 B", "8388608 TiB",
                           "99999999999999999999999999999999999999999999 B"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_NE(size.error().what.find("63 bits"), std::string::npos) << size.error().what;
  }
}

// Doubles hold 53 bits: "9007199254740993 B" once came back as ...992.
TEST(ByteSize, ExactSpellingReadsBackToTheSameValueOverAll63Bits) {
  Rng rng(7);
  EXPECT_EQ(*parse_byte_size("9007199254740993 B"), 9007199254740993U);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t value = rng.next() >> (1 + rng.below(62)) << rng.below(20) & kLargest;
    SCOPED_TRACE(value);
    EXPECT_EQ(*parse_byte_size(exact_byte_size(value)), value);
    EXPECT_EQ(*parse_byte_rate(exact_byte_rate(value)), value);
    EXPECT_EQ(*parse_byte_count(exact_byte_size(value)), value);
    EXPECT_EQ(*parse_duration_ns(exact_duration(static_cast<std::int64_t>(value))),
              static_cast<std::int64_t>(value));
  }
}

TEST(ByteSize, ExactSpellingIsTheShortestThatIsExact) {
  EXPECT_EQ(exact_byte_size(0), "0 B");
  EXPECT_EQ(exact_byte_size(1023), "1023 B");
  EXPECT_EQ(exact_byte_size(110 * kGiB), "110 GiB");
  EXPECT_EQ(exact_byte_size(1536), "1536 B");
  EXPECT_EQ(exact_byte_size(3000000001), "3000000001 B");
  EXPECT_EQ(exact_byte_rate(3000000000), "3 GB/s");
  EXPECT_EQ(exact_duration(1500000000), "1500 ms");
  EXPECT_EQ(exact_duration(2000000000), "2 s");
}

TEST(ByteSize, PrettyTextHasThreeDigitsAndAUnitThatFits) {
  EXPECT_EQ(pretty_byte_size(1023), "1023 B");
  EXPECT_EQ(pretty_byte_size(1536), "1.5 KiB");
  EXPECT_EQ(pretty_byte_size(110 * kGiB), "110 GiB");
  EXPECT_EQ(pretty_byte_size(5000 * 1024 * kGiB), "5000 TiB");
  EXPECT_EQ(pretty_duration(0.0000000125), "12.5 ns");
  EXPECT_EQ(pretty_duration(0.0125), "12.5 ms");
  EXPECT_EQ(pretty_duration(12.5), "12.5 s");
}

// 999.9 ms once read "1e+03 ms".
TEST(ByteSize, PrettyTextNeverHasAnExponentWhereAUnitEnds) {
  EXPECT_EQ(pretty_duration(0.9994), "999 ms");
  EXPECT_EQ(pretty_duration(0.9999), "0.9999 s");
  EXPECT_EQ(pretty_duration(0.99999), "1 s");
  EXPECT_EQ(pretty_duration(999.9e-6), "1 ms");
  EXPECT_EQ(pretty_duration(999.9e-9), "1 us");
  EXPECT_EQ(pretty_duration(999.4e-9), "999 ns");
  EXPECT_EQ(pretty_duration(0), "0 ns");
  EXPECT_EQ(pretty_byte_size(999 * kKiB), "999 KiB");
  EXPECT_EQ(pretty_byte_size(1010 * kMiB), "1010 MiB");
  EXPECT_EQ(pretty_byte_size(kGiB - 1), "1024 MiB");
}

TEST(ByteSize, AlignUpReachesTheNextMultipleAndStaysOnOne) {
  EXPECT_EQ(align_up(0, 4096), 0U);
  EXPECT_EQ(align_up(1, 4096), 4096U);
  EXPECT_EQ(align_up(4096, 4096), 4096U);
  EXPECT_EQ(align_up(4097, 4096), 8192U);
}

}  // namespace
}  // namespace tiercel
