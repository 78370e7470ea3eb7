// What users of tiered KV caches have reported elsewhere, kind by kind: each test tells one such story and shows that it ends
// otherwise here. A wrong bytes, B isolation, C restart, D disk full, E leaks, F crashes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cache/cache_harness.h"
#include "cache/cache_impl.h"
#include "io/sim_disk.h"
#include "io/temporary_directory.h"
#include "tier/segment_format.h"

namespace tiercel {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::uint64_t disk_use(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) == 0)
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

// Exchanges two records of 12 KiB within a segment file: each is intact, and each lies where the other should.
void swap_records(const std::string& path, std::uint64_t first, std::uint64_t second) {
  const int file = ::open(path.c_str(), O_RDWR);
  std::vector<char> a(12288), b(12288);
  ASSERT_EQ(::pread(file, a.data(), a.size(), static_cast<off_t>(first)), 12288);
  ASSERT_EQ(::pread(file, b.data(), b.size(), static_cast<off_t>(second)), 12288);
  ASSERT_EQ(::pwrite(file, b.data(), b.size(), static_cast<off_t>(first)), 12288);
  ASSERT_EQ(::pwrite(file, a.data(), a.size(), static_cast<off_t>(second)), 12288);
  ::fsync(file);
  ::close(file);
}

// A. LMCache#4385: long sessions read from disk get other requests' KV, without error and without any eviction. Here two records
// change places behind the store's back. Both are intact, yet neither is delivered for the other: each knows its place and key.
TEST(Reported, AOtherRequestsKvIsNeverServedFromDisk) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain mine = cache.chain(tokens_of(1, kTokens)), other = cache.chain(tokens_of(2, kTokens)),
              third = cache.chain(tokens_of(3, kTokens));
  for (const Chain* chain : {&mine, &other, &third}) put_chain(cache, options, *chain);
  ASSERT_TRUE(cache.sync());
  push_out_of_warm(cache, options);
  swap_records(directory.path() + "/store/segment-00000000", 4096, 4096 + 12288);
  for (const Chain* chain : {&mine, &other}) {
    const auto match = cache.match(*chain);
    ASSERT_EQ(match->position(), 1U);
    const Fetched fetched = fetch_match(cache, *match);
    EXPECT_EQ(fetched.failed, 1U) << "neither the wrong bytes nor a hit";
    EXPECT_EQ(fetched.wrong, 0U);
    EXPECT_EQ(cache.match(*chain)->position(), 0U) << "a miss from then on";
  }
  EXPECT_EQ(read_chain(cache, third), 1U) << "its neighbour is none the worse";
  EXPECT_EQ(cache.stats().cold.corrupt, 2U);
}

// A. dynamo#15079: a load from disk fails, the status is dropped, and another request's KV is served with HTTP 200. Here the
// status is part of the answer: an error is an outcome of its own, and the destination of a failed load is not a delivered one.
TEST(Reported, AFailedLoadIsAnErrorAndNothingElse) {
  SimDisk disk;
  const CacheOptions options = small_cache("/store");
  auto cache = open_cache(options, {.disk = &disk});
  ASSERT_TRUE(cache);
  const Chain chain = cache->chain(tokens_of(1, 3 * kTokens));
  put_chain(*cache, options, chain);
  ASSERT_TRUE(cache->sync());
  push_out_of_warm(*cache, options);
  const auto match = cache->match(chain);
  ASSERT_EQ(match->position(), 3U);
  disk.add_fault({.op = SimOp::read, .path_part = "segment-", .times = kForever});
  const Fetched fetched = fetch_match(*cache, *match);
  EXPECT_EQ(fetched.failed, 3U);
  EXPECT_EQ(fetched.delivered, 0U);
  disk.clear_faults();
  EXPECT_EQ(put_chain(*cache, options, chain), PutOutcome::stored) << "the engine computed it anew";
  EXPECT_EQ(read_chain(*cache, chain), 3U);
}

// A. LMCache!2863: recurrent state was not restored, but its tokens were counted as computed; 40 % of answers garbled. Here a
// position without the record of its recurrent state is no candidate of a match.
TEST(Reported, AWithoutItsRecurrentStateAPositionDoesNotMatch) {
  const CacheOptions options = hybrid_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 4 * kTokens));
  Prepared prepared = prepare(options, chain, 0, 4);
  std::erase_if(prepared.transaction.blocks,
                [](const PutBlock& block) { return block.kind == kState; });
  const auto put = cache.put(chain, prepared.transaction);
  ASSERT_TRUE(put && cache.wait(*put, seconds(30)));
  EXPECT_EQ(cache.match(chain)->position(), 0U);
  EXPECT_EQ(cache.match(chain, {.kinds = {kFull}})->position(), 4U) << "its attention is there";
}

