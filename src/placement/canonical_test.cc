// The canonical form reads back to the same placement, whatever the placement; the schema table is
// whole.
#include "placement/canonical.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/random.h"
#include "placement/read_placement.h"
#include "placement/schema.h"

namespace tiercel {
namespace {

// A random value of the key as --set takes it.
std::string random_text(const PlacementKey& key, Rng& rng) {
  const double high =
      std::min(key.max, std::max(1.0, key.max * 0x1p-53 * static_cast<double>(rng.next() >> 11)));
  const double number = std::max({key.min, 1.0, std::floor(high)});
  switch (key.type) {
    case ValueType::text: {
      static constexpr std::string_view kAlphabet = "ab \"\\'=#[]{}\xc3\xa9.,/";
      std::string text;
      for (std::uint64_t i = rng.below(20); i > 0; --i) text += kAlphabet[rng.below(10)];
      return text + "\xc3\xa9";
    }
    case ValueType::flag:
      return rng.chance(0.5) ? "true" : "false";
    case ValueType::prefill_model:
      return "nominal";
    case ValueType::integer:
      return std::to_string(static_cast<std::uint64_t>(number));
    case ValueType::real:
      return std::to_string(key.max <= 1 ? rng.uniform() : number / 3);
    case ValueType::byte_size:
      return exact_byte_size(static_cast<std::uint64_t>(number));
    case ValueType::byte_rate:
      return exact_byte_rate(static_cast<std::uint64_t>(number));
    case ValueType::duration:
      return exact_duration(static_cast<std::int64_t>(number));
  }
  return "";
}

TEST(Canonical, ReadsBackToItselfForRandomPlacements) {
  int valid = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Placement placement;
    for (const PlacementKey& key : placement_keys()) {
      const auto assigned = assign_from_text(key, random_text(key, rng), placement);
      ASSERT_TRUE(assigned) << assigned.error().what;
    }
    // Free values contradict each other nearly always; put the sizes right and keep the rest.
    placement.hot.bytes = placement.block_bytes() + rng.below(1 << 20);
    placement.warm.bytes = rng.chance(0.3) ? 0 : placement.hot.bytes + rng.below(1 << 30);
    if (placement.warm.bytes == 0) placement.cold.bytes = 0;
    placement.staging_bytes = placement.block_bytes() + rng.below(1 << 30);
    placement.cold.segment_bytes = align_up(placement.cold.segment_bytes, 4096);
    const bool whole = rng.chance(0.5) || placement.block_bytes() > 1ULL << 40;
    placement.replay_payload = whole ? 0 : placement.block_bytes() / 4096 * 4096;
    const std::string text = canonical_placement(placement);
    const auto again = parse_placement(text, "canonical");
    if (!again) {
      EXPECT_NE(again.error().what.find("must be from"), std::string::npos) << again.error().what;
      continue;  // The corrections above left a range.
    }
    ++valid;
    EXPECT_EQ(canonical_placement(*again), text);
    EXPECT_EQ(placement_sha256(*again), placement_sha256(placement));
  }
  EXPECT_GT(valid, 2000);
}

TEST(Canonical, WritesEveryKeyOnceAndInOrderWithItsDefault) {
  const Placement defaults;
  const std::string text = canonical_placement(defaults);
  std::size_t at = 0;
  for (const PlacementKey& key : placement_keys()) {
    const std::string line = fmt::format("\n{} = {}\n", key.name.substr(key.name.rfind('.') + 1),
                                         canonical_value(key, defaults));
    const std::size_t found = text.find(line, at);
    ASSERT_NE(found, std::string::npos) << key.name;
    at = found + 1;
  }
  EXPECT_TRUE(text.starts_with("schema = \"tiercel.placement/1\"\n"));
}

TEST(Canonical, EveryKeyChangesTheHash) {
  // The negative control of the hash: a key that it missed could differ between what was validated
  // and what runs.
  const Placement defaults;
  Rng rng(5);
  for (const PlacementKey& key : placement_keys()) {
    Placement changed;
    for (int tries = 0;
         tries < 20 && canonical_value(key, changed) == canonical_value(key, defaults); ++tries) {
      ASSERT_TRUE(assign_from_text(
          key, key.type == ValueType::prefill_model ? "flops" : random_text(key, rng), changed));
    }
    EXPECT_NE(placement_sha256(changed), placement_sha256(defaults)) << key.name;
  }
}

TEST(Canonical, SpellingAndOrderOfTheFileDoNotMatterValuesDo) {
  const std::string a =
      "schema = \"tiercel.placement/1\"\n[model]\nbytes_per_token = \"1 KiB\"\n[hot]\nbytes = \"1 "
      "GiB\"\n";
  const std::string b =
      "schema = 'tiercel.placement/1' # c\nhot.bytes = \"1024 MiB\"\nmodel = "
      "{bytes_per_token=\"1024B\"}\nwait_limit=\"1000 ms\"\n";
  ASSERT_TRUE(parse_placement(b, "b")) << parse_placement(b, "b").error().what;
  EXPECT_EQ(placement_sha256(*parse_placement(a, "a")), placement_sha256(*parse_placement(b, "b")));
  const std::vector<std::string> sets = {"hot.bytes=1025 MiB"};
  EXPECT_NE(placement_sha256(*parse_placement(a, "a")),
            placement_sha256(*parse_placement(a, "a", sets)));
}

TEST(Schema, NamesAreUniqueAndExamplesAreValid) {
  std::set<std::string_view> names;
  for (const PlacementKey& key : placement_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(find_placement_key(key.name), &key);
    Placement placement;
    EXPECT_TRUE(assign_from_text(key, key.example, placement)) << key.name;
  }
  EXPECT_EQ(find_placement_key("hot"), nullptr);
  EXPECT_TRUE(is_placement_table("hot"));
  EXPECT_FALSE(is_placement_table("name"));
  EXPECT_FALSE(is_placement_table(""));
}

TEST(Schema, TheDocumentHoldsTheTableOfKeys) {
  std::ifstream file(TIERCEL_SOURCE_DIR "/docs/formats/placement.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(placement_keys_markdown()), std::string::npos)
      << "docs/formats/placement.md must contain:\n"
      << placement_keys_markdown();
}

}  // namespace
}  // namespace tiercel
