// The library door on real tiers, one behaviour at a time. Threads and crashes have files of their own.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cache/cache_harness.h"
#include "cache/cache_impl.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Twice what warm holds, and all of it durable.
void push_out_and_sync(Cache& cache, const CacheOptions& options) {
  push_out_of_warm(cache, options, 70);
  EXPECT_TRUE(cache.sync());
}

TEST(Cache, WhatWasPutIsMatchedAndFetchedPartialTailIncluded) {
  const CacheOptions options = hybrid_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 5 * kTokens + 7));
  ASSERT_EQ(chain.size(), 6U);
  EXPECT_EQ(read_chain(cache, chain), 0U);
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
  auto match = cache.match(chain);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->position(), 6U);
  EXPECT_EQ(match->tokens(), 5U * kTokens + 7);
  // 6 of attention, the window of 40 tokens reaches back to block 2, one state.
  EXPECT_EQ(match->blocks().size(), 6U + 4 + 1);
  const Fetched fetched = fetch_match(cache, *match);
  EXPECT_EQ(fetched.delivered, 11U);
  EXPECT_EQ(fetched.wrong, 0U);
  EXPECT_EQ(cache.stats().warm.hits, 11U);
}

TEST(Cache, APartialBlockNeverStandsForTheFullOne) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const auto tokens = tokens_of(2, 2 * kTokens);
  const Chain partial = cache.chain(std::span(tokens).first(kTokens + 9));
  const Chain full = cache.chain(tokens);
  put_chain(cache, options, partial);
  EXPECT_EQ(read_chain(cache, full), 1U) << "the first block is common, the second is another one";
  EXPECT_EQ(read_chain(cache, partial), 2U);
}

TEST(Cache, EnginesOwnHashesNameBlocksApartFromTokens) {
  CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const auto tokens = tokens_of(3, kTokens);
  const std::span<const std::byte> hash = std::as_bytes(std::span(tokens));
  const Chain by_hash = cache.chain(std::span(&hash, 1), kTokens);
  put_chain(cache, options, by_hash);
  EXPECT_EQ(read_chain(cache, by_hash), 1U);
  EXPECT_EQ(read_chain(cache, cache.chain(tokens)), 0U);
  options.tenant_salt = {std::byte{1}};
  Cache other = open_or_die(options);
  EXPECT_NE(other.chain(tokens).key(0, 0), cache.chain(tokens).key(0, 0));
}

TEST(Cache, ASecondPutOfTheSameBlocksStoresNothing) {
  const CacheOptions options = hybrid_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(4, 4 * kTokens));
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
  const CacheStats before = cache.stats();
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::known);
  const CacheStats after = cache.stats();
  EXPECT_EQ(after.warm.used_bytes, before.warm.used_bytes);
  EXPECT_EQ(after.warm.bytes_written, before.warm.bytes_written);
  EXPECT_EQ(after.known_blocks, 4U + 4 + 1);
}

TEST(Cache, WhatHasLeftWarmComesBackFromColdAndStaysInWarm) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(5, 6 * kTokens + 3));
  ASSERT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
  push_out_and_sync(cache, options);
  auto match = cache.match(chain);
  ASSERT_TRUE(match);
  ASSERT_EQ(match->position(), 7U);
  for (const MatchedBlock& block : match->blocks()) EXPECT_EQ(block.tier, CacheTier::cold);
  Fetched fetched = fetch_match(cache, *match);
  EXPECT_EQ(fetched.delivered, 7U);
  EXPECT_EQ(fetched.wrong, 0U);
  match = cache.match(chain);
  for (const MatchedBlock& block : match->blocks()) EXPECT_EQ(block.tier, CacheTier::warm);
  fetched = fetch_match(cache, *match);
  EXPECT_EQ(fetched.wrong, 0U);
  EXPECT_GT(cache.stats().cold.link.write_bytes_per_s, 0);
}

TEST(Cache, PrefetchBringsToWarmWhatIsCold) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(6, 5 * kTokens));
  put_chain(cache, options, chain);
  push_out_and_sync(cache, options);
  const auto started = cache.prefetch(chain);
  ASSERT_TRUE(started);
  EXPECT_EQ(*started, 5U);
  const auto all_warm = [&] {
    const auto match = cache.match(chain);
    return std::ranges::all_of(match->blocks(),
                               [](const auto& block) { return block.tier == CacheTier::warm; });
  };
  for (int i = 0; i < 1000 && !all_warm(); ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(all_warm());
  EXPECT_EQ(read_chain(cache, chain), 5U);
}

