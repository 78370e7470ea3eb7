#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/check.h"
#include "base/random.h"

namespace tiercel {
namespace {

Result<std::unique_ptr<int>> make(bool works) {
  if (!works) return fail(Errc::corrupt, "block 7 of a.bin: checksum differs");
  return std::make_unique<int>(7);
}
Result<void> touch(bool works) {
  if (!works) return fail(Errc::busy, "the queue is full");
  return {};
}
Result<int> use(bool value_works, bool touch_works) {
  TIERCEL_TRY(const auto value, make(value_works));
  TIERCEL_TRY_VOID(touch(touch_works));
  return *value + 1;
}

TEST(Result, TryTakesTheValueOrReturnsTheErrorUnchanged) {
  EXPECT_EQ(*use(true, true), 8);
  const auto corrupt = use(false, true);
  ASSERT_FALSE(corrupt);
  EXPECT_EQ(corrupt.error().code, Errc::corrupt);
  EXPECT_EQ(corrupt.error().what, "block 7 of a.bin: checksum differs");
  EXPECT_EQ(use(true, false).error().code, Errc::busy);
}

TEST(Result, AnErrorOfTheSystemCarriesItsNumberAndItsWords) {
  const Error error = fail_errno("open /x", ENOSPC);
  EXPECT_EQ(error.code, Errc::io);
  EXPECT_EQ(error.os_errno, ENOSPC);
  EXPECT_EQ(error.what, "open /x: No space left on device");
}

TEST(Result, EveryCodeHasAName) {
  for (const Errc code : {Errc::busy, Errc::no_space, Errc::corrupt, Errc::io, Errc::invalid,
                          Errc::unavailable, Errc::cancelled}) {
    EXPECT_STRNE(errc_name(code), "unknown");
  }
}

TEST(CheckDeathTest, ABrokenInvariantStopsTheProcessAndNamesItself) {
  EXPECT_DEATH(TIERCEL_CHECK(1 + 1 == 3), "result_test.cc:[0-9]+: broken invariant: 1 \\+ 1 == 3");
  TIERCEL_CHECK(true);
}

// Traces and tests depend on these numbers: another machine must draw the same.
TEST(Random, TheSameSeedGivesTheSameNumbersEverywhere) {
  Rng rng(1234567);
  EXPECT_EQ(rng.next(), 6457827717110365317U);  // Source: SplitMix64's published reference output.
  EXPECT_EQ(rng.next(), 3203168211198807973U);
  EXPECT_EQ(rng.next(), 9817491932198370423U);
}

TEST(Random, DistributionsHaveTheirMoments) {
  Rng rng(42);
  constexpr int kDraws = 200000;
  double uniform = 0, exponential = 0, normal = 0, normal_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    ASSERT_LT(rng.below(10), 10U);
    uniform += u;
    exponential += rng.exponential(3);
    const double n = rng.normal();
    normal += n;
    normal_squares += n * n;
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.005);
  EXPECT_NEAR(exponential / kDraws, 3, 0.05);
  EXPECT_NEAR(normal / kDraws, 0, 0.02);
  EXPECT_NEAR(normal_squares / kDraws, 1, 0.02);
}

}  // namespace
}  // namespace tiercel
