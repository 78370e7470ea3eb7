// What the library door refuses: one clear error that names the argument or option, and nothing changed.
#include <fstream>

#include "cache/cache_harness.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

using std::chrono::seconds;

TEST(CacheRefusals, AnOwnerThatIsNoProcessGetsNoLease) {
  const CacheOptions options = small_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(51, 2 * kTokens));
  EXPECT_EQ(put_chain(cache, options, chain), PutOutcome::stored);
  const auto refused = cache.match(chain, {.owner_pid = 1LL << 40});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_NE(refused.error().what.find("owner_pid"), std::string::npos) << refused.error().what;
  EXPECT_EQ(cache.stats().leases, 0U);
}

TEST(CacheRefusals, WrongArgumentsAreRefusedByName) {
  const CacheOptions options = hybrid_cache();
  Cache cache = open_or_die(options);
  const Chain chain = cache.chain(tokens_of(50, 3 * kTokens));
  std::vector<std::byte> memory(100'000);
  const auto piece = [&](std::size_t bytes) {
    return ScatterList{host_piece(std::span(memory).first(bytes))};
  };
  const auto refused = [&](const Txn& transaction, const std::string& word) {
    const auto ticket = cache.put(chain, transaction);
    ASSERT_FALSE(ticket);
    EXPECT_EQ(ticket.error().code, Errc::invalid);
    EXPECT_NE(ticket.error().what.find(word), std::string::npos) << ticket.error().what;
  };
  refused({.position = 4, .blocks = {}}, "position 4");
  refused({.position = 2, .blocks = {{.kind = 9, .index = 0, .source = piece(8000)}}}, "kind 9");
  refused({.position = 2, .blocks = {{.kind = kFull, .index = 2, .source = piece(8000)}}},
          "behind position");
  refused({.position = 2, .blocks = {{.kind = kState, .index = 0, .source = piece(5000)}}},
          "taken at position 2");
  refused({.position = 2, .blocks = {{.kind = kFull, .index = 0, .source = piece(7999)}}}, "7999");
  refused(
      {.position = 2, .blocks = {{.kind = kFull, .index = 0, .source = {Piece{.bytes = 8000}}}}},
      "host memory");
  refused({.position = 1,
           .blocks = {{.kind = kFull, .index = 0, .source = piece(8000)},
                      {.kind = kFull, .index = 0, .source = piece(8000)}}},
          "twice");
  // Lengths whose sum overflows to the right one.
  ScatterList wraps = piece(100);
  wraps.push_back(wraps[0]);
  wraps[0].bytes = ~std::uint64_t{0} - 99;
  wraps[1].bytes = 8100;
  refused({.position = 2, .blocks = {{.kind = kFull, .index = 0, .source = wraps}}}, "more");
  put_chain(cache, options, chain);
  auto match = cache.match(chain);
  EXPECT_FALSE(cache.match(chain, {.kinds = {7}, .lease_time = {}, .owner = {}}));
  EXPECT_FALSE(cache.match(chain, {.kinds = {}, .lease_time = seconds(0), .owner = {}}));
  const Destination too_far{.block = 100, .memory = piece(8000)},
      too_short{.block = 0, .memory = piece(10)};
  EXPECT_FALSE(cache.fetch(*match, std::span(&too_far, 1)));
  EXPECT_FALSE(cache.fetch(*match, std::span(&too_short, 1)));
  Cache other = open_or_die(small_cache());
  EXPECT_FALSE(other.match(chain)) << "a chain of another cache";
}

TEST(CacheRefusals, OptionsThatContradictEachOtherAreRefusedByName) {
  const TemporaryDirectory directory;
  const auto refused = [](const CacheOptions& options, const std::string& word) {
    const auto cache = Cache::open(options);
    ASSERT_FALSE(cache) << word;
    EXPECT_EQ(cache.error().code, Errc::invalid);
    EXPECT_NE(cache.error().what.find(word), std::string::npos) << cache.error().what;
  };
  const CacheOptions good = small_cache(directory.path() + "/store");
  const auto with = [&](auto change) {
    CacheOptions options = good;
    change(options);
    return options;
  };
  refused({}, "block_tokens");
  refused(with([](auto& o) { o.kinds.clear(); }), "kinds");
  refused(with([](auto& o) { o.kinds.push_back(o.kinds[0]); }), "two of them");
  refused(with([](auto& o) { o.kinds[0].kind.window_tokens = 3; }), "window_tokens");
  refused(with([](auto& o) { o.kinds[0].kind.reach = Reach::window; }), "window_tokens");
  refused(with([](auto& o) { o.kinds[0].bytes_per_token = 0; }), "empty blocks");
  refused(with([](auto& o) { o.kinds[0].bytes_per_token = 1ULL << 60; }), "more than");
  refused(with([](auto& o) { o.kinds[0].fingerprint = {}; }), "fingerprint");
  refused(with([](auto& o) { o.warm_bytes = 1 << 14; }), "warm_bytes");
  refused(with([](auto& o) { o.staging_bytes = 100; }), "staging_bytes");
  refused(with([](auto& o) { o.staging_bytes = 1 << 30; }), "staging_bytes");
  refused(with([](auto& o) { o.cold_bytes = 0; }), "cold_bytes");
  refused(with([](auto& o) { o.cold_bytes = 1 << 17; }), "cold_bytes");
  refused(with([](auto& o) { o.cold_bytes = 1ULL << 60; }), "more than the disk");
  refused(with([](auto& o) { o.directory.clear(); }), "without a directory");
  refused(with([](auto& o) { o.sync_bytes = 0, o.sync_interval = {}; }),
          "sync_bytes, sync_interval");
  refused(with([](auto& o) { o.lease_time = {}; }), "lease_time");
  std::ofstream(directory.path() + "/foreign") << "x";
  refused(with([&](auto& o) { o.directory = directory.path(); }), "no store of Tiercel");
  Cache cache = open_or_die(good);
  const auto second = Cache::open(good);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
}

}  // namespace
}  // namespace tiercel