TEST(Cache, ARestartFindsWhatWasSyncedAndLeavesStrangersAlone) {
  const TemporaryDirectory directory;
  const CacheOptions options = hybrid_cache(directory.path() + "/store");
  CacheOptions other = options;
  for (CachedKind& kind : other.kinds) kind.fingerprint = fingerprint_of("another model");
  const auto tokens = tokens_of(7, 9 * kTokens + 1);
  {
    Cache cache = open_or_die(options);
    put_chain(cache, options, cache.chain(tokens));
    ASSERT_TRUE(cache.sync());
    EXPECT_TRUE(cache.close());
    EXPECT_TRUE(cache.close()) << "again: nothing more to do";
    EXPECT_FALSE(cache.match(cache.chain(tokens)));
    EXPECT_EQ(cache.stats().stored_blocks, 10U + 10 + 1);
  }
  {
    Cache cache = open_or_die(other);
    EXPECT_EQ(cache.stats().recovered_blocks, 0U);
    EXPECT_EQ(cache.stats().stranger_records, 21U);
    EXPECT_EQ(read_chain(cache, cache.chain(tokens)), 0U);
    put_chain(cache, other, cache.chain(tokens));
    ASSERT_TRUE(cache.sync());
    EXPECT_EQ(read_chain(cache, cache.chain(tokens)), 10U);
  }
  Cache cache = open_or_die(options);
  EXPECT_EQ(cache.stats().recovered_blocks, 21U);
  EXPECT_EQ(read_chain(cache, cache.chain(tokens)), 10U);
  // The tree is known again: a longer prompt goes on where this one ended.
  auto more = tokens;
  more.resize(9 * kTokens);
  const auto tail = tokens_of(8, 3 * kTokens);
  more.insert(more.end(), tail.begin(), tail.end());
  const Chain longer = cache.chain(more);
  EXPECT_EQ(put_chain(cache, options, longer, 9), PutOutcome::stored);
  EXPECT_EQ(read_chain(cache, longer), 12U);
}

TEST(Cache, ALeaseKeepsBlocksUntilItIsReleasedOrExpires) {
  TestClock clock;
  CacheOptions options = small_cache();
  options.clock = &clock;
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(9, 4 * kTokens));
  put_chain(cache, options, chain);
  auto match = cache.match(chain, {.kinds = {}, .lease_time = seconds(5), .owner = "the test"});
  ASSERT_TRUE(match);
  EXPECT_EQ(cache.stats().leases, 1U);
  push_out_and_sync(cache, options);
  EXPECT_EQ(fetch_match(cache, *match).delivered, 4U)
      << "70 chains went by; these blocks are leased";

  clock.advance(seconds(6));
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(10, kTokens))), PutOutcome::stored);
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.leases, 0U);
  EXPECT_EQ(stats.leases_leaked, 1U);
  ASSERT_EQ(stats.leaked.size(), 1U);
  EXPECT_NE(stats.leaked[0].find("the test"), std::string::npos) << stats.leaked[0];
  push_out_and_sync(cache, options);
  for (std::uint64_t n = 2000; n < 2070; ++n)
    put_chain(cache, options, cache.chain(tokens_of(n, 10 * kTokens)));
  EXPECT_EQ(fetch_match(cache, *match).missed, 4U)
      << "without the lease they are gone: a miss, no error";
  match->release();  // Too late, and harmless.

  auto second = cache.match(cache.chain(tokens_of(2069, 10 * kTokens)));
  ASSERT_TRUE(second);
  EXPECT_EQ(cache.stats().leases, 1U);
  Match moved = std::move(*second);
  moved = Match();
  EXPECT_EQ(cache.stats().leases, 0U);
  EXPECT_EQ(cache.stats().leases_leaked, 1U);
}

TEST(Cache, WhereAllOfWarmIsLeasedAPutIsSkippedNotWaitedFor) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  std::vector<Match> held;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const Chain chain = cache.chain(tokens_of(n, 10 * kTokens));
    if (put_chain(cache, options, chain) != PutOutcome::stored) break;
    held.push_back(*cache.match(chain));
  }
  const Chain chain = cache.chain(tokens_of(99, 10 * kTokens));
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::skipped);
  EXPECT_GT(cache.stats().skipped_space, 0U);
  EXPECT_EQ(read_chain(cache, chain), 0U) << "nothing of it is visible";
  held.clear();
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
}