// A. LMCache#207: a chunk read while it is still being written gives wrong answers. Here a block is visible only once its whole
// put is: nobody matches it before.
TEST(Reported, ANothingIsVisibleBeforeItIsWhole) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  for (std::uint64_t n = 0; n < 200; ++n) {
    const Chain chain = cache.chain(tokens_of(n, 6 * kTokens));
    const Prepared prepared = prepare(options, chain, 0, 6);
    const auto put = cache.put(chain, prepared.transaction);
    ASSERT_TRUE(put);
    const auto match = cache.match(chain);  // While it is copied, perhaps.
    ASSERT_TRUE(match->position() == 0 || match->position() == 6) << match->position();
    EXPECT_EQ(fetch_match(cache, *match).wrong, 0U);
    ASSERT_TRUE(cache.wait(*put, seconds(30)));
  }
}

// A. nixl#1696: a short write was reported as done, on a full disk. Here the record is verified when it is read: the missing half
// is an error, never bytes.
TEST(Reported, AShortWriteToldAsDoneIsNeverDelivered) {
  SimDisk disk;
  const CacheOptions options = small_cache("/store");
  auto cache = open_cache(options, {.disk = &disk});
  ASSERT_TRUE(cache);
  disk.add_fault({.op = SimOp::write, .path_part = "segment-", .os_errno = 0, .bytes_done = 8192});
  const Chain chain = cache->chain(tokens_of(1, kTokens));
  put_chain(*cache, options, chain);
  ASSERT_TRUE(cache->sync()) << "the disk said that all is well";
  push_out_of_warm(*cache, options);
  const auto match = cache->match(chain);
  const Fetched fetched = fetch_match(*cache, *match);
  EXPECT_EQ(fetched.wrong, 0U);
  EXPECT_EQ(fetched.delivered, 0U);
}

// B. vllm!12621: a predictable seed lets one tenant compute the name of another's blocks. Here the tenant's salt enters the
// name, a hash nobody has found a collision of: the same prompt under another salt has no block in common.
TEST(Reported, BAnotherTenantsPromptIsNotFoundByItsTokens) {
  CacheOptions options = small_cache();
  options.tenant_salt = {std::byte{1}};
  Cache mine = open_or_die(options);
  options.tenant_salt = {std::byte{2}};
  Cache theirs = open_or_die(options);
  const Chain a = mine.chain(tokens_of(1, 5 * kTokens)),
              b = theirs.chain(tokens_of(1, 5 * kTokens));
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (std::uint32_t j = 0; j < 5; ++j) EXPECT_NE(a.key(0, i), b.key(0, j));
  }
  put_chain(theirs, options, b);
  EXPECT_EQ(theirs.match(a)->position(), 0U) << "asking with another tenant's names";
}

// B. LMCache!2596: no hits until every process was given the same PYTHONHASHSEED. Here names depend on nothing of the process.
TEST(Reported, BTwoProcessesAgreeOnNamesWithoutBeingToldTo) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Key here = cache.chain(tokens_of(1, 2 * kTokens)).key(0, 1);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  if (::fork() == 0) {
    Cache other = open_or_die(options);
    const Key there = other.chain(tokens_of(1, 2 * kTokens)).key(0, 1);
    ::_exit(::write(ends[1], there.bytes.data(), 16) == 16 ? 0 : 1);
  }
  Key there;
  ASSERT_EQ(::read(ends[0], there.bytes.data(), 16), 16);
  EXPECT_EQ(here, there);
  ::close(ends[0]);
  ::close(ends[1]);
}

// C. LMCache#562, !4778: the index was in memory only; after a restart the files lay there, never used, and filled the disk.
// Here the index comes back from the disk, and the same bytes are not stored twice.
TEST(Reported, CARestartUsesWhatIsThereAndStoresNothingTwice) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  {
    Cache cache = open_or_die(options);
    put_chain(cache, options, cache.chain(tokens_of(1, 10 * kTokens)));
    ASSERT_TRUE(cache.close());
  }
  const std::uint64_t before = disk_use(directory.path());
  for (int life = 0; life < 5; ++life) {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(1, 10 * kTokens));
    EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::known);
    EXPECT_EQ(read_chain(cache, chain), 10U);
    EXPECT_EQ(cache.stats().cold_stored_blocks, 0U);
  }
  EXPECT_EQ(disk_use(directory.path()), before);
}

// D. LMCache#4725: 4 TB allowed, 14 TB used; sglang#28653: 7.5 million files in one directory. Here the cap is physical and hard,
// and the number of files is that of the segments.
TEST(Reported, DTheCapIsWhatTheDiskSaysAndFilesAreFew) {
  const TemporaryDirectory directory;
  CacheOptions options = small_cache(directory.path() + "/store");
  options.cold_bytes = 8 << 20;
  Cache cache = open_or_die(options);
  for (std::uint64_t n = 0; n < 150; ++n) {
    put_chain(cache, options, cache.chain(tokens_of(n, 10 * kTokens)));
    if (n % 10 == 0) {
      ASSERT_LE(disk_use(directory.path() + "/store"), options.cold_bytes) << n;
    }
  }
  ASSERT_TRUE(cache.sync());
  EXPECT_GT(cache.stats().cold_evicted_blocks, 0U) << "the cap was never met: this shows nothing";
  EXPECT_LE(disk_use(directory.path() + "/store"), options.cold_bytes);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory.path() + "/store"))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_LT(files, 20U);
}

