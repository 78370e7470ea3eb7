// The library door from several threads at once: what one thread sees of another's transactions, and that every byte is right.
// TSan runs this.
#include <thread>

#include "cache/cache_harness.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRounds = 60;
#else
constexpr std::uint64_t kRounds = 300;
#endif

// One thread puts positions of hybrid prompts, others match by single kinds: as soon as one kind of a position can be seen, so
// can the others.
TEST(CacheThreads, AMatchNeverSeesAPartOfATransaction) {
  CacheOptions options = hybrid_cache();
  options.warm_bytes = 64 << 20;  // Nothing is evicted: what vanishes here was never whole.
  auto cache = Cache::open(options);
  ASSERT_TRUE(cache);
  std::vector<Chain> chains;
  for (std::uint64_t n = 0; n < kRounds; ++n)
    chains.push_back(cache->chain(tokens_of(n, 4 * kTokens)));
  std::atomic<std::uint64_t> latest = 0;
  std::atomic<std::uint64_t> seen_whole = 0, seen_nothing = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> watchers;
  for (int w = 0; w < 3; ++w) {
    watchers.emplace_back([&, w] {
      // Kinds in different order, so that whichever became visible first would be caught alone.
      const std::uint16_t first = static_cast<std::uint16_t>(w),
                          second = static_cast<std::uint16_t>((w + 1) % 3);
      while (!over) {
        const Chain& chain = chains[latest];
        const auto one = cache->match(chain, {.kinds = {first}, .lease_time = {}, .owner = {}});
        const auto other = cache->match(chain, {.kinds = {second}, .lease_time = {}, .owner = {}});
        ASSERT_TRUE(one && other);
        if (one->position() > 0) {
          ASSERT_EQ(one->position(), 4U);
          ASSERT_EQ(other->position(), 4U)
              << "kind " << first << " was visible before kind " << second;
          ++seen_whole;
        } else {
          ++seen_nothing;
        }
      }
    });
  }
  for (std::uint64_t n = 0; n < kRounds; ++n) {
    latest = n;
    const Prepared prepared = prepare(options, chains[n], 0, 4);
    const auto ticket = cache->put(chains[n], prepared.transaction);
    ASSERT_TRUE(ticket);
    const auto finished = cache->wait(*ticket, seconds(60));
    ASSERT_TRUE(finished);
    ASSERT_EQ(finished->put, PutOutcome::stored);
  }
  over = true;
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_GT(seen_whole, 0U);
}

TEST(CacheThreads, FourThreadsPutMatchFetchAndSyncAndEveryByteIsRight) {
  const TemporaryDirectory directory;
  const CacheOptions options = hybrid_cache(directory.path() + "/store");
  std::atomic<std::uint64_t> delivered = 0, from_cold = 0, wrong = 0, failed = 0;
  {
    auto cache = Cache::open(options);
    ASSERT_TRUE(cache);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Rng rng(t);
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          // Prompts of 20 families with a common first half.
          const std::uint64_t family = rng.below(20), member = rng.below(8);
          auto tokens = tokens_of(family, 5 * kTokens);
          for (const std::uint32_t token : tokens_of(1000 + family * 8 + member, 5 * kTokens))
            tokens.push_back(token);
          tokens.resize(tokens.size() - rng.below(2) * 5);
          const Chain chain = cache->chain(tokens);
          auto match = cache->match(chain);
          ASSERT_TRUE(match);
          const Fetched fetched = fetch_match(*cache, *match);
          delivered += fetched.delivered;
          wrong += fetched.wrong;
          failed += fetched.failed + fetched.missed;
          for (const MatchedBlock& block : match->blocks())
            from_cold += block.tier == CacheTier::cold ? 1 : 0;
          match->release();
          if (match->position() < chain.size())
            put_chain(*cache, options, chain, match->position());
          if (rng.chance(0.03)) {
            ASSERT_TRUE(cache->sync());
          }
          if (rng.chance(0.05)) {
            ASSERT_TRUE(cache->hint(chain, {.ends_from = 5}));
          }
          if (rng.chance(0.05)) {
            ASSERT_TRUE(cache->prefetch(chain));
          }
          if (rng.chance(0.05)) static_cast<void>(cache->stats());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const CacheStats stats = cache->stats();
    EXPECT_EQ(stats.leases, 0U);
    EXPECT_EQ(stats.warm.errors + stats.cold.errors, 0U);
    EXPECT_EQ(stats.delivered, delivered);
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(failed, 0U) << "leases keep what was matched";
  EXPECT_GT(delivered, kRounds);
  EXPECT_GT(from_cold, 0U);
}

TEST(CacheThreads, ClosingUnderLoadEndsEveryTicketAndEveryLaterCall) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  for (std::uint64_t round = 0; round < 5; ++round) {
    auto cache = Cache::open(options);
    ASSERT_TRUE(cache);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t n = 0;; ++n) {
          const Chain chain =
              cache->chain(tokens_of(round * 1000 + t * 100 + n % 100, 4 * kTokens));
          const Prepared prepared = prepare(options, chain, 0, 4);
          const auto ticket = cache->put(chain, prepared.transaction);
          if (!ticket) {
            EXPECT_EQ(ticket.error().code, Errc::cancelled) << ticket.error().what;
            return;
          }
          EXPECT_TRUE(cache->wait(*ticket, seconds(60)))
              << "a ticket that was given ends, also while closing";
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::thread other([&] { EXPECT_TRUE(cache->close()); });
    EXPECT_TRUE(cache->close());
    other.join();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tiercel