TEST(Cache, AFullStagingPoolMeansSkipped) {
  CacheOptions options = small_cache();
  options.staging_bytes = 40 << 10;  // Three records of 12 KiB.
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(11, 4 * kTokens));
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::skipped);
  EXPECT_EQ(cache.stats().skipped_staging, 1U);
  EXPECT_EQ(cache.stats().stored_blocks, 0U);
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(11, 3 * kTokens))), PutOutcome::stored);
}

TEST(Cache, AFlippedBitIsAnErrorThenAMissAndNeverDelivered) {
  const TemporaryDirectory directory;
  const std::string store = directory.path() + "/store";
  const CacheOptions options = small_cache(store);
  const auto tokens = tokens_of(12, 8 * kTokens);
  {
    Cache cache = open_or_die(options);
    put_chain(cache, options, cache.chain(tokens));
    ASSERT_TRUE(cache.sync());
  }
  Cache cache = open_or_die(options);  // Its first look finds everything good.
  // One bit in the body of the fourth record: header page, then 12 KiB each, their first 4 KiB the head.
  const std::string segment = store + "/segment-00000000";
  std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file) << segment;
  const std::streamoff at = 4096 + 3 * 12288 + 4096 + 1234;
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(at);
  file.put(byte);
  file.close();

  const Chain chain = cache.chain(tokens);
  auto match = cache.match(chain);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->position(), 8U) << "nobody knows yet";
  Fetched fetched = fetch_match(cache, *match);
  EXPECT_EQ(fetched.delivered, 7U);
  EXPECT_EQ(fetched.failed, 1U);
  EXPECT_EQ(fetched.wrong, 0U);
  EXPECT_GE(cache.stats().cold.corrupt, 1U);
  fetched = fetch_match(cache, *match);  // Although the lease is still held.
  EXPECT_EQ(fetched.delivered, 7U);
  EXPECT_EQ(fetched.missed, 1U);
  EXPECT_EQ(read_chain(cache, chain), 3U) << "a prompt is now cached up to the hole";
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored) << "and the engine fills it";
  EXPECT_EQ(read_chain(cache, chain), 8U);
}

TEST(Cache, TheDirectoryNeverTakesMoreThanItsCap) {
  const TemporaryDirectory directory;
  const std::string store = directory.path() + "/store";
  const CacheOptions options = small_cache(store);
  Cache cache = open_or_die(options);
  std::uint64_t peak = 0;
  for (std::uint64_t n = 0; n < 400; ++n) {
    put_chain(cache, options, cache.chain(tokens_of(n, 10 * kTokens)));
    if (n % 40 != 39) continue;
    ASSERT_TRUE(cache.sync());
    std::uint64_t taken = 0;
    for (const auto& entry : std::filesystem::directory_iterator(store)) {
      struct stat status {};
      ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
      taken += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    ASSERT_LE(taken, options.cold_bytes);
    peak = std::max(peak, taken);
  }
  EXPECT_GT(peak, options.cold_bytes * 8 / 10) << "the cap was never near";
  const CacheStats stats = cache.stats();
  EXPECT_GT(stats.cold_evicted_blocks, 1000U) << "48 MB went through 16";
  EXPECT_EQ(stats.cold.errors, 0U);
  EXPECT_EQ(read_chain(cache, cache.chain(tokens_of(399, 10 * kTokens))), 10U);
}

TEST(Cache, AnEndedPromptGoesFirstButNotWhatOthersShare) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const auto common = tokens_of(20, 4 * kTokens);
  auto first = common, second = common;
  for (const std::uint32_t token : tokens_of(21, 4 * kTokens)) first.push_back(token);
  for (const std::uint32_t token : tokens_of(22, 4 * kTokens)) second.push_back(token);
  const Chain ended = cache.chain(first), alive = cache.chain(second);
  put_chain(cache, options, alive);
  put_chain(cache, options, cache.chain(tokens_of(23, 4 * kTokens)));  // Older than the next one.
  Prepared prepared = prepare(options, ended, 0, ended.size());
  prepared.transaction.hints = {.ends_from = 0, .ttl = seconds(1)};
  ASSERT_TRUE(cache.wait(*cache.put(ended, prepared.transaction), seconds(30)));
  EXPECT_EQ(cache.stats().hints_ended, 1U);
  EXPECT_EQ(cache.stats().hints_ttl_unused, 1U);
  // Fill warm until four blocks have to go: 341 records of 12 KiB fit, 16 are there.
  for (std::uint64_t n = 0; n < 32; ++n)
    put_chain(cache, options, cache.chain(tokens_of(100 + n, 10 * kTokens)));
  put_chain(cache, options, cache.chain(tokens_of(200, 9 * kTokens)));
  EXPECT_EQ(read_chain(cache, alive), 8U);
  EXPECT_EQ(read_chain(cache, ended), 4U) << "what it shared is still there, its own end is not";
  EXPECT_EQ(read_chain(cache, cache.chain(tokens_of(23, 4 * kTokens))), 4U);
}

