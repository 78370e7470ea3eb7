// The core against a world that keeps books: every action is carried out on maps of places, completions come in any order,
// and the world objects when a load reads what is not there, places overlap, or a capacity is exceeded.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "cache/core.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kPayload = 8192;
constexpr std::uint64_t kRecord = 12288;

Key key_of(std::uint32_t n) {
  Key key;
  const std::uint64_t mixed = mix64(n + 1);
  std::memcpy(key.bytes.data(), &mixed, 8);
  std::memcpy(key.bytes.data() + 8, &n, 4);
  return key;
}

// What lies where. A place is written when the copy completes; the source is read at the same moment.
class World {
 public:
  void carry_out(const Action& action) {
    switch (action.type) {
      case ActionType::compute:
        hot_[action.target.offset] = action.key;
        break;
      case ActionType::drop:
        ASSERT_EQ(tier(action.from).count(address(action.from, action.source)), 1U);
        ASSERT_EQ(tier(action.from)[address(action.from, action.source)], action.key);
        if (action.from != TierId::cold)
          tier(action.from).erase(address(action.from, action.source));
        break;
      case ActionType::reclaim:
        std::erase_if(
            cold_, [&](const auto& entry) { return entry.first >> 40 == action.source.segment; });
        for (const Action& pending : pending_) {
          ASSERT_FALSE(pending.from == TierId::cold && pending.type != ActionType::commit &&
                       pending.source.segment == action.source.segment)
              << "reclaimed under a reader";
        }
        break;
      case ActionType::seal:
        ASSERT_TRUE(sealed_.insert(action.source.segment).second || true);
        break;
      default:
        pending_.push_back(action);
        if (action.type == ActionType::store || action.type == ActionType::move) check_free(action);
    }
  }

  // One pending action, any of them, is over; the copy happens now.
  Action finish_one(Rng& rng, bool ok) {
    const std::size_t i = rng.below(pending_.size());
    const Action action = pending_[i];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    if (action.type == ActionType::commit || !ok) return action;
    if (action.from != TierId::caller) {
      const std::uint64_t source = address(action.from, action.source);
      EXPECT_EQ(tier(action.from).count(source), 1U)
          << action_name(action.type) << " from " << tier_name(action.from);
      EXPECT_EQ(tier(action.from)[source], action.key) << "another block's bytes";
    }
    if (action.to != TierId::caller)
      tier(action.to)[address(action.to, action.target)] = action.key;
    return action;
  }

  bool idle() const { return pending_.empty(); }
  std::size_t pending() const { return pending_.size(); }

 private:
  static std::uint64_t address(TierId tier, const Place& place) {
    return tier == TierId::cold ? (static_cast<std::uint64_t>(place.segment) << 40) + place.offset
                                : place.offset;
  }
  std::map<std::uint64_t, Key>& tier(TierId id) {
    return id == TierId::hot ? hot_ : id == TierId::warm ? warm_ : cold_;
  }
  // Nothing readable and nothing under way may be at a place that is being written.
  void check_free(const Action& action) {
    const std::uint64_t target = address(action.to, action.target);
    if (action.to == TierId::cold) {
      ASSERT_EQ(cold_.count(target), 0U) << "written over a record of this life";
    }
    for (std::size_t i = 0; i + 1 < pending_.size(); ++i) {
      ASSERT_FALSE(pending_[i].to == action.to && pending_[i].type != ActionType::commit &&
                   address(action.to, pending_[i].target) == target)
          << "two copies into one place";
    }
  }

  std::map<std::uint64_t, Key> hot_, warm_, cold_;
  std::vector<Action> pending_;
  std::set<std::uint32_t> sealed_;
};

CoreOptions small_options() {
  CoreOptions options;
  options.hot_bytes = 24 * kPayload;
  options.hot_block_bytes = kPayload;
  options.warm_bytes = 40 * kRecord;
  options.staging_bytes = 12 * kRecord;
  options.cold =
      ColdLog::Options{.geometry = {.segment_bytes = 4096 + 10 * kRecord + 4096, .segments_max = 6},
                       .sync_bytes = 5 * kRecord,
                       .sync_interval_ns = 1000,
                       .staging_bytes = 12 * kRecord};
  return options;
}

