// Sessions at their limits: another model's, damaged, late, expired, in a file, beyond their share.
#include <filesystem>
#include <fstream>
#include <thread>

#include "cache/cache_impl.h"
#include "cache/cache_session_harness.h"
#include "io/temporary_directory.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

TEST(CacheSessionLimits, AnotherModelIsRefusedAndTheSessionStaysAsItIs) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Bedtime bed;
  {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(7, 4 * kTokens));
    bed = bedtime(options, chain);
    ASSERT_TRUE(cache.suspend("s", chain, bed.suspension));
  }
  for (int variant = 0; variant < 4; ++variant) {
    CacheOptions other = options;
    if (variant == 0) other.kinds[0].fingerprint = fingerprint_of("another");
    if (variant == 1) other.block_tokens = 8;
    if (variant == 2) other.kinds[0].bytes_per_token = 400;
    if (variant == 3) other.kinds = with_sessions(hybrid_cache(directory.path())).kinds;
    Cache cache = open_or_die(other);
    const auto refused = cache.resume("s");
    ASSERT_FALSE(refused) << variant;
    EXPECT_EQ(refused.error().code, Errc::invalid);
    EXPECT_NE(refused.error().what.find("another model"), std::string::npos);
    EXPECT_EQ(cache.sessions()->size(), 1U);
  }
  Cache cache = open_or_die(options);
  expect_resumes(cache, "s", bed, 4);
}

TEST(CacheSessionLimits, OneFlippedBitIsAnErrorForExactlyThatBlock) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(8, 6 * kTokens));
    ASSERT_TRUE(cache.suspend("s", chain, bedtime(options, chain).suspension));
  }
  // Blocks of 8,000 bytes lie in prefix order behind the header page, 12 KiB each.
  const std::string path = options.directory + "/sessions/" + segment_file_name(0);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::streamoff at = 4096 + 3 * 12288 + 5000;
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
  file.close();
  Cache cache = open_or_die(options);
  const auto resumption = cache.resume("s");
  ASSERT_TRUE(resumption) << resumption.error().what;
  const Loaded loaded = load_all(cache, *resumption);
  EXPECT_EQ(loaded.delivered, 5U);
  EXPECT_EQ(loaded.wrong, 0U);
  EXPECT_EQ(loaded.failed_blocks, std::vector<std::uint32_t>{3});
  EXPECT_EQ(loaded.error, Errc::corrupt);
  EXPECT_EQ(cache.sessions()->at(0).missing, 1U);
}

TEST(CacheSessionLimits, ADeadlineEndsEveryBlockAsCancelled) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  TestClock clock;
  auto opened = open_cache(options, {.session_clock = &clock});
  ASSERT_TRUE(opened) << opened.error().what;
  Cache& cache = *opened;
  const Chain chain = cache.chain(tokens_of(9, 6 * kTokens));
  const Bedtime bed = bedtime(options, chain);
  ASSERT_TRUE(cache.suspend("s", chain, bed.suspension, seconds(5)));
  const auto resumption = cache.resume("s", seconds(5));
  ASSERT_TRUE(resumption);
  EXPECT_EQ(load_all(cache, *resumption).delivered, 6U);
  clock.advance(seconds(6));
  const Loaded late = load_all(cache, *resumption);
  EXPECT_EQ(late.failed, 6U);
  EXPECT_EQ(late.error, Errc::cancelled);
  expect_resumes(cache, "s", bed, 6);
}

TEST(CacheSessionLimits, ATtlEndsItByWallTimeAndForgettingAtOnce) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  std::atomic<std::int64_t> now = 1'000'000;
  const CacheSeams seams{.unix_time_s = [&now] { return now.load(); }};
  {
    auto cache = open_cache(options, seams);
    const Chain chain = cache->chain(tokens_of(10, 3 * kTokens));
    Bedtime bed = bedtime(options, chain);
    ASSERT_TRUE(cache->suspend("kept", chain, bed.suspension));
    bed.suspension.ttl = seconds(3600);
    const auto info = cache->suspend("mortal", chain, bed.suspension);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->expires_unix_s, 1'003'600);
    now = 900'000;  // A clock that jumps back only keeps it longer.
    expect_resumes(*cache, "mortal", bed, 3);
    now = 1'003'599;
    expect_resumes(*cache, "mortal", bed, 3);
    now = 1'003'600;
    EXPECT_EQ(cache->resume("mortal").error().code, Errc::invalid);
    EXPECT_EQ(cache->sessions()->size(), 1U);
    bed.suspension.ttl = seconds(60);
    ASSERT_TRUE(cache->suspend("mortal", chain, bed.suspension));
  }
  now = 2'000'000;  // While nobody was there.
  auto cache = open_cache(options, seams);
  EXPECT_EQ(cache->stats().sessions, 1U);
  ASSERT_TRUE(cache->forget("kept"));
  EXPECT_EQ(cache->forget("kept").error().code, Errc::invalid);
  EXPECT_EQ(cache->stats().sessions, 0U);
}

