// A put of blocks that another put is storing joins it: it says `known` or `stored` only once they can be read.
#include <future>

#include "cache/cache_harness.h"
#include "cache/core.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

// Keeps the thread of a cache in a callback, so that puts begin and none of them ends.
class Halt {
 public:
  Halt(Cache& cache, const CacheOptions& options) {
    const Chain chain = cache.chain(tokens_of(999, kTokens));
    prepared_ = prepare(options, chain, 0, 1);
    EXPECT_TRUE(cache.put(chain, prepared_.transaction, [this](const Finished&) {
      halted_.set_value();
      go_on_.get_future().wait();
    }));
    halted_.get_future().wait();
  }
  void end() { go_on_.set_value(); }

 private:
  Prepared prepared_;
  std::promise<void> halted_, go_on_;
};

TEST(CacheJoin, KnownIsSaidOnlyOnceTheOtherPutCanBeRead) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 6 * kTokens));
  const Prepared head = prepare(options, chain, 0, 4), all = prepare(options, chain, 0, 6);
  Halt halt(cache, options);
  const auto first = cache.put(chain, head.transaction),
             second = cache.put(chain, head.transaction),
             longer = cache.put(chain, all.transaction);
  EXPECT_FALSE(cache.poll(*second)->has_value()) << "nobody can read them yet";
  halt.end();
  EXPECT_EQ(cache.wait(*longer, seconds(30))->put, PutOutcome::stored);
  EXPECT_EQ(cache.wait(*second, seconds(30))->put, PutOutcome::known);
  EXPECT_EQ(cache.wait(*first, seconds(30))->put, PutOutcome::stored);
  EXPECT_EQ(cache.stats().stored_blocks, 1U + 4 + 2);
  EXPECT_EQ(read_chain(cache, chain), 6U);
}

TEST(CacheJoin, WhereTheOtherPutFailsThoseThatJoinedItSaySo) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(1, 6 * kTokens));
  const Prepared head = prepare(options, chain, 0, 4), all = prepare(options, chain, 0, 6);
  Halt halt(cache, options);
  const auto first = cache.put(chain, head.transaction),
             second = cache.put(chain, head.transaction),
             longer = cache.put(chain, all.transaction);
  cache.cancel(*first);
  halt.end();
  EXPECT_EQ(cache.wait(*first, seconds(30))->error.code, Errc::cancelled);
  for (const auto& joined : {second, longer}) {
    const auto finished = cache.wait(*joined, seconds(30));
    EXPECT_EQ(finished->put, PutOutcome::failed);
    EXPECT_EQ(finished->error.code, Errc::busy) << finished->error.what;
  }
  EXPECT_EQ(read_chain(cache, chain), 0U);
  EXPECT_EQ(cache.stats().warm.used_bytes, 12288U) << "nothing of them is left there";
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
  EXPECT_EQ(read_chain(cache, chain), 6U);
}

TEST(CacheJoin, ABadBlockThatIsStillLeasedIsNotKnown) {
  Core core({.warm_bytes = 10 * 12288, .cold = {}, .staging_bytes = 10 * 12288});
  Key key;
  key.bytes[0] = 1;
  const std::vector<BlockId> chain = {core.table().intern(key, kNoBlock, 8000, 12288)};
  const auto first = core.put(chain);
  ASSERT_TRUE(first);
  core.complete(first->ops[0]);
  const Pin lease = core.pin(chain[0]);
  core.quarantine(chain[0], TierId::warm);
  EXPECT_FALSE(core.put(chain)) << "nobody can read it, and its place is still taken";
  core.unpin(lease);
  const auto again = core.put(chain);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->ops.size(), 1U);
  EXPECT_TRUE(core.complete(again->ops[0]).ended_puts[0].published);
  EXPECT_EQ(core.match(chain), 1U);
}

}  // namespace
}  // namespace tiercel