void drain(Core& core, World& world) {
  const std::vector<Action> actions = core.outbox().actions();
  core.outbox().clear();
  for (const Action& action : actions) world.carry_out(action);
}

struct Running {
  std::vector<BlockId> chain;
  std::vector<bool> owned;
  std::vector<Place> privates;
};

// A random forest of prompts: block n's parent is a random earlier block or none.
struct Forest {
  std::vector<BlockId> ids;
  std::vector<std::uint32_t> parents;

  std::vector<BlockId> chain_to(std::uint32_t n) const {
    std::vector<BlockId> chain;
    for (std::uint32_t i = n;; i = parents[i]) {
      chain.insert(chain.begin(), ids[i]);
      if (parents[i] == i) return chain;
    }
  }
};

Forest plant(Core& core, Rng& rng, std::uint32_t count) {
  Forest forest;
  for (std::uint32_t n = 0; n < count; ++n) {
    const bool root = n == 0 || rng.chance(0.1);
    const std::uint32_t parent =
        root ? n : static_cast<std::uint32_t>(n - 1 - rng.below(std::min(n, 6U)));
    forest.parents.push_back(parent);
    forest.ids.push_back(
        core.table().intern(key_of(n), root ? kNoBlock : forest.ids[parent], kPayload, kRecord));
  }
  return forest;
}

TEST(CoreModel, EngineUseNeverReadsAWrongPlaceWhateverTheOrderOfCompletions) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Core core(small_options());
    World world;
    const Forest forest = plant(core, rng, 300);
    std::vector<Running> running;
    std::uint64_t cold_hits = 0, warm_hits = 0;
    std::int64_t now_ns = 0;
    for (int step = 0; step < 6000; ++step) {
      core.advance(now_ns += static_cast<std::int64_t>(rng.below(300)));
      if (rng.chance(0.35)) {
        auto chain = forest.chain_to(static_cast<std::uint32_t>(rng.below(300)));
        if (chain.size() > 8) chain.resize(8);
        if (auto admission = core.admit(chain, static_cast<std::uint32_t>(chain.size()))) {
          cold_hits += admission->cold_hits;
          warm_hits += admission->warm_hits;
          Running r{.chain = chain, .owned = std::vector<bool>(chain.size(), false)};
          std::fill_n(r.owned.begin(), admission->hits(), true);
          const auto published = core.publish(chain, admission->hits(), admission->computed);
          for (std::size_t i = 0; i < published.size(); ++i) {
            if (published[i]) {
              r.owned[admission->hits() + i] = true;
            } else {
              r.privates.push_back(admission->computed[i]);
            }
          }
          core.store_down(chain);
          running.push_back(std::move(r));
        }
      } else if (rng.chance(0.4) && !running.empty()) {
        const std::size_t i = rng.below(running.size());
        const Running& r = running[i];
        for (std::size_t b = r.chain.size(); b-- > 0;) {
          if (r.owned[b]) core.disown(r.chain[b]);
        }
        for (const Place& place : r.privates) core.free_private(place);
        if (rng.chance(0.2)) {
          std::vector<BlockId> tail(r.chain.rbegin(), r.chain.rend());
          core.end_prompt(tail);
        }
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
      drain(core, world);
      while (!world.idle() && rng.chance(0.6)) {
        core.complete(world.finish_one(rng, true).op);
        drain(core, world);
      }
      if (HasFatalFailure()) return;
      ASSERT_LE(core.hot().used_bytes(), core.hot().capacity_bytes());
      ASSERT_LE(core.warm().used_bytes(), core.warm().capacity_bytes());
    }
    // The workload went everywhere it was meant to go.
    EXPECT_GT(warm_hits, 100U);
    EXPECT_GT(cold_hits, 20U);
    EXPECT_GT(core.cold()->counts().reclaims, 3U);
    EXPECT_GT(core.cold()->counts().moved, 0U);
    for (const Running& r : running) {
      for (std::size_t b = r.chain.size(); b-- > 0;) {
        if (r.owned[b]) core.disown(r.chain[b]);
      }
      for (const Place& place : r.privates) core.free_private(place);
    }
    while (!world.idle() || core.anything_uncommitted()) {
      core.advance(now_ns += 10000);
      drain(core, world);
      if (!world.idle()) core.complete(world.finish_one(rng, true).op);
      drain(core, world);
    }
    EXPECT_EQ(core.hot().available_bytes(), core.hot().capacity_bytes()) << "a pin has leaked";
    EXPECT_EQ(core.warm().available_bytes(), core.warm().capacity_bytes()) << "a pin has leaked";
  }
}