TEST(Cache, CallbacksAndTicketsEachGiveTheResultOnce) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(30, 3 * kTokens));
  const Prepared prepared = prepare(options, chain, 0, 3);
  std::atomic<int> called = 0;
  const auto by_callback = cache.put(chain, prepared.transaction, [&](const Finished& finished) {
    EXPECT_EQ(finished.put, PutOutcome::stored);
    ++called;
  });
  ASSERT_TRUE(by_callback);
  for (int i = 0; i < 1000 && called == 0; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(called, 1);
  EXPECT_FALSE(cache.poll(*by_callback)) << "it went to the callback";
  const auto ticket = cache.put(chain, prepared.transaction);
  EXPECT_TRUE(cache.wait(*ticket, seconds(30)));
  EXPECT_FALSE(cache.wait(*ticket, seconds(1))) << "it was taken";
  EXPECT_FALSE(cache.poll(12345));
}

TEST(Cache, ACancelledTicketStillEndsAndShowsNothingOfItsPut) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain cold = cache.chain(tokens_of(40, 10 * kTokens));
  put_chain(cache, options, cold);
  push_out_and_sync(cache, options);
  std::uint64_t taken_back = 0;
  for (std::uint64_t n = 0; n < 50; ++n) {
    const Chain chain = cache.chain(tokens_of(3000 + n, 10 * kTokens));
    const Prepared prepared = prepare(options, chain, 0, 10);
    const auto put = cache.put(chain, prepared.transaction);
    cache.cancel(*put);
    const auto stored = cache.wait(*put, seconds(30));
    ASSERT_TRUE(stored);
    EXPECT_EQ(read_chain(cache, chain), stored->put == PutOutcome::stored ? 10U : 0U);
    if (stored->put == PutOutcome::failed) {
      EXPECT_EQ(stored->error.code, Errc::cancelled);
    }

    auto match = cache.match(cold);
    std::vector<std::byte> memory(10 * 8000);
    std::vector<Destination> destinations;
    for (std::uint32_t i = 0; i < match->blocks().size(); ++i) {
      destinations.push_back(
          {.block = i, .memory = {host_piece(std::span(memory).subspan(i * 8000, 8000))}});
    }
    const auto fetch = cache.fetch(*match, destinations);
    cache.cancel(*fetch);
    const auto finished = cache.wait(*fetch, seconds(30));
    ASSERT_TRUE(finished);
    for (std::size_t i = 0; i < finished->blocks.size(); ++i) {
      const BlockOutcome& block = finished->blocks[i];
      if (block.outcome == Outcome::error) {
        EXPECT_EQ(block.error.code, Errc::cancelled) << block.error.what;
        ++taken_back;
      } else if (block.outcome == Outcome::delivered) {
        const auto expected = content_of(cold.key(0, static_cast<std::uint32_t>(i)), 8000);
        EXPECT_EQ(std::memcmp(memory.data() + i * 8000, expected.data(), 8000), 0);
      }
    }
  }
  EXPECT_GT(taken_back, 0U);
}

TEST(Cache, TwoCachesShareOneAccountOfMemory) {
  Ledger ledger(6 << 20);
  const auto first = open_cache(small_cache(), {.ledger = &ledger});
  ASSERT_TRUE(first);
  const auto second = open_cache(small_cache(), {.ledger = &ledger});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::no_space);
}

}  // namespace
}  // namespace tiercel
