// The registry and codec 0.
#include "codec/codec.h"

#include <gtest/gtest.h>

#include <vector>

namespace tiercel {
namespace {

TEST(Codec, IdentityGivesTheBytesBack) {
  const Codec& codec = **find_codec(kIdentityCodec);
  const std::vector<std::byte> plain(1000, std::byte{7});
  std::vector<std::byte> stored(codec.stored_bytes_max(plain.size()));
  const auto encoded = codec.encode(plain, stored);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->stored_bytes, 1000U);
  std::vector<std::byte> back(1000);
  ASSERT_TRUE(
      codec.decode(std::span(stored).first(encoded->stored_bytes), encoded->parameters, back));
  EXPECT_EQ(back, plain);
}

TEST(Codec, LengthsAndParametersThatDoNotFitAreErrors) {
  const Codec& codec = **find_codec(kIdentityCodec);
  std::vector<std::byte> bytes(1000), shorter(999);
  EXPECT_EQ(codec.encode(bytes, shorter).error().code, Errc::invalid);
  EXPECT_EQ(codec.decode(bytes, {}, shorter).error().code, Errc::corrupt);
  EXPECT_EQ(codec.decode(shorter, {}, bytes).error().code, Errc::corrupt);
  EXPECT_EQ(codec.decode(bytes, {1}, bytes).error().code, Errc::corrupt);
}

TEST(Codec, AnUnknownNumberIsNamed) {
  const auto codec = find_codec(4711);
  ASSERT_FALSE(codec);
  EXPECT_EQ(codec.error().code, Errc::unavailable);
  EXPECT_NE(codec.error().what.find("4711"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
