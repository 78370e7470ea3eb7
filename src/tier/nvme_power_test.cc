// The power goes off after every single step of a workload that fills, commits, seals and reclaims; whatever the disk then has
// of what was not synced, every acknowledged record is back, and nothing wrong is ever delivered. Again during the recovery.
#include <cinttypes>
#include <cstdio>

#include "tier/nvme_power_workload.h"

namespace tiercel {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr std::uint64_t kEvery = 7;  // Slow builds take a sample of the steps.
#else
constexpr std::uint64_t kEvery = 1;
#endif
constexpr std::uint64_t kEveryForRecovery = 5 * kEvery;

struct LossCase {
  LossMode mode;
  std::uint64_t seed;
};
constexpr LossCase kLosses[] = {{LossMode::keep, 1},    {LossMode::drop, 1},
                                {LossMode::torn, 1},    {LossMode::torn, 2},
                                {LossMode::reorder, 1}, {LossMode::reorder, 2}};

std::uint64_t count_steps(std::uint64_t seed) {
  SimDisk disk({.seed = seed});
  const PowerLedger ledger = PowerWorkload(disk, seed).run();
  EXPECT_TRUE(ledger.finished);
  EXPECT_EQ(first_of(ledger.violations), "");
  return disk.steps();
}

TEST(NvmePower, EveryAcknowledgedRecordSurvivesAPowerCutAfterEveryStep) {
  std::uint64_t cuts = 0, points = 0, found = 0, torn = 0, ghosts = 0, most_durable = 0;
  for (const std::uint64_t seed : {1, 2}) {
    const std::uint64_t steps = count_steps(seed);
    EXPECT_GT(steps, 200U);
    for (std::uint64_t cut = 0; cut <= steps; cut += kEvery) {
      SimDisk disk({.seed = seed});
      disk.cut_power_after(cut);
      const PowerLedger ledger = PowerWorkload(disk, seed).run();
      ++cuts;
      most_durable = std::max<std::uint64_t>(most_durable, ledger.durable.size());
      for (const auto& [mode, loss_seed] : kLosses) {
        const auto next = disk.restarted(loss_seed * 10'000 + cut, mode);
        const PowerAudit result = audit_power(*next, ledger);
        ++points;
        found += result.found;
        torn += result.torn;
        ghosts += result.ghosts;
        ASSERT_EQ(first_of(result.violations), "")
            << "seed " << seed << ", cut after " << disk.describe_step(cut) << ", "
            << loss_mode_name(mode) << " " << loss_seed;
      }
    }
  }
  std::printf("power cuts: %" PRIu64 " steps, %" PRIu64 " restarts, %" PRIu64
              " records found whole, %" PRIu64 " torn, %" PRIu64
              " told of but reclaimed and overwritten\n",
              cuts, points, found, torn, ghosts);
  EXPECT_GT(torn, 100U / kEvery) << "the disk did tear writes";
  EXPECT_GT(most_durable, 60U);
}

TEST(NvmePower, AndSurvivesPowerCutsDuringTheRecovery) {
  std::uint64_t cuts = 0, points = 0;
  const std::uint64_t seed = 3, steps = count_steps(seed);
  for (std::uint64_t cut = 5; cut <= steps; cut += kEveryForRecovery) {
    SimDisk disk({.seed = seed});
    disk.cut_power_after(cut);
    const PowerLedger ledger = PowerWorkload(disk, seed).run();
    ++cuts;
    for (const LossMode mode : {LossMode::torn, LossMode::reorder}) {
      std::uint64_t recovery_steps = 0;
      {
        const auto whole = disk.restarted(cut, mode);
        ASSERT_TRUE(SimStore(*whole).open());
        recovery_steps = whole->steps();
      }
      EXPECT_GT(recovery_steps, 3U);
      for (std::uint64_t again = 0; again <= recovery_steps; ++again) {
        const auto next = disk.restarted(cut, mode);
        next->cut_power_after(again);
        static_cast<void>(SimStore(*next).open());
        const std::string where =
            fmt::format("cut after {}, recovery cut after {}, {}", disk.describe_step(cut),
                        next->describe_step(again), loss_mode_name(mode));
        next->restart(again, again % 2 == 0 ? LossMode::torn : LossMode::reorder);
        ++points;
        ASSERT_EQ(first_of(audit_power(*next, ledger).violations), "") << where;
      }
    }
  }
  std::printf("power cuts during recovery: %" PRIu64 " first cuts, %" PRIu64 " second ones\n", cuts,
              points);
}

// Gaps, segments whose first store never came to be, headers that went out alone: the same law.
TEST(NvmePower, AndWhereStoresFailOnTheWay) {
  std::uint64_t cuts = 0, points = 0, durable = 0, finished = 0;
  for (std::uint64_t seed = 10; seed < 22; ++seed) {
    std::uint64_t steps = 0;
    {
      SimDisk disk({.seed = seed});
      const PowerLedger ledger = PowerWorkload(disk, seed, Ride::rough).run();
      ASSERT_EQ(first_of(ledger.violations), "") << "seed " << seed;
      steps = disk.steps();
      durable += ledger.durable.size();
      finished += ledger.finished ? 1 : 0;
    }
    for (std::uint64_t cut = seed % 7; cut <= steps; cut += 7 * kEvery) {
      SimDisk disk({.seed = seed});
      disk.cut_power_after(cut);
      const PowerLedger ledger = PowerWorkload(disk, seed, Ride::rough).run();
      ++cuts;
      for (const LossMode mode : {LossMode::drop, LossMode::torn, LossMode::reorder}) {
        const auto next = disk.restarted(cut, mode);
        ++points;
        ASSERT_EQ(first_of(audit_power(*next, ledger).violations), "")
            << "seed " << seed << ", cut after " << disk.describe_step(cut) << ", "
            << loss_mode_name(mode);
      }
    }
  }
  std::printf("power cuts with failing stores: %" PRIu64 " steps, %" PRIu64 " restarts, %" PRIu64
              " of 12 workloads ran to their end\n",
              cuts, points, finished);
  EXPECT_GT(durable, 200U);
  EXPECT_GT(finished, 2U);
}

// After a recovery the store goes on: what is stored then is as durable as before.
TEST(NvmePower, AStoreThatRecoveredTakesRecordsAgain) {
  const std::uint64_t seed = 4, steps = count_steps(seed);
  for (std::uint64_t cut = 3; cut <= steps; cut += kEvery) {
    SimDisk disk({.seed = seed});
    disk.cut_power_after(cut);
    PowerLedger ledger = PowerWorkload(disk, seed).run();
    disk.restart(cut, LossMode::torn);
    {
      SimStore store(disk);
      ASSERT_TRUE(store.open());
      std::set<std::uint32_t> used;
      for (const RecoveredSegment& segment : store.recovered().segments)
        used.insert(segment.segment);
      std::uint32_t segment = 0;  // A free one, or the oldest.
      while (used.contains(segment)) ++segment;
      if (segment == SimStore::kSegments) segment = store.recovered().segments[0].segment;
      std::erase_if(ledger.durable,
                    [&](const auto& entry) { return entry.second.segment == segment; });
      const Place place{.segment = segment,
                        .offset = kSegmentHeaderBytes,
                        .bytes = power_records().back().bytes.size()};
      for (const Completion& done :
           store.run({{.type = OpType::reclaim, .place = {.segment = segment}},
                      power_records().back().store(place),
                      {.type = OpType::commit}})) {
        ASSERT_EQ(done.outcome, Outcome::delivered) << done.error.what;
      }
      ledger.submitted.insert(power_records().size() - 1);
      ledger.durable[power_records().size() - 1] = place;
    }
    disk.restart(cut + 1, LossMode::drop);
    ASSERT_EQ(first_of(audit_power(disk, ledger).violations), "") << disk.describe_step(cut);
  }
}

// The control: on a disk that lies about syncs, the same workload and the same audit go red.
TEST(NvmePower, OnADiskThatLiesAboutSyncsTheSameAuditGoesRed) {
  SimDisk disk({.seed = 1});
  disk.add_fault({.op = SimOp::sync, .path_part = "segment-", .times = kForever, .os_errno = 0});
  const PowerLedger ledger = PowerWorkload(disk, 1).run();
  EXPECT_TRUE(ledger.finished);
  disk.restart(1, LossMode::drop);
  const PowerAudit result = audit_power(disk, ledger);
  EXPECT_NE(first_of(result.violations).find("acknowledged and is missing"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
