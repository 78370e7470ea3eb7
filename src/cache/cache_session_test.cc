// Sessions through the library door: put to bed in the evening, got up in the morning, whatever the cache did in between.
#include "cache/cache_session_harness.h"
#include "io/temporary_directory.h"
#include "kv/record.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

// Ten times as many bytes as the cache class holds.
void overwrite(Cache& cache, const CacheOptions& options, int times) {
  std::uint64_t written = 0;
  const std::uint64_t target = times * (options.cold_bytes - options.session_bytes);
  for (std::uint64_t n = 10'000; written < target; ++n) {
    const Chain chain = cache.chain(tokens_of(n, 40 * kTokens));
    const Prepared prepared = prepare(options, chain, 0, chain.size());
    for (const auto& block : prepared.memory) written += record_bytes(block.size());
    const auto ticket = cache.put(chain, prepared.transaction);
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(cache.wait(*ticket, seconds(30)));
    if (n % 4 != 0) continue;
    ASSERT_TRUE(cache.sync()) << "or warm would run ahead of the disk";
  }
  ASSERT_GT(cache.stats().cold_evicted_blocks, 1000U);
}

TEST(CacheSession, IsThereInTheMorningThoughTheCacheWasOverwrittenTenTimes) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(hybrid_cache(directory.path() + "/store"));
  Bedtime bed;
  {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(1, 20 * kTokens + 7));
    bed = bedtime(options, chain);
    const auto info = cache.suspend("evening", chain, bed.suspension);
    ASSERT_TRUE(info) << info.error().what;
    EXPECT_EQ(info->version, 1U);
    EXPECT_EQ(info->position, 21U);
    EXPECT_EQ(info->token_count, 20U * kTokens + 7);
    EXPECT_EQ(info->blocks, 21U + 4 + 1) << "attention, the window of 40 tokens, one state";
    overwrite(cache, options, 10);
    ASSERT_TRUE(cache.close());
  }
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 20 * kTokens + 7));
  EXPECT_EQ(cache.match(chain)->position(), 0U) << "the cache class has forgotten it long ago";
  ASSERT_EQ(cache.sessions()->size(), 1U);
  expect_resumes(cache, "evening", bed, 26);
  EXPECT_EQ(cache.stats().sessions, 1U);
  EXPECT_GT(cache.stats().session_bytes, 26U * 8192);
  EXPECT_EQ(cache.stats().session_capacity, options.session_bytes);
}

TEST(CacheSession, TakesItsBlocksFromSourcesFromTheCacheAndFromOtherSessions) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(hybrid_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  const auto tokens = tokens_of(2, 12 * kTokens);
  const Chain whole = cache.chain(tokens);
  const Chain half = cache.chain(std::span(tokens).first(6 * kTokens));
  // The first half lies in cold alone, pushed out of warm.
  ASSERT_EQ(put_chain(cache, options, half), PutOutcome::stored);
  ASSERT_TRUE(cache.sync());
  for (std::uint64_t n = 1000; n < 1050; ++n)
    put_chain(cache, options, cache.chain(tokens_of(n, 10 * kTokens)));
  ASSERT_TRUE(cache.sync());
  const auto match = cache.match(half);
  ASSERT_EQ(match->position(), 6U);
  ASSERT_EQ(match->blocks()[0].tier, CacheTier::cold);
  Bedtime bed = bedtime(options, half, false);
  const auto from_cold = cache.suspend("half", half, bed.suspension);
  ASSERT_TRUE(from_cold) << from_cold.error().what;
  EXPECT_EQ(from_cold->blocks, 6U + 4 + 1 - 1);  // The window of 40 tokens has 3 blocks here.
  // The first half now comes from the session, the second from the caller.
  Bedtime all = bedtime(options, whole);
  std::erase_if(all.suspension.blocks,
                [](const PutBlock& block) { return block.kind == kFull && block.index < 6; });
  const auto mixed = cache.suspend("whole", whole, all.suspension);
  ASSERT_TRUE(mixed) << mixed.error().what;
  expect_resumes(cache, "half", bed, 10);
  expect_resumes(cache, "whole", all, 12 + 3 + 1);
  // What nobody has is named.
  const Chain nowhere = cache.chain(tokens_of(3, 4 * kTokens));
  const auto refused = cache.suspend("nowhere", nowhere, {.position = 4});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_NE(refused.error().what.find("block 0 of kind 0"), std::string::npos)
      << refused.error().what;
  EXPECT_EQ(cache.sessions()->size(), 2U);
}

TEST(CacheSession, GrowsByItsNewBlocksAlone) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  const auto tokens = tokens_of(4, 30 * kTokens);
  const Chain first = cache.chain(std::span(tokens).first(20 * kTokens + 3));
  const Chain grown = cache.chain(tokens);
  Bedtime bed = bedtime(options, first);
  ASSERT_TRUE(cache.suspend("s", first, bed.suspension));
  Bedtime again = bedtime(options, grown);
  std::erase_if(again.suspension.blocks, [](const PutBlock& block) { return block.index < 20; });
  const auto info = cache.suspend("s", grown, again.suspension);
  ASSERT_TRUE(info) << info.error().what;
  EXPECT_EQ(info->version, 2U);
  expect_resumes(cache, "s", again, 30);
}

TEST(CacheSession, BlocksThatLieInWarmComeFromThere) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(5, 8 * kTokens));
  const Chain half = cache.chain(tokens_of(5, 4 * kTokens));
  Bedtime bed = bedtime(options, chain);
  ASSERT_TRUE(cache.suspend("s", chain, bed.suspension));
  put_chain(cache, options, half);
  auto resumption = cache.resume("s");
  ASSERT_TRUE(resumption);
  for (std::uint32_t i = 0; i < 8; ++i)
    EXPECT_EQ(resumption->plan[i].tier, i < 4 ? SessionTier::warm : SessionTier::session) << i;
  const std::uint64_t before = cache.stats().delivered;
  EXPECT_EQ(load_all(cache, *resumption).delivered, 8U);
  EXPECT_EQ(cache.stats().delivered, before + 4);
  // Where it leaves warm between plan and load, the session has it.
  for (std::uint64_t n = 1000; n < 1050; ++n)
    put_chain(cache, options, cache.chain(tokens_of(n, 10 * kTokens)));
  const Loaded loaded = load_all(cache, *resumption);
  EXPECT_EQ(loaded.delivered, 8U);
  EXPECT_EQ(loaded.wrong, 0U);
}

TEST(CacheSession, AnEstimateIsMeasuredOrThereIsNone) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(6, 100 * kTokens));
  Bedtime bed = bedtime(options, chain);
  bed.suspension.tokens = {};
  bed.suspension.state = {};
  ASSERT_TRUE(cache.suspend("s", chain, bed.suspension));
  const auto first = cache.resume("s");
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->estimate_s.has_value()) << "nothing was read yet";
  EXPECT_NE(first->basis.find("none"), std::string::npos);
  // The meter tells once it has seen 8 MiB, or 20 ms of work.
  for (int i = 0; i < 20 && !cache.resume("s")->estimate_s; ++i)
    EXPECT_EQ(load_all(cache, *first).delivered, 100U);
  const auto second = cache.resume("s");
  ASSERT_TRUE(second->estimate_s.has_value());
  EXPECT_EQ(second->basis, "measured");
  EXPECT_GT(*second->estimate_s, 0.0);
}

}  // namespace
}  // namespace tiercel
