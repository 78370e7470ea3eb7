// The fault matrix, as far as a user of the library meets it: each line one test whose first comment tells the story. Faults of
// the disk alone are in src/tier/nvme_faults_test.cc, power in tests/power, death of the process in tests/crash.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cache/cache_harness.h"
#include "cache/cache_impl.h"
#include "io/faulty_disk.h"
#include "io/posix_disk.h"
#include "io/sim_disk.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::size_t blocks_in(const Match& match, CacheTier tier) {
  std::size_t count = 0;
  for (const MatchedBlock& block : match.blocks()) count += block.tier == tier ? 1 : 0;
  return count;
}

// A server is killed and started again at once, before anybody noticed (Mooncake#3052: re-registration ignored, all data of the
// SSD dead). The lock died with the process, so the next one has the store and finds what was synced.
TEST(FaultMatrix, RestartAtOnceFindsEverything) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  const pid_t child = ::fork();
  if (child == 0) {
    Cache cache = open_or_die(options);
    put_chain(cache, options, cache.chain(tokens_of(1, 5 * kTokens)));
    static_cast<void>(cache.sync());
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  Cache cache = open_or_die(options);  // The very next thing.
  EXPECT_EQ(read_chain(cache, cache.chain(tokens_of(1, 5 * kTokens))), 5U);
}

// A lock file lies there, with the pid of a process long gone, perhaps by now somebody else's. It is no lock: only flock counts,
// and that ended with its process.
TEST(FaultMatrix, AStaleLockFileKeepsNobodyOut) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  open_or_die(options);
  std::ofstream(directory.path() + "/store/lock") << "tiercel pid 1\n";
  Cache cache = open_or_die(options);
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(1, 2 * kTokens))), PutOutcome::stored);
}

// Two servers are given one directory (sglang!31926: each truncated the other's files). The second is refused and told who has
// it; the first does not notice.
TEST(FaultMatrix, TwoWritersOnOneDirectoryAreOneAndARefusal) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache first = open_or_die(options);
  const Chain chain = first.chain(tokens_of(1, 5 * kTokens));
  put_chain(first, options, chain);
  const auto second = Cache::open(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_NE(second.error().what.find(std::to_string(::getpid())), std::string::npos)
      << second.error().what;
  ASSERT_TRUE(first.sync());
  push_out_of_warm(first, options);
  EXPECT_EQ(read_chain(first, chain), 5U);
}

// The clock is set back by an hour while leases are held and commits are due. Nothing is lost, nothing is leased for an hour
// longer than it was: what counts is how far time moved on, and the system's clock is monotonic anyway.
TEST(FaultMatrix, AClockThatJumpsBackwardsLosesNothing) {
  class Jumping final : public Clock {
   public:
    std::int64_t now_ns() const override { return now; }
    std::atomic<std::int64_t> now = 7'200'000'000'000;
  };
  const TemporaryDirectory directory;
  Jumping clock;
  CacheOptions options = small_cache(directory.path() + "/store");
  options.clock = &clock;
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 5 * kTokens));
  put_chain(cache, options, chain);
  auto match = cache.match(chain, {.lease_time = seconds(10), .owner = "early"});
  ASSERT_TRUE(match);
  clock.now -= 3'600'000'000'000;
  EXPECT_EQ(fetch_match(cache, *match).delivered, 5U);
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(2, 5 * kTokens))), PutOutcome::stored);
  ASSERT_TRUE(cache.sync());
  EXPECT_EQ(read_chain(cache, chain), 5U);
  match->release();
  EXPECT_EQ(cache.stats().leases, 0U) << "an owner's release needs no clock";
}

// The directory may only be read: a mount gone read-only, or another user's. One clear error that names it; on root's machines,
// where no permission holds anybody back, the simulated disk refuses.
TEST(FaultMatrix, AReadOnlyDirectoryIsOneClearError) {
  SimDisk disk;
  ASSERT_TRUE(disk.make_directory("/mnt/store"));
  disk.set_read_only("/mnt", true);
  const auto cache = open_cache(small_cache("/mnt/store"), {.disk = &disk});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Errc::io);
  EXPECT_NE(cache.error().what.find("/mnt/store"), std::string::npos) << cache.error().what;
  EXPECT_TRUE(disk.files().empty()) << "something was left behind";
}

