// kill -9 of a process that uses the library, at any moment: everything it had acknowledged by sync() is back, and nothing
// wrong is served.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "cache/cache_harness.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kChains =
    100;  // 10 blocks each: 12 MB of records under a cap of 16, so nothing is reclaimed.

Chain nth_chain(const Cache& cache, std::uint64_t n) {
  return cache.chain(tokens_of(n, 9 * kTokens + 1 + n % kTokens));
}

// The process that is killed: puts chain after chain, and after each sync() writes how many are durable.
[[noreturn]] void put_until_killed(const CacheOptions& options, std::uint64_t first,
                                   int acknowledge) {
  auto cache = Cache::open(options);
  if (!cache) ::_exit(3);
  for (std::uint64_t n = first; n < kChains; ++n) {
    const Chain chain = nth_chain(*cache, n);
    const Prepared prepared = prepare(options, chain, 0, chain.size());
    const auto ticket = cache->put(chain, prepared.transaction);
    if (!ticket || !cache->wait(*ticket, std::chrono::seconds(30))) ::_exit(4);
    if (n % 3 == 2) {
      if (!cache->sync()) ::_exit(5);
      const std::uint64_t durable = n + 1;
      if (::write(acknowledge, &durable, sizeof durable) != sizeof durable) ::_exit(6);
    }
  }
  for (;;) ::pause();
}

TEST(CacheCrash, WhatSyncAcknowledgedSurvivesKillNine) {
  const TemporaryDirectory directory;
  CacheOptions options = small_cache(directory.path() + "/store");
  options.warm_bytes = 16 << 20;
  std::uint64_t durable = 0, kills_mid_way = 0;
  Rng rng(7);
  for (int life = 0; life < 8 && durable + 3 < kChains; ++life) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) put_until_killed(options, durable, pipe[1]);
    ::close(pipe[1]);
    const std::uint64_t enough = durable + 1 + rng.below(12);
    while (durable < enough && durable + 3 < kChains) {
      ASSERT_EQ(::read(pipe[0], &durable, sizeof durable), static_cast<ssize_t>(sizeof durable));
    }
    // Somewhere between this acknowledgement and the next.
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(8000)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    while (::read(pipe[0], &durable, sizeof durable) == static_cast<ssize_t>(sizeof durable)) {
    }
    ::close(pipe[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    ++kills_mid_way;

    auto cache = Cache::open(options);
    ASSERT_TRUE(cache) << cache.error().what;
    for (std::uint64_t n = 0; n < durable; ++n) {
      const Chain chain = nth_chain(*cache, n);
      ASSERT_EQ(read_chain(*cache, chain), chain.size())
          << "chain " << n << " of " << durable << " acknowledged";
    }
    // Of the others, whatever is found is right.
    for (std::uint64_t n = durable; n < std::min(durable + 6, kChains); ++n)
      read_chain(*cache, nth_chain(*cache, n));
    EXPECT_EQ(cache->stats().cold.corrupt, 0U);
  }
  EXPECT_GE(kills_mid_way, 3U);
}

}  // namespace
}  // namespace tiercel