TEST(CacheSessionLimits, ATtlBeyondAllTimeMeansNeverAndOneOfNothingIsRefused) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(16, 2 * kTokens));
  Bedtime bed = bedtime(options, chain);
  bed.suspension.ttl = seconds::max();
  const auto info = cache.suspend("s", chain, bed.suspension);
  ASSERT_TRUE(info) << info.error().what;
  EXPECT_FALSE(info->expires_unix_s);
  expect_resumes(cache, "s", bed, 2);
  for (const seconds ttl : {seconds(0), seconds(-1), seconds::min()}) {
    bed.suspension.ttl = ttl;
    const auto refused = cache.suspend("s", chain, bed.suspension);
    ASSERT_FALSE(refused) << ttl.count();
    EXPECT_EQ(refused.error().code, Errc::invalid);
    EXPECT_NE(refused.error().what.find("ttl"), std::string::npos) << refused.error().what;
  }
  expect_resumes(cache, "s", bed, 2);
}

TEST(CacheSessionLimits, ALookInTheBackgroundEndsThemToo) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  std::atomic<std::int64_t> now = 1000;
  auto cache = open_cache(options, {.unix_time_s = [&now] { return now.load(); },
                                    .expire_every = std::chrono::milliseconds(1)});
  ASSERT_TRUE(cache);
  const Chain chain = cache->chain(tokens_of(11, 3 * kTokens));
  Bedtime bed = bedtime(options, chain);
  bed.suspension.ttl = seconds(10);
  ASSERT_TRUE(cache->suspend("mortal", chain, bed.suspension));
  now = 2000;
  const auto until = std::chrono::steady_clock::now() + seconds(30);
  while (cache->stats().sessions > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_EQ(cache->stats().sessions, 0U);
}

TEST(CacheSessionLimits, TravelsInAFile) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(hybrid_cache(directory.path() + "/a"));
  const CacheOptions elsewhere = with_sessions(hybrid_cache(directory.path() + "/b"));
  const std::string path = directory.path() + "/session.tiercel";
  Bedtime bed;
  {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(12, 9 * kTokens + 2));
    bed = bedtime(options, chain);
    ASSERT_TRUE(cache.suspend("s", chain, bed.suspension));
    const auto exported = cache.export_session("s", path);
    ASSERT_TRUE(exported) << exported.error().what;
    EXPECT_FALSE(fs::exists(path + ".tmp"));
    EXPECT_EQ(cache.export_session("nobody", path + "2").error().code, Errc::invalid);
    EXPECT_FALSE(fs::exists(path + "2"));
  }
  Cache cache = open_or_die(elsewhere);
  const auto imported = cache.import_session(path, "morning");
  ASSERT_TRUE(imported) << imported.error().what;
  EXPECT_EQ(imported->name, "morning");
  expect_resumes(cache, "morning", bed, 10 + 4 + 1);
  ASSERT_TRUE(cache.import_session(path));
  expect_resumes(cache, "s", bed, 10 + 4 + 1);
  // Any flipped bit is seen before anything is suspended: tried in every part of the file.
  const std::uint64_t size = fs::file_size(path);
  for (std::uint64_t at = 0; at < size; at += at < 1500 ? 13 : 4099) {
    const std::string damaged = directory.path() + "/damaged";
    fs::copy_file(path, damaged, fs::copy_options::overwrite_existing);
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 16);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    const auto refused = cache.import_session(damaged, "damaged");
    ASSERT_FALSE(refused) << at;
    EXPECT_EQ(refused.error().code, Errc::corrupt) << at << ": " << refused.error().what;
  }
  fs::resize_file(path, size - 1);
  EXPECT_EQ(cache.import_session(path, "cut").error().code, Errc::corrupt);
  EXPECT_EQ(cache.sessions()->size(), 2U);
}

