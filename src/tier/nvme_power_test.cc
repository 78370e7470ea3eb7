// The power goes off after every single step of a workload that fills, commits, seals and reclaims; whatever the disk then has
// of what was not synced, every acknowledged record is back, and nothing wrong is ever delivered. Again during the recovery.
#include <cinttypes>
#include <cstdio>
#include <deque>

#include "tier/nvme_sim_testing.h"

namespace tiercel {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr std::uint64_t kEvery = 7;  // Slow builds take a sample of the steps.
#else
constexpr std::uint64_t kEvery = 1;
#endif
constexpr std::uint64_t kEveryForRecovery = 5 * kEvery;
constexpr std::size_t kRecords = 400;  // About four times what the store holds.

const std::vector<TestRecord>& records() {
  static const std::vector<TestRecord> made = [] {
    std::vector<TestRecord> list;
    Rng rng(5);
    for (std::size_t i = 0; i < kRecords; ++i) {  // Two to four pages.
      const std::uint32_t chunks = 1 + i % 2;
      list.push_back(make_test_record(i + 1, 1 + rng.below((4 - chunks) * kPageBytes), chunks));
    }
    return list;
  }();
  return made;
}

struct LossCase {
  LossMode mode;
  std::uint64_t seed;
};
constexpr LossCase kLosses[] = {{LossMode::keep, 1},    {LossMode::drop, 1},
                                {LossMode::torn, 1},    {LossMode::torn, 2},
                                {LossMode::reorder, 1}, {LossMode::reorder, 2}};

// What the user of the store was told.
struct Ledger {
  std::map<std::size_t, Place> stored;   // Delivered, but no commit yet.
  std::map<std::size_t, Place> durable;  // Covered by a completed commit, not reclaimed since.
  std::set<std::size_t> submitted;
  std::vector<std::string> violations;
  bool finished = false;
};

// Smooth: the disk does what it is asked. Rough: stores also miss their deadlines before they begin, and some writes end in
// ENOSPC with a part of them done.
enum class Ride : std::uint8_t { smooth, rough };

// Drives the tier as the core does: one open segment, seal when it is full, reclaim the oldest when none is free.
class Workload {
 public:
  Workload(SimDisk& disk, std::uint64_t seed, Ride ride = Ride::smooth)
      : disk_(disk), store_(disk), rng_(seed), rough_(ride == Ride::rough) {
    store_.clock().advance_ns(1000);
    for (int i = 0; rough_ && i < 3; ++i) {
      disk.add_fault({.op = SimOp::write,
                      .path_part = "segment-",
                      .skip = rng_.below(60),
                      .os_errno = ENOSPC,
                      .bytes_done = rng_.below(32) * 512});
    }
  }

  Ledger run() {
    if (alive(store_.open())) {
      start_segment();
      while (next_ < records().size() && step()) {
      }
      if (next_ == records().size()) ledger_.finished = batch({{.type = OpType::commit}});
    }
    store_.close();
    return std::move(ledger_);
  }

 private:
  template <class T>
  bool alive(const Result<T>& result) {
    if (!result && disk_.powered()) ledger_.violations.push_back(result.error().what);
    return result.has_value();
  }

  bool step() {
    std::vector<Op> ops;
    for (std::uint64_t left = 1 + rng_.below(5); left > 0 && next_ < records().size(); --left) {
      const std::uint64_t bytes = records()[next_].bytes.size();
      if (!segment_has_room(SimStore::kSegmentBytes, end_, bytes, count_ + 1)) {
        if (!batch(std::move(ops)) || !change_segment()) return false;
        ops.clear();
      }
      ops.push_back(records()[next_].store({.segment = segment_, .offset = end_, .bytes = bytes}));
      if (rough_ && rng_.chance(0.1)) ops.back().deadline_ns = 1;
      ledger_.submitted.insert(next_++);
      end_ += bytes;
      ++count_;
      if (rng_.chance(0.15)) ops.push_back({.type = OpType::commit});
    }
    if (rng_.chance(0.3)) ops.push_back({.type = OpType::commit});
    return batch(std::move(ops)) && look_at_one();
  }