TEST(CoreModel, LibraryUseWithFailingTransfersForgetsBlocksButNeverDeliversAWrongOne) {
  std::uint64_t all_failed_moves = 0;
  for (const std::uint64_t seed : {11U, 12U, 13U, 14U, 15U, 16U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    CoreOptions options = small_options();
    options.hot_bytes = 0;
    Core core(options);
    World world;
    const Forest forest = plant(core, rng, 300);
    std::uint64_t delivered = 0, failed = 0, fetched = 0;
    std::vector<Pin> leases;
    std::uint64_t failed_moves = 0;
    std::int64_t now_ns = 0;
    for (int step = 0; step < 8000; ++step) {
      core.advance(now_ns += static_cast<std::int64_t>(rng.below(300)));
      const auto chain = forest.chain_to(static_cast<std::uint32_t>(rng.below(300)));
      if (rng.chance(0.4)) {
        if (chain.size() <= 10) core.put(chain);
      } else if (rng.chance(0.5)) {
        // Leases between match and fetch: without them the first fetch may evict what the next one wants.
        std::vector<Pin> matched;
        for (std::uint32_t i = 0, n = core.match(chain); i < n; ++i)
          matched.push_back(core.pin(chain[i]));
        for (const Pin& pin : matched) {
          ASSERT_TRUE(core.fetch(pin.id));
          ++fetched;
        }
        for (const Pin& pin : matched) core.unpin(pin);
      } else if (rng.chance(0.3)) {
        core.prefetch(chain.back());
      } else if (leases.size() < 6) {
        const Pin pin = core.pin(chain.back());
        if (pin.tier != TierId::none) leases.push_back(pin);
      } else {
        core.unpin(leases.front());
        leases.erase(leases.begin());
      }
      drain(core, world);
      while (!world.idle() && rng.chance(0.7)) {
        const bool ok = rng.chance(0.97);
        const Action action =
            world.finish_one(rng, true);  // A failed copy may still have left its bytes.
        const bool may_fail = action.type != ActionType::commit;
        failed_moves += action.type == ActionType::move && !ok ? 1 : 0;
        const Completed completed = core.complete(action.op, ok || !may_fail);
        // What has just proved bad is not offered again, although a lease may still pin it.
        if (!ok && action.type == ActionType::load && action.from == TierId::warm) {
          ASSERT_NE(core.fastest_tier(action.block), TierId::warm);
        }
        if (action.to == TierId::caller) (completed.ok ? delivered : failed) += 1;
        failed += completed.failed_fetches;
        drain(core, world);
      }
      if (HasFatalFailure()) return;
    }
    for (const Pin& pin : leases) core.unpin(pin);
    while (!world.idle() || core.anything_uncommitted()) {
      core.advance(now_ns += 10000);
      drain(core, world);
      if (world.idle()) continue;
      const Action action = world.finish_one(rng, true);
      const Completed completed = core.complete(action.op);
      if (action.to == TierId::caller) ++delivered;
      failed += completed.failed_fetches;
      drain(core, world);
    }
    EXPECT_EQ(delivered + failed, fetched)
        << "every fetch ends as exactly one of delivered and error";
    EXPECT_GT(failed, 10U);
    all_failed_moves += failed_moves;
    EXPECT_GT(core.cold()->counts().stored, 100U);
    EXPECT_EQ(core.warm().available_bytes(), core.warm().capacity_bytes()) << "a pin has leaked";
  }
  EXPECT_GT(all_failed_moves, 0U);
}

TEST(CoreModel, AfterAFailedCommitNothingOfItIsPublishedAndNothingMoreIsStoredButReadsGoOn) {
  for (const std::uint64_t seed : {21U, 22U, 23U, 24U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    CoreOptions options = small_options();
    options.hot_bytes = 0;
    Core core(options);
    World world;
    const Forest forest = plant(core, rng, 300);
    std::vector<BlockId> durable;  // In cold when the commit failed.
    std::uint64_t read = 0;
    std::int64_t now_ns = 0;
    bool broken = false;
    for (int step = 0; step < 3000; ++step) {
      core.advance(now_ns += static_cast<std::int64_t>(rng.below(300)));
      const auto chain = forest.chain_to(static_cast<std::uint32_t>(rng.below(300)));
      if (chain.size() <= 10 && rng.chance(0.6)) {
        core.put(chain);
      } else if (core.fastest_tier(chain.back()) != TierId::none) {
        ASSERT_TRUE(core.fetch(chain.back()));
      }
      drain(core, world);
      while (!world.idle() && rng.chance(0.7)) {
        const Action action = world.finish_one(rng, true);
        const bool fails = action.type == ActionType::commit && (broken || step > 1500);
        if (fails && !broken) {
          for (const BlockId id : forest.ids) {
            if (core.table()[id].cold == Presence::present) durable.push_back(id);
          }
          broken = true;
          core.complete(action.op, false);
          for (const BlockId id : forest.ids) {
            const bool was = std::find(durable.begin(), durable.end(), id) != durable.end();
            ASSERT_TRUE(was || core.table()[id].cold != Presence::present)
                << "published without a commit";
          }
        } else {
          ASSERT_FALSE(fails) << "a commit after the failed one";
          core.complete(action.op, true);
          read += broken && action.type == ActionType::load && action.from == TierId::cold ? 1 : 0;
        }
        drain(core, world);
      }
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(broken);
    EXPECT_FALSE(core.cold()->writable());
    EXPECT_GT(core.counts().skipped_failed, 0U);
    EXPECT_GT(read, 10U);
    while (!world.idle()) {
      core.complete(world.finish_one(rng, true).op);
      drain(core, world);
    }
    EXPECT_FALSE(core.anything_uncommitted());
    EXPECT_EQ(core.warm().available_bytes(), core.warm().capacity_bytes()) << "a pin has leaked";
  }
}

TEST(CoreModel, AHintEndsATreeOnlyUpToWhatOthersShare) {
  CoreOptions options = small_options();
  options.hot_bytes = 0;
  options.cold.reset();
  Core core(options);
  World world;
  // 0 <- 1 <- {2, 3}, 2 <- 4; 1 and 2 carry a second kind each (11, 12).
  const auto make = [&](std::uint32_t n, BlockId parent) {
    return core.table().intern(key_of(n), parent, kPayload, kRecord);
  };
  const BlockId b0 = make(0, kNoBlock), b1 = make(1, b0), b2 = make(2, b1), b3 = make(3, b1),
                b4 = make(4, b2);
  const BlockId k1 = make(11, b1), k2 = make(12, b2);
  ASSERT_TRUE(core.put(std::vector<BlockId>{b0, b1, k1, b2, k2, b3, b4}));
  drain(core, world);
  Rng rng(1);
  while (!world.idle()) core.complete(world.finish_one(rng, true).op);
  core.end_prompt(std::vector<BlockId>{b4, k2, b2, k1, b1, b0});
  EXPECT_TRUE(core.table()[b4].ended && core.table()[k2].ended && core.table()[b2].ended);
  EXPECT_FALSE(core.table()[b1].ended) << "3 goes on from it";
  EXPECT_FALSE(core.table()[b0].ended);
}

}  // namespace
}  // namespace tiercel
