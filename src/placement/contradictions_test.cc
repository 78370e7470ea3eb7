// What only numbers together can show: payloads, scaled capacities, and the disk of this machine.
#include "placement/contradictions.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include "base/byte_size.h"

namespace tiercel {
namespace {

Placement three_tiers() {
  Placement p;
  p.model.bytes_per_token = 128 * kKiB;
  p.hot.bytes = 10 * kGiB;
  p.warm = {.bytes = 20 * kGiB,
            .link = {.latency_ns = 0, .read_bytes_per_s = 1, .write_bytes_per_s = 1}};
  p.cold.bytes = 100 * kGiB;
  p.cold.link = p.warm.link;
  p.cold.segment_bytes = 64 * kMiB;
  p.staging_bytes = kGiB;
  p.origin.file = "p.toml";
  p.origin.places = {{"cold.bytes", "p.toml:7"}, {"warm.bytes", "p.toml:5"}};
  return p;
}

TEST(Contradictions, APlainPlacementHasNone) {
  EXPECT_TRUE(check_contradictions(three_tiers()))
      << check_contradictions(three_tiers()).error().what;
  EXPECT_TRUE(placement_warnings(three_tiers()).empty());
}

TEST(Contradictions, TiersThatAreOffMayHaveNoLink) {
  Placement p = three_tiers();
  p.warm = {};
  p.cold = {};
  p.staging_bytes = 0;
  EXPECT_TRUE(check_contradictions(p));
}

TEST(Contradictions, AColdTierSmallerThanWarmIsAllowedWithAWarning) {
  Placement p = three_tiers();
  p.cold.bytes = 19 * kGiB;
  EXPECT_TRUE(check_contradictions(p));
  ASSERT_EQ(placement_warnings(p).size(), 1U);
  EXPECT_TRUE(placement_warnings(p)[0].starts_with("p.toml:7: cold.bytes (19 GiB) is smaller"));
}

TEST(ScaledBytes, KeepTheRatioAndRoundDown) {
  const Placement p = three_tiers();
  EXPECT_EQ(scaled_bytes(p, 64 * kKiB, 8 * 1024 * kGiB), 8 * kGiB);
  EXPECT_EQ(scaled_bytes(p, p.block_bytes(), 12345), 12345U);
  EXPECT_EQ(scaled_bytes(p, 64 * kKiB, 1023), 0U);
  EXPECT_EQ(scaled_bytes(p, p.block_bytes(), 1ULL << 53), 1ULL << 53);  // No overflow on the way.
}

TEST(CheckPayload, RefusesWhatIsNoWholePageOrMoreThanABlock) {
  const Placement p = three_tiers();
  EXPECT_TRUE(check_payload(p, kMiB));
  EXPECT_TRUE(check_payload(p, p.block_bytes()));
  EXPECT_FALSE(check_payload(p, 0));
  EXPECT_FALSE(check_payload(p, 4097));
  EXPECT_FALSE(check_payload(p, p.block_bytes() + 4096));
}

TEST(CheckAgainstDisk, TheCapMayBeWhatIsFreeAndNoMore) {
  const Placement p = three_tiers();
  struct statvfs fs {};
  ASSERT_EQ(::statvfs("/tmp", &fs), 0);
  const std::uint64_t free_bytes = static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
  EXPECT_TRUE(check_against_disk(p, free_bytes / 2, "/tmp/not/there/yet"));
  const auto refused = check_against_disk(p, free_bytes * 2 + kGiB, "/tmp/not/there/yet");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_TRUE(refused.error().what.starts_with("p.toml:7: cold.bytes needs "))
      << refused.error().what;
  EXPECT_NE(refused.error().what.find("/tmp has "), std::string::npos);
  EXPECT_NE(refused.error().what.find("lower cold.bytes to "), std::string::npos);
}

TEST(CheckAgainstDisk, AnOldStoreThatWillBeEmptiedCountsAsFree) {
  const Placement p = three_tiers();
  struct statvfs fs {};
  ASSERT_EQ(::statvfs("/tmp", &fs), 0);
  const std::uint64_t free_bytes = static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
  const std::uint64_t cap = free_bytes * 2 + kGiB;
  EXPECT_TRUE(check_against_disk(p, cap, "/tmp", free_bytes * 2));
  EXPECT_FALSE(check_against_disk(p, cap, "/tmp"));
  const auto refused = check_against_disk(p, cap * 2, "/tmp", free_bytes);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("the old store there counted"), std::string::npos)
      << refused.error().what;
}

}  // namespace
}  // namespace tiercel
