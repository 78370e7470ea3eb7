// The library door on a disk that refuses: the cache forgets, says so, and serves nothing wrong.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "cache/cache_harness.h"
#include "cache/cache_impl.h"
#include "io/faulty_disk.h"
#include "io/posix_disk.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

class CacheFaults : public testing::Test {
 protected:
  CacheFaults() : faulty_(posix_), options_(small_cache(directory_.path() + "/store")) {
    faulty_.hooks.on_request = [this](const IoRequest& request) -> std::optional<Error> {
      const bool refused = (request.type == IoType::sync && syncs_fail_) ||
                           (request.type == IoType::read && reads_fail_) ||
                           (request.type == IoType::write && writes_fail_);
      if (!refused) return std::nullopt;
      return fail(Errc::io, "the disk was told to refuse", 5);
    };
    faulty_.hooks.on_allocate = [this](const std::string&, std::uint64_t) -> std::optional<Error> {
      if (!full_) return std::nullopt;
      return fail(Errc::no_space, "the disk was told to be full", 28);
    };
  }
  Cache open() {
    auto cache = open_cache(options_, {.disk = &faulty_});
    EXPECT_TRUE(cache) << cache.error().what;
    return std::move(*cache);
  }
  // Blocks of the chain that a match finds in cold.
  static std::size_t in_cold(Cache& cache, const Chain& chain) {
    const auto match = cache.match(chain);
    std::size_t count = 0;
    for (const MatchedBlock& block : match->blocks())
      count += block.tier == CacheTier::cold ? 1 : 0;
    return count;
  }
  void push_out_of_warm(Cache& cache) { tiercel::push_out_of_warm(cache, options_); }

  const TemporaryDirectory directory_;
  PosixDisk posix_;
  FaultyDisk faulty_;
  CacheOptions options_;
  std::atomic<bool> syncs_fail_ = false, reads_fail_ = false, writes_fail_ = false, full_ = false;
};

TEST_F(CacheFaults, ASyncThatTheDiskRefusesIsToldAndColdTakesNoMoreStores) {
  Cache cache = open();
  const Chain before = cache.chain(tokens_of(1, 5 * kTokens)),
              after = cache.chain(tokens_of(2, 5 * kTokens));
  put_chain(cache, options_, before);
  ASSERT_TRUE(cache.sync());
  syncs_fail_ = true;
  put_chain(cache, options_, after);
  const auto refused = cache.sync();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::io) << refused.error().what;
  syncs_fail_ = false;
  EXPECT_FALSE(cache.sync()) << "trying again proves nothing";
  EXPECT_EQ(put_chain(cache, options_, cache.chain(tokens_of(3, 5 * kTokens))), PutOutcome::stored)
      << "warm goes on";
  EXPECT_GT(cache.stats().skipped_failed, 0U);
  push_out_of_warm(cache);
  EXPECT_EQ(in_cold(cache, before), 5U) << "what was durable is served";
  EXPECT_EQ(read_chain(cache, before), 5U);
  EXPECT_EQ(read_chain(cache, after), 0U) << "what was not is nowhere";
}

TEST_F(CacheFaults, AFullDiskDegradesToNotCached) {
  full_ = true;
  Cache cache = open();
  const Chain chain = cache.chain(tokens_of(4, 5 * kTokens));
  EXPECT_EQ(put_chain(cache, options_, chain), PutOutcome::stored);
  const auto refused = cache.sync();
  ASSERT_FALSE(refused) << "cold had admitted blocks that it then had no room for";
  EXPECT_EQ(refused.error().code, Errc::no_space) << refused.error().what;
  EXPECT_EQ(read_chain(cache, chain), 5U);
  EXPECT_GT(cache.stats().cold.errors, 0U);
  push_out_of_warm(cache);
  EXPECT_EQ(read_chain(cache, chain), 0U);
  EXPECT_FALSE(cache.sync()) << "of the blocks that pushed it out none is in cold";
  full_ = false;  // Room again: the store goes on.
  put_chain(cache, options_, chain);
  ASSERT_TRUE(cache.sync());
  push_out_of_warm(cache);
  EXPECT_EQ(read_chain(cache, chain), 5U);
}

TEST_F(CacheFaults, ASyncTellsOnceOfStoresToColdThatFailedSinceTheLastOne) {
  Cache cache = open();
  ASSERT_EQ(put_chain(cache, options_, cache.chain(tokens_of(6, 5 * kTokens))), PutOutcome::stored);
  ASSERT_TRUE(cache.sync());
  writes_fail_ = true;
  ASSERT_EQ(put_chain(cache, options_, cache.chain(tokens_of(7, 5 * kTokens))), PutOutcome::stored)
      << "in warm";
  const auto refused = cache.sync();
  ASSERT_FALSE(refused) << "what was put and admitted is not durable";
  EXPECT_EQ(refused.error().code, Errc::io);
  EXPECT_NE(refused.error().what.find("5 blocks"), std::string::npos) << refused.error().what;
  writes_fail_ = false;
  EXPECT_TRUE(cache.sync()) << "told once; nothing has failed since";
}

TEST_F(CacheFaults, AReadThatTheDiskRefusesIsAnErrorThenAMiss) {
  Cache cache = open();
  const Chain chain = cache.chain(tokens_of(5, 5 * kTokens));
  put_chain(cache, options_, chain);
  ASSERT_TRUE(cache.sync());
  push_out_of_warm(cache);
  auto match = cache.match(chain);
  ASSERT_TRUE(match);
  ASSERT_EQ(match->position(), 5U);
  reads_fail_ = true;
  EXPECT_EQ(fetch_match(cache, *match).failed, 5U);
  reads_fail_ = false;
  EXPECT_EQ(fetch_match(cache, *match).missed, 5U);
  EXPECT_EQ(read_chain(cache, chain), 0U);
  EXPECT_EQ(put_chain(cache, options_, chain), PutOutcome::stored);
  EXPECT_EQ(read_chain(cache, chain), 5U);
  EXPECT_EQ(cache.stats().errors, 5U);
}

TEST_F(CacheFaults, ALeaseOfAProcessThatDiedEndsLongBeforeItsTime) {
  auto opened = open_cache(options_, {.reap_every = std::chrono::milliseconds(1)});
  ASSERT_TRUE(opened) << opened.error().what;
  Cache& cache = *opened;
  const Chain chain = cache.chain(tokens_of(8, 5 * kTokens));
  put_chain(cache, options_, chain);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto own = cache.match(chain, {.lease_time = seconds(3600)});
  const auto theirs =
      cache.match(chain, {.lease_time = seconds(3600), .owner = "worker 7", .owner_pid = child});
  ASSERT_TRUE(theirs);
  EXPECT_EQ(cache.stats().leases, 2U);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto until = std::chrono::steady_clock::now() + seconds(30);
  while (cache.stats().leases > 1 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.leases, 1U) << "this process lives";
  EXPECT_EQ(stats.leases_leaked, 1U);
  ASSERT_EQ(stats.leaked.size(), 1U);
  EXPECT_NE(stats.leaked[0].find("worker 7"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