  // False once the power is off.
  bool batch(std::vector<Op> ops) {
    if (ops.empty()) return true;
    const auto done = store_.run(ops);
    const std::size_t first =
        next_ - static_cast<std::size_t>(std::ranges::count(ops, OpType::store, &Op::type));
    std::size_t record = first;
    bool good = true;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const bool delivered = done[i].outcome == Outcome::delivered;
      const bool may_fail =
          rough_ && ops[i].type == OpType::store &&
          (done[i].error.code == Errc::cancelled || done[i].error.code == Errc::no_space);
      // A rough ride ends early where a write that failed carried a segment's header: no commit succeeds from then on.
      if (!delivered && disk_.powered() && !rough_)
        ledger_.violations.push_back(done[i].error.what);
      good = good && (delivered || may_fail);
      if (ops[i].type == OpType::store && delivered) ledger_.stored[record] = ops[i].place;
      if (ops[i].type == OpType::store) ++record;
      if (ops[i].type == OpType::commit && delivered) {  // Covers the stores before it.
        ledger_.durable.merge(ledger_.stored);
        ledger_.stored.clear();
      }
    }
    return good && disk_.powered();
  }

  bool change_segment() {
    if (!batch({{.type = OpType::seal, .place = {.segment = segment_}}})) return false;
    sealed_.push_back(segment_);
    if (made_ < SimStore::kSegments) {
      start_segment();
      return true;
    }
    segment_ = sealed_.front();
    sealed_.pop_front();
    const auto there = [&](const auto& entry) { return entry.second.segment == segment_; };
    if (std::ranges::any_of(ledger_.stored, there) && !batch({{.type = OpType::commit}}))
      return false;
    std::erase_if(ledger_.durable, there);  // Given up before the tier is told.
    end_ = kSegmentHeaderBytes;
    count_ = 0;
    return batch({{.type = OpType::reclaim, .place = {.segment = segment_}}});
  }

  void start_segment() {
    segment_ = made_++;
    end_ = kSegmentHeaderBytes;
    count_ = 0;
  }

  bool look_at_one() {
    if (ledger_.durable.empty() || !rng_.chance(0.2)) return true;
    auto entry = ledger_.durable.begin();
    std::advance(entry, static_cast<std::ptrdiff_t>(rng_.below(ledger_.durable.size())));
    bool wrong = false;
    const Completion done = store_.load(records()[entry->first], entry->second, &wrong);
    if (wrong || (done.outcome != Outcome::delivered && disk_.powered()))
      ledger_.violations.push_back(fmt::format("record {} cannot be read", entry->first));
    return disk_.powered();
  }

  SimDisk& disk_;
  SimStore store_;
  Rng rng_;
  Ledger ledger_;
  const bool rough_;
  std::size_t next_ = 0;
  std::uint32_t segment_ = 0, made_ = 0;
  std::uint64_t end_ = kSegmentHeaderBytes, count_ = 0;
  std::deque<std::uint32_t> sealed_;
};

struct Audit {
  std::vector<std::string> violations;
  std::uint64_t found = 0;   // Records that were delivered.
  std::uint64_t torn = 0;    // Damaged ones that the recovery passed over.
  std::uint64_t ghosts = 0;  // Listed, not delivered: reclaimed and overwritten since.
};

