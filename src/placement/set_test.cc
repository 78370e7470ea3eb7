// `--set` as a person types it, and the examples that ship.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/byte_size.h"
#include "placement/canonical.h"
#include "placement/good_placement.h"
#include "placement/read_placement.h"

namespace tiercel {
namespace {

Result<Placement> set(std::vector<std::string> sets) {
  return parse_placement(kGood, "p.toml", sets);
}

TEST(Set, TakesValuesAsAPersonTypesThem) {
  EXPECT_EQ(set({"hot.bytes=80 GiB"})->hot.bytes, 80 * kGiB);
  EXPECT_EQ(set({"hot.bytes=80GiB"})->hot.bytes, 80 * kGiB);
  EXPECT_EQ(set({"hot.bytes=\"80 GiB\""})->hot.bytes, 80 * kGiB);
  EXPECT_EQ(set({"hot.bytes=85899345920"})->hot.bytes, 80 * kGiB);
  EXPECT_EQ(set({" hot.bytes = 80 GiB "})->hot.bytes, 80 * kGiB);
  EXPECT_FALSE(set({"prefix_sharing=false"})->prefix_sharing);
  EXPECT_EQ(set({"wait_limit=1500ms"})->wait_limit_ns, 1'500'000'000);
  EXPECT_EQ(set({"wait_limit=0.5 s"})->wait_limit_ns, 500'000'000);
  EXPECT_EQ(set({"cold.read_bandwidth=50MB/s"})->cold.link.read_bytes_per_s, 50'000'000U);
  EXPECT_EQ(set({"model.block_tokens=256"})->model.block_tokens, 256U);
  EXPECT_DOUBLE_EQ(set({"targets.rejection_ratio=1e-3"})->targets.rejection_ratio_max, 1e-3);
  EXPECT_DOUBLE_EQ(set({"targets.refill_p95=250ms"})->targets.refill_p95_s_max, 0.25);
  EXPECT_EQ(set({"name=a=b"})->name, "a=b");
  EXPECT_EQ(set({"hot.bytes=1GiB", "hot.bytes=2GiB"})->hot.bytes, 2 * kGiB);
}

TEST(Set, TurnsTheLowerTiersOff) {
  const auto hot_alone = set({"warm.bytes=0", "cold.bytes=0"});
  ASSERT_TRUE(hot_alone) << hot_alone.error().what;
  EXPECT_EQ(hot_alone->warm.bytes, 0U);
  EXPECT_TRUE(set({"cold.bytes=0", "warm.bytes=0", "hot.bytes=900GiB"}));
  EXPECT_TRUE(set({"cold.bytes=0"}));
  const auto no_warm = set({"warm.bytes=0"});
  ASSERT_FALSE(no_warm);
  EXPECT_TRUE(no_warm.error().what.starts_with("p.toml, --set warm.bytes=0: there is a cold tier"))
      << no_warm.error().what;
  EXPECT_NE(no_warm.error().what.find("--set cold.bytes=0"), std::string::npos);
}

TEST(Set, ContradictionsNameTheSetThatMadeThem) {
  const auto larger = set({"hot.bytes=300GiB"});
  ASSERT_FALSE(larger);
  EXPECT_TRUE(larger.error().what.starts_with(
      "p.toml, --set hot.bytes=300GiB: warm.bytes is 200 GiB, smaller than"))
      << larger.error().what;
  EXPECT_TRUE(set({"hot.bytes=300GiB", "warm.bytes=300GiB"}));
}

TEST(Set, BadOnesAreRefusedWithARemedy) {
  const std::vector<std::pair<std::string, std::string>> matrix = {
      {"hot.bites=1GiB",
       "--set hot.bites=1GiB: unknown key \"hot.bites\"; did you mean \"hot.bytes\"?"},
      {"hot_bytes=1GiB",
       "--set hot_bytes=1GiB: unknown key \"hot_bytes\"; did you mean \"hot.bytes\"?"},
      {"bytes=1GiB", "--set bytes=1GiB: unknown key \"bytes\"; did you mean \""},
      {"hot=1GiB", "--set hot=1GiB: unknown key \"hot\""},
      {"hot.bytes", "--set hot.bytes: expected KEY=VALUE"},
      {"=1", "--set =1: expected KEY=VALUE"},
      {"", "--set : expected KEY=VALUE"},
      {"hot.bytes=", "--set hot.bytes=: hot.bytes: \"\" is not a number with a unit"},
      {"hot.bytes=-1", "--set hot.bytes=-1: hot.bytes: \"-1\""},
      {"hot.bytes=many", "--set hot.bytes=many: hot.bytes: \"many\""},
      {"wait_limit=5", "--set wait_limit=5: wait_limit = 5 has no unit"},
      {"cold.read_bandwidth=5", "--set cold.read_bandwidth=5: cold.read_bandwidth = 5 has no unit"},
      {"prefix_sharing=maybe",
       "--set prefix_sharing=maybe: prefix_sharing is true or false, not \"maybe\""},
      {"model.block_tokens=1.5",
       "--set model.block_tokens=1.5: model.block_tokens is a whole number"},
      {"targets.turn_drift=inf", "--set targets.turn_drift=inf: targets.turn_drift is a number"},
      {"targets.turn_drift=nan", "--set targets.turn_drift=nan: targets.turn_drift is a number"},
      {"engine.prefill=fast",
       "--set engine.prefill=fast: engine.prefill is \"nominal\" or \"flops\""},
      {"schema=tiercel.placement/9",
       "--set schema=tiercel.placement/9: the schema belongs to the file"},
      {"name=\x01", "--set name=?: expected at most 4096 bytes of UTF-8"},
      {"name=\xff", "--set name=\xff: expected at most 4096 bytes of UTF-8"},
      {"name=" + std::string(600, 'n'), "name has 600 bytes; at most 512"},
  };
  for (const auto& [text, says] : matrix) {
    const auto placement = set({text});
    ASSERT_FALSE(placement) << text;
    EXPECT_EQ(placement.error().code, Errc::invalid);
    EXPECT_NE(placement.error().what.find(says), std::string::npos) << placement.error().what;
  }
}

TEST(Examples, AllAreValidAndDifferentAndHotAloneIsOneSetAway) {
  std::vector<std::string> hashes;
  for (const char* name : {"nominal", "one-box", "slow-disk", "eight-gpu"}) {
    const std::string path = fmt::format("{}/examples/{}.toml", TIERCEL_SOURCE_DIR, name);
    const auto placement = read_placement(path);
    ASSERT_TRUE(placement) << placement.error().what;
    EXPECT_EQ(placement->name, name);
    for (const std::string& other : hashes) EXPECT_NE(placement_sha256(*placement), other);
    hashes.push_back(placement_sha256(*placement));
    const std::vector<std::string> off = {"warm.bytes=0", "cold.bytes=0"};
    EXPECT_TRUE(read_placement(path, off)) << read_placement(path, off).error().what;
  }
}

TEST(Examples, NominalIsTheServerOfThePublishedFigures) {
  const auto nominal = read_placement(TIERCEL_SOURCE_DIR "/examples/nominal.toml");
  ASSERT_TRUE(nominal) << nominal.error().what;
  EXPECT_EQ(nominal->engine.prefill, PrefillModel::nominal);
  EXPECT_DOUBLE_EQ(nominal->engine.prefill_tokens_per_s, 10000);
  EXPECT_EQ(nominal->engine.decode_per_token_ns, 30'000'000);
  EXPECT_EQ(nominal->block_bytes(), 64 * kMiB);
  EXPECT_EQ(nominal->wait_limit_ns, 1'000'000'000);
  EXPECT_EQ(nominal->hot.bytes, 110 * kGiB);
  EXPECT_EQ(nominal->warm.link.read_bytes_per_s, 20'000'000'000U);
  EXPECT_EQ(nominal->cold.link.read_bytes_per_s, 3'000'000'000U);
  EXPECT_TRUE(nominal->prefix_sharing);
}

TEST(Examples, OneBoxMovesAThousandthAndFitsAGibibyteOfMemory) {
  const auto one_box = read_placement(TIERCEL_SOURCE_DIR "/examples/one-box.toml");
  ASSERT_TRUE(one_box) << one_box.error().what;
  EXPECT_EQ(one_box->payload_bytes(), 64 * kKiB);
  EXPECT_LE(one_box->warm.bytes / 1024, kGiB);
}

}  // namespace
}  // namespace tiercel
