// What a cache does while nobody waits: it checkpoints its cold store, scrubs it, and forgets what the scrub finds bad.
#include <filesystem>
#include <fstream>

#include "cache/cache_harness.h"
#include "cache/tier_executor.h"
#include "io/posix_disk.h"
#include "io/temporary_directory.h"
#include "tier/store_reader.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

// Looks again and again, without sleeping, until it holds; a broken build fails after a minute.
template <class Condition>
bool comes_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class CacheBackground : public testing::Test {
 protected:
  CacheBackground() : options_(small_cache(directory_.path() + "/store")) {
    options_.scrub_bytes_per_s = 0;
  }
  // Fills two segments and more with chains of ten blocks.
  void fill(Cache& cache) {
    for (std::uint64_t n = 1000; n < 1025; ++n)
      put_chain(cache, options_, cache.chain(tokens_of(n, 10 * kTokens)));
    ASSERT_TRUE(cache.sync());
  }
  StoreReport inspect() {
    PosixDisk disk;
    const auto report = read_store(disk, options_.directory, StoreReading::inspect);
    EXPECT_TRUE(report) << report.error().what;
    return *report;
  }
  void flip_a_byte_of_the_first_record() {
    std::fstream file(options_.directory + "/" + segment_file_name(0),
                      std::ios::in | std::ios::out | std::ios::binary);
    constexpr std::uint64_t kAt = kSegmentHeaderBytes + kPageBytes + 100;
    file.seekg(kAt);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(kAt);
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  const TemporaryDirectory directory_;
  CacheOptions options_;
};

TEST_F(CacheBackground, ItCheckpointsItsStoreWithoutBeingAsked) {
  Cache cache = open_or_die(options_);
  fill(cache);
  EXPECT_TRUE(comes_true([&] { return inspect().checkpoint_sequence > 0; }));
}

TEST_F(CacheBackground, WhatTheScrubFindsBadIsForgottenAndStaysSo) {
  {
    Cache cache = open_or_die(options_);
    fill(cache);
  }
  options_.scrub_bytes_per_s = 1 << 30;
  const std::uint64_t found = [&] {
    Cache cache = open_or_die(options_);
    EXPECT_TRUE(comes_true([&] { return cache.stats().scrubbed_bytes > 4 << 20; }));
    EXPECT_EQ(cache.stats().quarantined, 0U) << "the control: nothing was bad yet";
    flip_a_byte_of_the_first_record();
    EXPECT_TRUE(comes_true([&] { return cache.stats().quarantined == 1; }));
    // The first record is the first block of the first chain: nothing of that chain can be matched any more.
    const Chain chain = cache.chain(tokens_of(1000, 10 * kTokens));
    EXPECT_TRUE(comes_true([&] { return cache.match(chain)->position() == 0; }));
    EXPECT_EQ(read_chain(cache, cache.chain(tokens_of(1001, 10 * kTokens))), 10U);
    EXPECT_EQ(cache.stats().errors, 0U) << "nobody had to read it";
    EXPECT_TRUE(comes_true([&] { return !inspect().quarantined.empty(); })) << "kept on disk";
    return cache.stats().recovered_blocks;
  }();
  options_.scrub_bytes_per_s = 0;
  const Cache again = open_or_die(options_);
  EXPECT_EQ(again.stats().quarantined, 1U);
  EXPECT_EQ(again.stats().recovered_blocks, found - 1);
}

TEST_F(CacheBackground, WhatOpenHadToTidyIsTold) {
  {
    Cache cache = open_or_die(options_);
    fill(cache);
  }
  std::filesystem::resize_file(options_.directory + "/" + segment_file_name(1), 300'000);
  std::ofstream(options_.directory + "/" + segment_file_name(9)).close();
  const Cache cache = open_or_die(options_);
  EXPECT_EQ(cache.stats().resized_segments, 1U);
  EXPECT_EQ(cache.stats().leftovers_removed, 1U);
  EXPECT_GT(cache.stats().recovered_blocks, 100U);
}

// Says that a checkpoint is due until it gets one.
class DueTier final : public Tier {
 public:
  const TierCapabilities& capabilities() const override { return capabilities_; }
  Result<Ticket> submit(std::span<const Op> ops) override {
    if (busy) return fail(Errc::busy, "full");
    for (const Op& op : ops) {
      if (op.type == OpType::checkpoint) ++checkpoints;
    }
    return Ticket{1};
  }
  std::size_t poll(std::vector<Completion>&) override { return 0; }
  std::size_t wait(std::vector<Completion>&, std::int64_t) override { return 0; }
  void cancel(Ticket) override {}
  bool checkpoint_due() const override { return checkpoints == 0; }
  TierStats stats() const override { return {}; }
  LinkEstimate link() const override { return {}; }

  bool busy = false;
  int checkpoints = 0;

 private:
  TierCapabilities capabilities_;
};

TEST(TierExecutorCheckpoint, IsSubmittedWhenDueNeverWaitedForAndCanBeSwitchedOff) {
  const SystemClock clock;
  for (const bool on : {true, false}) {
    DueTier cold;
    TierExecutor executor({.warm = nullptr, .cold = &cold, .clock = &clock, .checkpoints = on});
    std::vector<TierDone> done;
    cold.busy = true;
    executor.collect(done, 0);
    EXPECT_EQ(cold.checkpoints, 0) << "a full queue puts it off";
    cold.busy = false;
    for (int i = 0; i < 3; ++i) executor.collect(done, 0);
    EXPECT_EQ(cold.checkpoints, on ? 1 : 0);
    EXPECT_EQ(executor.under_way(), 0U);
    EXPECT_TRUE(done.empty());
  }
}

}  // namespace
}  // namespace tiercel