// The directory is on tmpfs, where direct I/O was refused until lately and nothing survives a reboot. It works, buffered if need
// be, and a note says so.
TEST(FaultMatrix, ADirectoryOnTmpfsWorksAndSaysHow) {
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const std::string directory = "/dev/shm/tiercel-test-" + std::to_string(::getpid());
  const CacheOptions options = small_cache(directory);
  {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(1, 5 * kTokens));
    put_chain(cache, options, chain);
    ASSERT_TRUE(cache.sync());
    push_out_of_warm(cache, options);
    EXPECT_EQ(read_chain(cache, chain), 5U);
    EXPECT_FALSE(cache.stats().notes.empty());
  }
  fs::remove_all(directory);
}

// Somebody removes the directory of a running server (a clean-up job, a container's volume). What is open goes on; what needs a
// new file is not cached; nothing crashes, nothing wrong is served, and sync says that all is not well.
TEST(FaultMatrix, ADirectoryRemovedWhileOpenCostsStoresNotTheServer) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 5 * kTokens));
  put_chain(cache, options, chain);
  ASSERT_TRUE(cache.sync());
  fs::remove_all(directory.path() + "/store");
  push_out_of_warm(cache, options);  // Needs more segments than there are.
  EXPECT_FALSE(cache.sync());
  const auto match = cache.match(chain);
  ASSERT_TRUE(match);
  const Fetched fetched = fetch_match(cache, *match);
  EXPECT_EQ(fetched.wrong, 0U);
  EXPECT_EQ(fetched.delivered, match->blocks().size()) << "the file is still open";
}

// A quota below cold_bytes, of which the file system does not tell (Mooncake#3426: fs::space ignores it). Stores beyond it are
// refused by the disk: not cached, counted, and all that was stored is still there.
TEST(FaultMatrix, AQuotaBelowTheCapDegradesToNotCached) {
  SimDisk disk;
  CacheOptions options = small_cache("/store");
  disk.set_limits(1 << 30, 5 << 20);
  auto cache = open_cache(options, {.disk = &disk});
  ASSERT_TRUE(cache) << cache.error().what;
  const Chain chain = cache->chain(tokens_of(1, 5 * kTokens));
  put_chain(*cache, options, chain);
  ASSERT_TRUE(cache->sync());
  push_out_of_warm(*cache, options);
  const auto told = cache->sync();
  ASSERT_FALSE(told) << "the quota was hit: that must be told";
  EXPECT_EQ(told.error().code, Errc::no_space) << told.error().what;
  EXPECT_LE(disk.allocated_bytes("/store"), std::uint64_t{5} << 20);
  EXPECT_EQ(read_chain(*cache, chain), 5U);
}

// A disk of 50 MB/s, or one that is ill: waiting for it takes longer than computing the block again. The engine waits as long as
// that would take, takes its request back, recomputes; the late answer harms nobody and the cache goes on.
TEST(FaultMatrix, AgainstASlowDiskRecomputingWins) {
  const TemporaryDirectory directory;
  PosixDisk posix;
  FaultyDisk slow(posix);
  std::atomic<bool> stuck = false;
  slow.hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
    while (stuck && request.type == IoType::read) std::this_thread::sleep_for(milliseconds(1));
    return std::nullopt;
  };
  const CacheOptions options = small_cache(directory.path() + "/store");
  auto cache = open_cache(options, {.disk = &slow});
  ASSERT_TRUE(cache);
  const Chain chain = cache->chain(tokens_of(1, 5 * kTokens));
  put_chain(*cache, options, chain);
  ASSERT_TRUE(cache->sync());
  push_out_of_warm(*cache, options);
  auto match = cache->match(chain);
  ASSERT_TRUE(match);
  ASSERT_EQ(blocks_in(*match, CacheTier::cold), 5U);
  stuck = true;
  std::vector<std::byte> memory(8000);
  const Destination destination{.block = 0, .memory = {host_piece(std::span(memory))}};
  const auto fetch = cache->fetch(*match, std::span(&destination, 1));
  ASSERT_TRUE(fetch);
  const auto late = cache->wait(*fetch, milliseconds(5));  // Recomputing would have taken so long.
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::busy);
  cache->cancel(*fetch);
  stuck = false;
  const auto ended = cache->wait(*fetch, seconds(30));
  ASSERT_TRUE(ended) << "a ticket taken back still ends: until then the memory is the cache's";
  if (ended->blocks[0].outcome == Outcome::delivered) {
    EXPECT_EQ(memory, content_of(match->blocks()[0].key, 8000));
  }
  EXPECT_EQ(put_chain(*cache, options, chain), PutOutcome::known);
}

