// Who leaves warm first. One eviction is forced, and a prompt must have lost its last block, whatever was done with it before:
// losing any other one would cost all blocks behind it.
#include <algorithm>

#include "cache/cache_harness.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kRoom = 20;       // Blocks that warm holds.
constexpr std::uint64_t kRecord = 12288;  // What a full block of small_cache() takes.

struct Small {
  explicit Small(bool with_cold = false)
      : options(small_cache(with_cold ? directory.path() + "/store" : "")),
        cache(
            (options.warm_bytes = options.staging_bytes = kRoom * kRecord, open_or_die(options))) {}

  PutOutcome put(const Chain& chain, std::uint32_t first, std::uint32_t position) {
    const Prepared prepared = prepare(options, chain, first, position);
    return cache.wait(*cache.put(chain, prepared.transaction), seconds(30))->put;
  }
  Chain chain(std::uint64_t prompt, std::uint32_t blocks) {
    return cache.chain(tokens_of(prompt, blocks * kTokens));
  }
  void put_foreign(std::uint32_t blocks) {
    EXPECT_EQ(put(chain(++foreign, blocks), 0, blocks), PutOutcome::stored);
    if (!options.directory.empty()) {
      EXPECT_TRUE(cache.sync());
    }
  }
  std::uint32_t position(const Chain& chain) { return cache.match(chain)->position(); }
  // For each block of the chain: 1 where a match finds it in warm.
  std::vector<int> in_warm(const Chain& chain) {
    std::vector<int> warm;
    const auto match = cache.match(chain);
    for (const MatchedBlock& block : match->blocks())
      warm.push_back(block.tier == CacheTier::warm ? 1 : 0);
    return warm;
  }

  const TemporaryDirectory directory;
  CacheOptions options;
  Cache cache;
  std::uint64_t foreign = 100;
};

TEST(CacheOrder, PutsOfAGrowingPromptLeaveItsLastBlockFirst) {
  Small small;
  const Chain chain = small.chain(1, kRoom);
  for (const auto& [first, position] : {std::pair(0U, 8U), {8U, 16U}, {16U, kRoom}})
    ASSERT_EQ(small.put(chain, first, position), PutOutcome::stored);
  small.put_foreign(1);
  EXPECT_EQ(small.position(chain), kRoom - 1);
}

TEST(CacheOrder, AFetchHeadFirstLeavesTheLastBlockFirst) {
  Small small;
  const Chain chain = small.chain(1, kRoom);
  ASSERT_EQ(small.put(chain, 0, kRoom), PutOutcome::stored);
  EXPECT_EQ(read_chain(small.cache, chain), kRoom);
  small.put_foreign(1);
  EXPECT_EQ(small.position(chain), kRoom - 1);
}

TEST(CacheOrder, AFetchBlockByBlockLeavesTheLastBlockFirst) {
  Small small;
  const Chain chain = small.chain(1, kRoom);
  ASSERT_EQ(small.put(chain, 0, kRoom), PutOutcome::stored);
  {
    const auto match = small.cache.match(chain);
    std::vector<std::byte> memory(8000);
    for (std::uint32_t i = 0; i < kRoom; ++i) {
      const std::vector<Destination> one = {
          {.block = i, .memory = {host_piece(std::span(memory))}}};
      ASSERT_TRUE(small.cache.wait(*small.cache.fetch(*match, one), seconds(30))->all_delivered());
    }
  }
  small.put_foreign(1);
  EXPECT_EQ(small.position(chain), kRoom - 1);
}

TEST(CacheOrder, AMatchAloneKeepsAPromptAndItsHeadLongest) {
  Small small;
  const Chain chain = small.chain(1, 10);
  ASSERT_EQ(small.put(chain, 0, 10), PutOutcome::stored);
  small.put_foreign(10);
  EXPECT_EQ(small.position(chain), 10U);
  small.put_foreign(10);
  EXPECT_EQ(small.position(chain), 10U) << "it was asked for after the ten that have left";
  small.put_foreign(11);
  EXPECT_EQ(small.position(chain), 9U);
}

TEST(CacheOrder, WhatCameBackFromColdLosesItsLastBlockFirst) {
  for (const bool by_prefetch : {false, true}) {
    SCOPED_TRACE(by_prefetch ? "prefetch" : "fetch");
    Small small(true);
    const Chain chain = small.chain(1, 10);
    ASSERT_EQ(small.put(chain, 0, 10), PutOutcome::stored);
    ASSERT_TRUE(small.cache.sync());
    small.put_foreign(10);
    small.put_foreign(10);
    if (by_prefetch) {
      ASSERT_EQ(*small.cache.prefetch(chain), 10U);
      // Any match would put things in order: wait for the loads by their own count.
      for (int i = 0; i < 1000 && small.cache.stats().cold.bytes_read < 10 * kRecord; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } else {
      ASSERT_EQ(read_chain(small.cache, chain), 10U);
    }
    small.put_foreign(10);
    small.put_foreign(1);
    std::vector<int> expected(10, 1);
    expected.back() = 0;
    EXPECT_EQ(small.in_warm(chain), expected);
  }
}

TEST(CacheOrder, APutNeverMakesRoomOutOfItsOwnHead) {
  Small small;
  const Chain chain = small.chain(1, kRoom), leased = small.chain(2, 10);
  ASSERT_EQ(small.put(chain, 0, 10), PutOutcome::stored);
  ASSERT_EQ(small.put(leased, 0, 10), PutOutcome::stored);
  const auto lease = small.cache.match(leased);
  EXPECT_EQ(small.put(chain, 0, kRoom), PutOutcome::skipped) << "only its own head could go";
  EXPECT_EQ(small.position(chain), 10U);
}

TEST(CacheOrder, OfAnEndedPromptTheLastBlockGoesFirst) {
  Small small;
  const Chain chain = small.chain(1, kRoom);
  ASSERT_EQ(small.put(chain, 0, kRoom), PutOutcome::stored);
  ASSERT_TRUE(small.cache.hint(chain, {.ends_from = 4}));
  small.put_foreign(1);
  EXPECT_EQ(small.position(chain), kRoom - 1);
}

}  // namespace
}  // namespace tiercel
