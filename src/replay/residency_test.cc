// Residency against the published baselines, to the digit, and against exhaustive search and plain caches where those can
// be had.
#include "replay/residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>

#include "base/random.h"
#include "replay/replay_testing.h"

namespace tiercel {
namespace {

// A ratio with four decimals, as the published tables print it.
double ratio4(std::uint64_t part, std::uint64_t whole) {
  return std::round(static_cast<double>(part) / static_cast<double>(whole) * 1e4) / 1e4;
}

struct Expected {
  ResidencyPolicy policy;
  std::array<double, 5> ratios;  // At 1k, 10k, 30k, 50k, 100k blocks.
};

void check_baselines(const Trace& trace, const std::vector<Expected>& rows) {
  constexpr std::array<std::uint64_t, 5> kSizes{1000, 10000, 30000, 50000, 100000};
  for (const auto& [policy, ratios] : rows) {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      EXPECT_EQ(ratio4(residency_hits(trace, policy, kSizes[i]), trace.block_ids.size()), ratios[i])
          << "policy " << static_cast<int>(policy) << ", " << kSizes[i] << " blocks";
    }
  }
}

void check_tiers(const Trace& trace, std::uint64_t hot, std::uint64_t warm,
                 std::array<double, 4> ratios) {
  const TierSplit split = residency_tiers(trace, hot, warm, std::nullopt);
  const std::uint64_t all = trace.block_ids.size();
  EXPECT_EQ(ratio4(split.hot, all), ratios[0]);
  EXPECT_EQ(ratio4(split.warm, all), ratios[1]);
  EXPECT_EQ(ratio4(split.cold, all), ratios[2]);
  EXPECT_EQ(ratio4(split.miss, all), ratios[3]);
  EXPECT_EQ(split.hot + split.warm + split.cold + split.miss, all);
}

TEST(ResidencyBaselines, Conversation) {
  const auto trace = shared_trace("traces/mooncake_conversation_trace.jsonl.gz", 1);
  if (!trace) GTEST_SKIP() << "the shared conversation trace is not here (TIERCEL_SHARED)";
  EXPECT_EQ(ratio4(infinite_hits(*trace), trace->block_ids.size()), 0.3664);
  check_baselines(*trace, {{ResidencyPolicy::lru, {0.0445, 0.2116, 0.3257, 0.3546, 0.3637}},
                           {ResidencyPolicy::fifo, {0.0445, 0.1820, 0.2950, 0.3336, 0.3563}},
                           {ResidencyPolicy::opt, {0.1907, 0.3664, 0.3664, 0.3664, 0.3664}}});
  check_tiers(*trace, 10000, 50000, {0.2116, 0.1474, 0.0075, 0.6336});
  check_tiers(*trace, 1000, 10000, {0.0445, 0.1767, 0.1452, 0.6336});
  check_tiers(*trace, 1000, 50000, {0.0445, 0.3102, 0.0117, 0.6336});
}

TEST(ResidencyBaselines, WekaThird) {
  const auto trace = shared_trace("traces/weka_claude_code.tar.zst", 3);
  if (!trace) GTEST_SKIP() << "the shared Weka sessions are not here (TIERCEL_SHARED)";
  EXPECT_EQ(ratio4(infinite_hits(*trace), trace->block_ids.size()), 0.9639);
  check_baselines(*trace, {{ResidencyPolicy::lru, {0.0574, 0.8683, 0.9638, 0.9639, 0.9639}},
                           {ResidencyPolicy::fifo, {0.0571, 0.7969, 0.9346, 0.9539, 0.9636}},
                           {ResidencyPolicy::opt, {0.3472, 0.9267, 0.9639, 0.9639, 0.9639}}});
  check_tiers(*trace, 10000, 50000, {0.8683, 0.0956, 0.0000, 0.0361});
  check_tiers(*trace, 1000, 10000, {0.0574, 0.8290, 0.0775, 0.0361});
  check_tiers(*trace, 1000, 50000, {0.0574, 0.9065, 0.0000, 0.0361});
}

// The most prefix hits any cache could get that keeps at most `capacity` blocks between requests, by trying all of them.
// State: the set of resident blocks after a request; any subset of (resident + requested) may stay.
std::uint64_t exhaustive_best(const Trace& trace, std::size_t capacity) {
  std::map<std::set<std::uint32_t>, std::uint64_t> best{{{}, 0}};
  for (const Request& request : trace.requests) {
    const auto blocks = trace.blocks(request);
    std::map<std::set<std::uint32_t>, std::uint64_t> next;
    for (const auto& [resident, hits_before] : best) {
      std::uint64_t hits = hits_before;
      for (const std::uint32_t id : blocks) {
        if (resident.count(id) == 0) break;
        ++hits;
      }
      std::set<std::uint32_t> all = resident;
      all.insert(blocks.begin(), blocks.end());
      const std::vector<std::uint32_t> list(all.begin(), all.end());
      for (std::uint32_t mask = 0; mask < (1U << list.size()); ++mask) {
        if (static_cast<std::size_t>(std::popcount(mask)) > capacity) continue;
        std::set<std::uint32_t> kept;
        for (std::size_t i = 0; i < list.size(); ++i) {
          if ((mask >> i & 1) != 0) kept.insert(list[i]);
        }
        auto& entry = next[kept];
        entry = std::max(entry, hits);
      }
    }
    best = std::move(next);
  }
  std::uint64_t most = 0;
  for (const auto& [resident, hits] : best) most = std::max(most, hits);
  return most;
}

TEST(Residency, OptIsWhatExhaustiveSearchFindsOnSmallTrees) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Trace trace = random_tree_trace(seed, 9, 7, 4);
    for (const std::size_t capacity : {1U, 2U, 3U, 4U}) {
      EXPECT_EQ(residency_hits(trace, ResidencyPolicy::opt, capacity),
                exhaustive_best(trace, capacity));
    }
  }
}