// Staging is full: stores are skipped and counted at once (LMCache#2942: allocate() span for ever). The engine recomputes later;
// it never waits here.
TEST(FaultMatrix, AFullStagingPoolIsSkippedAtOnce) {
  CacheOptions options = small_cache();
  options.staging_bytes = 3 * 12288;
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 8 * kTokens));
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::skipped);
  EXPECT_EQ(cache.stats().skipped_staging, 1U);
  const Chain small = cache.chain(tokens_of(2, 2 * kTokens));
  EXPECT_EQ(put_chain(cache, options, small), PutOutcome::stored) << "it goes on";
}

// A queued request is aborted before it ran (vllm#49118: that killed the engine). Its fetch and its put each end once, as
// cancelled or as done, and nothing of a cancelled put is to be seen.
TEST(FaultMatrix, AbortWhileQueuedEndsEveryTicketOnce) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 20 * kTokens));
  put_chain(cache, options, chain);
  auto match = cache.match(chain);
  ASSERT_TRUE(match);
  std::vector<std::byte> memory(8000 * match->blocks().size());
  for (int round = 0; round < 50; ++round) {
    std::vector<Destination> destinations;
    for (std::uint32_t i = 0; i < match->blocks().size(); ++i)
      destinations.push_back(
          {.block = i, .memory = {host_piece(std::span(memory).subspan(8000 * i, 8000))}});
    const auto fetch = cache.fetch(*match, destinations);
    const Chain other = cache.chain(tokens_of(100 + static_cast<std::uint64_t>(round), kTokens));
    const Prepared prepared = prepare(options, other, 0, 1);
    const auto put = cache.put(other, prepared.transaction);
    ASSERT_TRUE(fetch && put);
    cache.cancel(*fetch);
    cache.cancel(*put);
    const auto fetched = cache.wait(*fetch, seconds(30));
    const auto stored = cache.wait(*put, seconds(30));
    ASSERT_TRUE(fetched && stored);
    for (std::size_t i = 0; i < fetched->blocks.size(); ++i) {
      const BlockOutcome& block = fetched->blocks[i];
      if (block.outcome == Outcome::delivered) {
        EXPECT_TRUE(std::ranges::equal(std::span(memory).subspan(8000 * i, 8000),
                                       content_of(match->blocks()[i].key, 8000)));
      } else {
        EXPECT_EQ(block.error.code, Errc::cancelled);
      }
    }
    const bool visible = cache.match(other)->position() == 1;
    EXPECT_EQ(visible, stored->put == PutOutcome::stored || stored->put == PutOutcome::known);
    EXPECT_FALSE(cache.poll(*fetch)) << "its result was taken";
  }
}

// A crash leaves shared memory behind, the next start fails on it, 70 restarts in three hours (qwen38-27b-rtx3090#33). Our memory
// has no name: it is gone with the process.
TEST(FaultMatrix, ACrashLeavesNoSharedMemoryBehind) {
  const auto names = [] {
    std::vector<std::string> all;
    for (const char* place : {"/dev/shm", "/dev/mqueue"}) {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(place, ignored))
        if (entry.path().string().find("tiercel") != std::string::npos &&
            entry.path().string().find("tiercel-test-") == std::string::npos)
          all.push_back(entry.path());
    }
    return all;
  };
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  for (int life = 0; life < 3; ++life) {
    const pid_t child = ::fork();
    if (child == 0) {
      Cache cache = open_or_die(options);
      put_chain(cache, options, cache.chain(tokens_of(1, 5 * kTokens)));
      ::raise(SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(names().empty()) << names().front();
  }
  open_or_die(options);
}

}  // namespace
}  // namespace tiercel
