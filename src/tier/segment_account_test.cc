// The account of a segment log: what fits, which is next, what is held.
#include "tier/segment_account.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tier/segment_format.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kRecord = 3 * kPageBytes;

TEST(SegmentGeometry, StaysInsideTheCapAndHoldsEightOfTheLargestRecords) {
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t record = kPageBytes * (2 + rng.below(100));
    const std::uint64_t capacity = kMiB + rng.below(8 * kGiB);
    const auto geometry = SegmentGeometry::fit(capacity, 64 * kMiB, record);
    if (!geometry) {
      EXPECT_NE(geometry.error().what.find("cold.bytes"), std::string::npos);
      continue;
    }
    EXPECT_LE(store_bytes(geometry->segment_bytes, geometry->segments_max), capacity);
    EXPECT_GE(geometry->segments_max, 4U);
    EXPECT_GE(geometry->segment_bytes, segment_bytes_min(record));
    EXPECT_EQ(geometry->segment_bytes % kPageBytes, 0U);
  }
}

TEST(SegmentGeometry, TooSmallACapIsRefusedWithTheOneThatWouldDo) {
  const auto refused = SegmentGeometry::fit(kMiB, 64 * kMiB, 256 * kKiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  const std::string& what = refused.error().what;
  const auto needed = parse_byte_size(what.substr(what.rfind("that is ") + 8));
  ASSERT_TRUE(needed) << what;
  EXPECT_TRUE(SegmentGeometry::fit(*needed, 64 * kMiB, 256 * kKiB));
  EXPECT_FALSE(SegmentGeometry::fit(*needed - 1, 64 * kMiB, 256 * kKiB));
}

TEST(SegmentAccount, RecordsNeverOverlapNorReachIntoTheFooter) {
  Rng rng(4);
  SegmentAccount account({.segment_bytes = 64 * kPageBytes, .segments_max = 5});
  for (int life = 0; life < 5; ++life) {
    const std::uint32_t segment = account.open_next();
    std::uint64_t end = kSegmentHeaderBytes;
    std::uint32_t count = 0;
    for (;;) {
      const std::uint64_t bytes = kPageBytes * (1 + rng.below(6));
      const auto place = account.append(count, bytes);
      if (!place) {
        EXPECT_GT(end + bytes + footer_bytes(count + 1), 64 * kPageBytes)
            << "refused although it fits";
        break;
      }
      EXPECT_EQ(*place, (Place{.segment = segment, .offset = end, .bytes = bytes}));
      end += bytes;
      ++count;
      EXPECT_LE(end + footer_bytes(count), 64 * kPageBytes);
    }
    EXPECT_EQ(account.entries(segment).size(), count);
    EXPECT_EQ(account.seal(), segment);
  }
  EXPECT_EQ(account.physical_bytes(), 5 * 64 * kPageBytes);
}

TEST(SegmentAccount, TheOldestSealedSegmentGoesFirstAndComesBackLast) {
  SegmentAccount account({.segment_bytes = 64 * kPageBytes, .segments_max = 3});
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(account.open_next(), i);
    account.seal();
  }
  EXPECT_EQ(account.free_count(), 0U);
  EXPECT_EQ(account.begin_reclaim(), 0U);
  EXPECT_EQ(account.begin_reclaim(), 1U);
  account.release(1);
  account.release(0);
  EXPECT_EQ(account.open_next(), 1U);
  EXPECT_EQ(account.oldest_sealed(), 2U);
}

TEST(SegmentAccountDeathTest, AHeldSegmentIsNotReleased) {
  SegmentAccount account({.segment_bytes = 64 * kPageBytes, .segments_max = 3});
  const std::uint32_t segment = account.open_next();
  ASSERT_TRUE(account.append(1, kRecord));
  account.seal();
  account.hold(segment);
  account.begin_reclaim();
  EXPECT_DEATH(account.release(segment), "broken invariant");
}

TEST(SegmentAccount, ARestoredSegmentIsSealedAndInOrderOfRestore) {
  SegmentAccount account({.segment_bytes = 64 * kPageBytes, .segments_max = 4});
  account.restore(2, {{.id = 7, .place = {.segment = 2, .offset = kPageBytes, .bytes = kRecord}}});
  account.restore(0, {});
  EXPECT_EQ(account.oldest_sealed(), 2U);
  EXPECT_EQ(account.free_count(), 2U);
  EXPECT_FALSE(account.append(8, kRecord)) << "nothing is appended behind a recovered tail";
  EXPECT_EQ(account.open_next(), 1U);
}

}  // namespace
}  // namespace tiercel