// D. Mooncake#2187: 97 % full, eviction does not fire, every put fails. Here puts go on however long the store has been full.
TEST(Reported, DAFullStoreGoesOnTakingPuts) {
  const TemporaryDirectory directory;
  CacheOptions options = small_cache(directory.path() + "/store");
  options.cold_bytes = 8 << 20;
  Cache cache = open_or_die(options);
  for (std::uint64_t n = 0; n < 150; ++n) {
    const Chain chain = cache.chain(tokens_of(n, 10 * kTokens));
    ASSERT_EQ(put_chain(cache, options, chain), PutOutcome::stored) << n;
    ASSERT_TRUE(cache.sync());
  }
  EXPECT_GT(cache.stats().cold_stored_blocks, 1000U);
}

// E. LMCache#1034, #987: objects that were looked up and never retrieved stay pinned, until the hit rate is 0. Here a lease has an
// end, and who forgot it is named.
TEST(Reported, ELookedUpAndNeverFetchedIsNotPinnedForEver) {
  TestClock clock;
  CacheOptions options = small_cache();
  options.clock = &clock;
  Cache cache = open_or_die(options);
  std::vector<Match> forgotten;
  for (std::uint64_t n = 0; n < 30; ++n) {
    const Chain chain = cache.chain(tokens_of(n, 10 * kTokens));
    put_chain(cache, options, chain);
    forgotten.push_back(*cache.match(chain, {.lease_time = seconds(5), .owner = "scheduler"}));
  }
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(99, 60 * kTokens))),
            PutOutcome::skipped)
      << "all of warm is leased: else this shows nothing";
  clock.advance(seconds(6));
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(99, 60 * kTokens))),
            PutOutcome::stored);
  const CacheStats stats = cache.stats();
  EXPECT_GT(stats.leases_leaked, 0U);
  ASSERT_FALSE(stats.leaked.empty());
  EXPECT_NE(stats.leaked.front().find("scheduler"), std::string::npos) << stats.leaked.front();
}

// E. LMCache#559: hot cache and disk staging shared one pool; once it was full, no disk hit was possible. Here all of warm is
// leased, and a block still comes from cold.
TEST(Reported, EAFullWarmTierDoesNotStopHitsFromDisk) {
  const TemporaryDirectory directory;
  const CacheOptions options = small_cache(directory.path() + "/store");
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 5 * kTokens));
  put_chain(cache, options, chain);
  ASSERT_TRUE(cache.sync());
  push_out_of_warm(cache, options);
  std::vector<Match> leases;
  for (std::uint64_t n = 2000; n < 2060; ++n) {
    const Chain filler = cache.chain(tokens_of(n, 10 * kTokens));
    if (put_chain(cache, options, filler) != PutOutcome::stored) break;
    leases.push_back(*cache.match(filler));
  }
  EXPECT_EQ(put_chain(cache, options, cache.chain(tokens_of(3000, 10 * kTokens))),
            PutOutcome::skipped)
      << "warm is not full: this shows nothing";
  const auto match = cache.match(chain);
  EXPECT_EQ(fetch_match(cache, *match).delivered, 5U);
}

// F. vllm#39702: a hit vanished between look-up and load, and an assertion ended the engine. Here a match is a lease; and where
// even that has ended, the answer is a miss.
TEST(Reported, FAHitThatVanishedIsAMissNotACrash) {
  TestClock clock;
  CacheOptions options = small_cache();
  options.clock = &clock;
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 5 * kTokens));
  put_chain(cache, options, chain);
  const auto match = cache.match(chain, {.lease_time = seconds(1)});
  ASSERT_EQ(match->position(), 5U);
  push_out_of_warm(cache, options);
  EXPECT_EQ(fetch_match(cache, *match).delivered, 5U) << "leased, so nothing vanished";
  clock.advance(seconds(2));
  push_out_of_warm(cache, options);
  EXPECT_EQ(fetch_match(cache, *match).missed, 5U);
}

// F. vllm#26329: more prompts than the memory holds crashed it. Here they are skipped, and the cache goes on.
TEST(Reported, FMorePromptsThanMemoryAreSkippedNotFatal) {
  CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Chain huge = cache.chain(tokens_of(1, 2000 * kTokens));
  EXPECT_EQ(put_chain(cache, options, huge), PutOutcome::skipped);
  const Chain small = cache.chain(tokens_of(2, 2 * kTokens));
  EXPECT_EQ(put_chain(cache, options, small), PutOutcome::stored);
  EXPECT_EQ(read_chain(cache, small), 2U);
}

// F. llama.cpp#14434: saving or restoring an empty slot crashed. Here nothing is a prompt like any other.
TEST(Reported, FAnEmptyPromptIsNoSpecialCase) {
  CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Chain nothing = cache.chain(std::span<const std::uint32_t>());
  EXPECT_EQ(put_chain(cache, options, nothing), PutOutcome::known);
  const auto match = cache.match(nothing);
  EXPECT_EQ(match->position(), 0U);
  EXPECT_EQ(fetch_match(cache, *match).delivered, 0U);
}

}  // namespace
}  // namespace tiercel
