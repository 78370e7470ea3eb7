#include "cache/restore_index.h"

#include <gtest/gtest.h>

#include "tier/test_record.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kRecord = 8192;

struct World {
  Core core{{.warm_bytes = 1 << 20,
             .cold = ColdLog::Options{.geometry = {.segment_bytes = 1 << 20, .segments_max = 8},
                                      .sync_bytes = 1,
                                      .staging_bytes = 1 << 20}}};
  Recovered recovered;
  std::vector<std::pair<BlockId, bool>> made;  // And whether it has a record.

  void add_segment(std::uint32_t segment) {
    recovered.segments.push_back({.segment = segment, .sequence = recovered.segments.size() + 1});
  }
  // parent 0: none.
  void add(std::uint64_t key, std::uint64_t parent) {
    auto& records = recovered.segments.back().records;
    records.push_back({.key = test_key(key),
                       .parent = parent == 0 ? Key{} : test_key(parent),
                       .fingerprint = test_fingerprint(),
                       .token_count = 16,
                       .place = {.segment = recovered.segments.back().segment,
                                 .offset = 4096 + records.size() * kRecord,
                                 .bytes = kRecord}});
  }
  RestoreCounts restore() {
    return restore_index(
        recovered,
        {.payload_of = [](const RecoveredRecord& record) -> std::optional<std::uint64_t> {
           if (record.fingerprint != test_fingerprint()) return std::nullopt;
           return 4000;
         },
         .on_block =
             [this](BlockId id, const RecoveredRecord* record) {
               made.emplace_back(id, record != nullptr);
             }},
        core);
  }
  BlockId find(std::uint64_t key) { return core.table().find(test_key(key)); }
  const Block& block(std::uint64_t key) { return core.table()[find(key)]; }
};

TEST(RestoreIndex, ParentsAreFoundWhereverTheyLie) {
  World world;
  world.add_segment(3);
  world.add(2, 1);  // Its parent was moved on by a reclaim: it comes later.
  world.add(3, 2);
  world.add_segment(5);
  world.add(1, 0);
  EXPECT_EQ(world.restore().blocks, 3U);
  EXPECT_EQ(world.block(3).parent, world.find(2));
  EXPECT_EQ(world.block(2).parent, world.find(1));
  EXPECT_EQ(world.block(1).cold_children, 1U);
  const std::vector<BlockId> chain{world.find(1), world.find(2), world.find(3)};
  EXPECT_EQ(world.core.match(chain), 3U);
}

TEST(RestoreIndex, TheLaterRecordOfAKeyStandsForTheEarlier) {
  World world;
  world.add_segment(6);
  world.add(1, 0);
  world.add_segment(2);
  world.add(7, 0);
  world.add(1, 0);
  EXPECT_EQ(world.restore().blocks, 2U);
  EXPECT_EQ(world.block(1).cold_place,
            (Place{.segment = 2, .offset = 4096 + kRecord, .bytes = kRecord}));
}

TEST(RestoreIndex, AParentThatIsGoneLeavesItsName) {
  World world;
  world.add_segment(0);
  world.add(2, 1);
  EXPECT_EQ(world.restore().blocks, 1U);
  ASSERT_NE(world.find(1), kNoBlock);
  EXPECT_EQ(world.core.fastest_tier(world.find(1)), TierId::none);
  EXPECT_EQ(world.made.size(), 2U);
}

TEST(RestoreIndex, StrangersAreCountedAndLeftAlone) {
  World world;
  world.add_segment(0);
  world.add(1, 0);
  world.add(2, 0);
  world.recovered.segments[0].records[1].fingerprint = test_fingerprint(9);
  const RestoreCounts counts = world.restore();
  EXPECT_EQ(counts.blocks, 1U);
  EXPECT_EQ(counts.strangers, 1U);
  EXPECT_EQ(world.find(2), kNoBlock);
}

// Names are hashes of their parents, so only damage or malice makes a ring; followed, it would never end.
TEST(RestoreIndex, ARingOfParentsIsCut) {
  for (const int length : {1, 2, 5}) {
    World world;
    world.add_segment(0);
    for (int i = 0; i < length; ++i) world.add(10 + i, 10 + (i + 1) % length);
    world.add(50, 10);  // Leads into it.
    EXPECT_EQ(world.restore().blocks, static_cast<std::uint64_t>(length) + 1);
    int steps = 0;
    for (BlockId id = world.find(50); id != kNoBlock; id = world.core.table()[id].parent) {
      ASSERT_LE(++steps, length + 1) << "the ring of " << length << " was not cut";
    }
    const std::vector<BlockId> chain{world.find(50)};
    world.core.touch(chain);  // Walks up all ancestors.
  }
}

}  // namespace
}  // namespace tiercel