TEST(CacheSessionLimits, WithoutAShareThereAreNoneAndItIsNotTakenFromTheCap) {
  const TemporaryDirectory directory;
  CacheOptions options = small_cache(directory.path() + "/store");
  {
    Cache cache = open_or_die(options);
    const Chain chain = cache.chain(tokens_of(13, kTokens));
    const auto refused = cache.suspend("s", chain, bedtime(options, chain).suspension);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find("session_bytes"), std::string::npos);
    EXPECT_FALSE(fs::exists(options.directory + "/sessions"));
  }
  options.session_bytes = options.cold_bytes;
  EXPECT_EQ(Cache::open(options).error().code, Errc::invalid);
  const CacheOptions sessions = with_sessions(small_cache(directory.path() + "/other"));
  { Cache cache = open_or_die(sessions); }
  CacheOptions without = sessions;
  without.session_bytes = 0;
  const auto refused = Cache::open(without);
  ASSERT_FALSE(refused) << "what is there would come on top of cold_bytes";
  EXPECT_NE(refused.error().what.find("session_bytes"), std::string::npos);
  fs::resize_file(sessions.directory + "/sessions/store.meta", 100);
  EXPECT_FALSE(Cache::open(without)) << "damaged sessions take as much of the disk";
  fs::remove(sessions.directory + "/sessions/store.meta");
  EXPECT_TRUE(Cache::open(without)) << "the control: a folder without a store";
}

TEST(CacheSessionLimits, AFullShareRefusesAndTheCacheGoesOn) {
  const TemporaryDirectory directory;
  CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  Error refused;
  std::uint64_t count = 0;
  for (; count < 100 && refused.what.empty(); ++count) {
    const Chain chain = cache.chain(tokens_of(500 + count, 40 * kTokens));
    const Bedtime bed = bedtime(options, chain);
    if (const auto info = cache.suspend("s" + std::to_string(count), chain, bed.suspension); !info)
      refused = info.error();
  }
  EXPECT_EQ(refused.code, Errc::no_space) << refused.what;
  EXPECT_EQ(cache.sessions()->size(), count - 1);
  const Chain chain = cache.chain(tokens_of(14, 5 * kTokens));
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
  EXPECT_EQ(read_chain(cache, chain), 5U);
  EXPECT_TRUE(cache.sync());
}

TEST(CacheSessionLimits, SeveralThreadsPutToBedAndGetUpWhileTheCacheWorks) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(hybrid_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "thread " + std::to_string(t);
      for (std::uint64_t round = 1; round <= 5; ++round) {
        const Chain chain = cache.chain(tokens_of(t, 4 * round * kTokens));  // Grows.
        const Bedtime bed = bedtime(options, chain);
        const auto info = cache.suspend(name, chain, bed.suspension);
        ASSERT_TRUE(info) << info.error().what;
        EXPECT_EQ(info->version, round);
        expect_resumes(cache, name, bed, info->blocks);
        EXPECT_TRUE(cache.sessions());
      }
      EXPECT_TRUE(cache.forget(name));
    });
  }
  for (std::uint64_t n = 100; n < 130; ++n) {
    const Chain chain = cache.chain(tokens_of(n, 10 * kTokens));
    put_chain(cache, options, chain);
    EXPECT_LE(cache.stats().sessions, 3U);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(cache.sessions()->empty());
}

TEST(CacheSessionLimits, AfterCloseACallSaysSo) {
  const TemporaryDirectory directory;
  const CacheOptions options = with_sessions(small_cache(directory.path() + "/store"));
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(15, kTokens));
  const Bedtime bed = bedtime(options, chain);
  ASSERT_TRUE(cache.suspend("s", chain, bed.suspension));
  ASSERT_TRUE(cache.close());
  EXPECT_EQ(cache.suspend("s", chain, bed.suspension).error().code, Errc::cancelled);
  EXPECT_EQ(cache.resume("s").error().code, Errc::cancelled);
  EXPECT_EQ(cache.stats().sessions, 1U);
}

}  // namespace
}  // namespace tiercel