// Opens the store and holds it against what the user was told.
Audit audit(SimDisk& disk, const Ledger& ledger) {
  Audit audit;
  audit.violations = ledger.violations;
  SimStore store(disk);
  if (const auto opened = store.open(); !opened) {
    audit.violations.push_back("open: " + opened.error().what);
    return audit;
  }
  audit.torn = store.recovered().torn;
  std::map<Key, std::size_t> known;
  for (const std::size_t i : ledger.submitted) known[records()[i].head.key] = i;
  std::set<std::size_t> found;
  for (const auto& [key, place] : store.places()) {
    const auto entry = known.find(key);
    if (entry == known.end()) {
      audit.violations.push_back("a record that nobody stored: " + hex(key));
      continue;
    }
    bool wrong = false;
    const Completion done = store.load(records()[entry->second], place, &wrong);
    if (wrong) audit.violations.push_back(fmt::format("record {} is wrong", entry->second));
    if (done.outcome == Outcome::delivered) {
      found.insert(entry->second);
    } else {
      ++audit.ghosts;
    }
  }
  for (const auto& [i, place] : ledger.durable) {
    if (!found.contains(i)) {
      audit.violations.push_back(fmt::format("record {} at {}:{} was acknowledged and is missing",
                                             i, place.segment, place.offset));
    }
  }
  audit.found = found.size();
  return audit;
}

std::string first_of(const std::vector<std::string>& sentences) {
  return sentences.empty() ? "" : fmt::format("{} (of {})", sentences[0], sentences.size());
}

std::uint64_t count_steps(std::uint64_t seed) {
  SimDisk disk({.seed = seed});
  const Ledger ledger = Workload(disk, seed).run();
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
      const Ledger ledger = Workload(disk, seed).run();
      ++cuts;
      most_durable = std::max<std::uint64_t>(most_durable, ledger.durable.size());
      for (const auto& [mode, loss_seed] : kLosses) {
        const auto next = disk.restarted(loss_seed * 10'000 + cut, mode);
        const Audit result = audit(*next, ledger);
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
    const Ledger ledger = Workload(disk, seed).run();
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
        ASSERT_EQ(first_of(audit(*next, ledger).violations), "") << where;
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
      const Ledger ledger = Workload(disk, seed, Ride::rough).run();
      ASSERT_EQ(first_of(ledger.violations), "") << "seed " << seed;
      steps = disk.steps();
      durable += ledger.durable.size();
      finished += ledger.finished ? 1 : 0;
    }
    for (std::uint64_t cut = seed % 7; cut <= steps; cut += 7 * kEvery) {
      SimDisk disk({.seed = seed});
      disk.cut_power_after(cut);
      const Ledger ledger = Workload(disk, seed, Ride::rough).run();
      ++cuts;
      for (const LossMode mode : {LossMode::drop, LossMode::torn, LossMode::reorder}) {
        const auto next = disk.restarted(cut, mode);
        ++points;
        ASSERT_EQ(first_of(audit(*next, ledger).violations), "")
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
    Ledger ledger = Workload(disk, seed).run();
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
                        .bytes = records().back().bytes.size()};
      for (const Completion& done :
           store.run({{.type = OpType::reclaim, .place = {.segment = segment}},
                      records().back().store(place),
                      {.type = OpType::commit}})) {
        ASSERT_EQ(done.outcome, Outcome::delivered) << done.error.what;
      }
      ledger.submitted.insert(records().size() - 1);
      ledger.durable[records().size() - 1] = place;
    }
    disk.restart(cut + 1, LossMode::drop);
    ASSERT_EQ(first_of(audit(disk, ledger).violations), "") << disk.describe_step(cut);
  }
}

// The control: on a disk that lies about syncs, the same workload and the same audit go red.
TEST(NvmePower, OnADiskThatLiesAboutSyncsTheSameAuditGoesRed) {
  SimDisk disk({.seed = 1});
  disk.add_fault({.op = SimOp::sync, .path_part = "segment-", .times = kForever, .os_errno = 0});
  const Ledger ledger = Workload(disk, 1).run();
  EXPECT_TRUE(ledger.finished);
  disk.restart(1, LossMode::drop);
  const Audit result = audit(disk, ledger);
  EXPECT_NE(first_of(result.violations).find("acknowledged and is missing"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