// LRU and FIFO written as the method reads, on a plain list.
std::uint64_t plain_hits(const Trace& trace, std::size_t capacity, bool touch) {
  std::list<std::uint32_t> order;
  const auto find = [&](std::uint32_t id) { return std::find(order.begin(), order.end(), id); };
  std::uint64_t hits = 0;
  for (const Request& request : trace.requests) {
    const auto blocks = trace.blocks(request);
    for (const std::uint32_t id : blocks) {
      if (find(id) == order.end()) break;
      ++hits;
    }
    for (std::size_t i = blocks.size(); i-- > 0;) {
      const auto at = find(blocks[i]);
      if (at != order.end() && !touch) continue;
      if (at != order.end()) order.erase(at);
      order.push_front(blocks[i]);
      if (order.size() > capacity) order.pop_back();
    }
  }
  return hits;
}

TEST(Residency, LruAndFifoAgreeWithPlainLists) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Trace trace = random_tree_trace(seed, 300, 60, 12);
    for (const std::size_t capacity : {1U, 5U, 20U, 50U}) {
      EXPECT_EQ(residency_hits(trace, ResidencyPolicy::lru, capacity),
                plain_hits(trace, capacity, true));
      EXPECT_EQ(residency_hits(trace, ResidencyPolicy::fifo, capacity),
                plain_hits(trace, capacity, false));
    }
  }
}

TEST(Residency, ExclusiveTiersHitAsOftenAsOneLruOfTheirSum) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Trace trace = random_tree_trace(seed, 300, 60, 12);
    const TierSplit split = residency_tiers(trace, 7, 11, 13);
    EXPECT_EQ(split.hot, residency_hits(trace, ResidencyPolicy::lru, 7));
    EXPECT_EQ(split.hot + split.warm, residency_hits(trace, ResidencyPolicy::lru, 18));
    EXPECT_EQ(split.hot + split.warm + split.cold, residency_hits(trace, ResidencyPolicy::lru, 31));
  }
}

TEST(Residency, AnUnknownPolicyIsRefusedWithThoseThatExist) {
  const auto policy = parse_residency_policy("clock");
  ASSERT_FALSE(policy);
  EXPECT_NE(policy.error().what.find("lru, fifo, opt"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
