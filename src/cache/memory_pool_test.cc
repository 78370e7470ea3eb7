// What a pool promises to have room for, it can also give.
#include "cache/memory_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tiercel {
namespace {

class Pool : public testing::Test {
 protected:
  static constexpr std::uint64_t kBlock = 4096;
  static constexpr std::uint32_t kBlocks = 6000;

  Pool() {
    for (std::uint32_t n = 0; n < kBlocks; ++n) {
      Key key;
      std::memcpy(key.bytes.data(), &n, sizeof n);
      ids_.push_back(table_.intern(key, kNoBlock, kBlock, kBlock));
      pool_.enter(ids_.back(), *pool_.take(kBlock), Presence::present);
    }
  }

  BlockTable table_;
  Outbox outbox_;
  MemoryPool pool_{
      {.tier = TierId::warm, .where = &Block::warm, .capacity_bytes = kBlocks * kBlock},
      table_,
      outbox_};
  std::vector<BlockId> ids_;
};

// A replay was once stopped by this: thousands of blocks at the old end were still being stored down, and the search for a
// victim gave up before it reached one that could go.
TEST_F(Pool, AVictimBehindThousandsOfPinnedBlocksIsFound) {
  for (std::uint32_t n = 0; n + 1 < kBlocks; ++n) pool_.pin(ids_[n]);
  EXPECT_EQ(pool_.available_bytes(), kBlock);
  EXPECT_TRUE(pool_.take(kBlock));
  EXPECT_FALSE(pool_.here(ids_.back()));
  EXPECT_EQ(pool_.available_bytes(), 0U);
  EXPECT_FALSE(pool_.take(kBlock));
}

TEST_F(Pool, WhatWasPassedOverWhilePinnedIsOldAgainOnceItIsNot) {
  pool_.pin(ids_[0]);
  pool_.pin(ids_[1]);
  ASSERT_TRUE(pool_.take(kBlock));  // Passes 0 and 1, takes 2.
  EXPECT_FALSE(pool_.here(ids_[2]));
  pool_.touch(ids_[0]);
  pool_.unpin(ids_[0]);
  pool_.unpin(ids_[1]);
  EXPECT_EQ(pool_.available_bytes(), (kBlocks - 1) * kBlock);
  ASSERT_TRUE(pool_.take(kBlock));
  EXPECT_FALSE(pool_.here(ids_[1])) << "still the oldest";
  ASSERT_TRUE(pool_.take(kBlock));
  EXPECT_TRUE(pool_.here(ids_[0])) << "touched while it was parked";
  EXPECT_FALSE(pool_.here(ids_[3]));
}

TEST_F(Pool, NobodyIsEvictedForARequestThatCannotBeMet) {
  for (std::uint32_t n = 0; n < kBlocks / 2; ++n) pool_.pin(ids_[n]);
  EXPECT_FALSE(pool_.take((kBlocks / 2 + 1) * kBlock));
  EXPECT_EQ(pool_.evicted_blocks(), 0U);
}

TEST_F(Pool, TheLeastRecentlyUsedGoesFirst) {
  pool_.touch(ids_[0]);
  ASSERT_TRUE(pool_.take(kBlock));
  EXPECT_TRUE(pool_.here(ids_[0]));
  EXPECT_FALSE(pool_.here(ids_[1]));
  EXPECT_EQ(outbox_.actions().back().key, table_[ids_[1]].key);
}

}  // namespace
}  // namespace tiercel
