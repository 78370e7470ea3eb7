// Simulated and driven runs decide the same, and a driver that lies or a disk that flips a bit turns the comparison red.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "io/posix_disk.h"
#include "io/temporary_directory.h"
#include "kv/record.h"
#include "replay/drive_executor.h"
#include "replay/replay_run.h"
#include "replay/replay_testing.h"

namespace tiercel {
namespace {

// A driver with a say in what really happens.
class LyingExecutor : public DriveExecutor {
 public:
  explicit LyingExecutor(const Options& options) : DriveExecutor(options) {}
  using DriveExecutor::set_up;
};

class SkipsOneLoad final : public LyingExecutor {
 public:
  using LyingExecutor::LyingExecutor;

 protected:
  bool really_loads(const Action& action) override {
    return action.to != TierId::hot || ++loads_ != 50;
  }

 private:
  int loads_ = 0;
};

class ReadsANeighbour final : public LyingExecutor {
 public:
  using LyingExecutor::LyingExecutor;

 protected:
  Place really_read_place(const Action& action) override {
    Place place = action.source;
    if (action.from == TierId::cold && place.offset > kRecordAlignment && ++loads_ == 20)
      place.offset -= place.bytes;
    return place;
  }

 private:
  int loads_ = 0;
};

// Flips one bit in the record on disk just before its first load.
class FlipsABit final : public LyingExecutor {
 public:
  FlipsABit(const Options& options, std::string directory)
      : LyingExecutor(options), directory_(std::move(directory)) {}

 protected:
  bool really_loads(const Action& action) override {
    if (action.from != TierId::cold || ++loads_ != 20) return true;
    const std::string path = directory_ + "/" + segment_file_name(action.source.segment);
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    char byte = 0;
    const auto at = static_cast<off_t>(action.source.offset + kRecordAlignment + 777);
    EXPECT_EQ(::pread(file, &byte, 1, at), 1);
    byte = static_cast<char>(byte ^ 4);
    EXPECT_EQ(::pwrite(file, &byte, 1, at), 1);
    EXPECT_EQ(::fsync(file), 0);
    ::close(file);
    return true;
  }

 private:
  const std::string directory_;
  int loads_ = 0;
};

class Drive : public testing::Test {
 protected:
  Drive()
      : trace_(random_tree_trace(5, 900, 1500, 20)),
        keys_(trace_keys(trace_, 512)),
        scaled_(*scale_placement(placement_, 0)) {}

  ReplayOutcome replay(Executor& executor) {
    auto outcome = run_replay(placement_, scaled_, trace_, keys_, executor, {});
    EXPECT_TRUE(outcome) << outcome.error().what;
    return std::move(*outcome);
  }

  ReplayOutcome simulate() {
    SimulatedExecutor executor;
    return replay(executor);
  }

  template <class Driver, class... Extra>
  ReplayOutcome drive(Extra... extra) {
    Driver executor(options(), extra...);
    const auto ready = executor.set_up(disk_);
    EXPECT_TRUE(ready) << ready.error().what;
    return replay(executor);
  }

  DriveExecutor::Options options() const {
    return {.scaled = scaled_,
            .block_tokens = 512,
            .fingerprint = replay_fingerprint(512),
            .store_directory = store()};
  }
  std::string store() const { return directory_.path() + "/store"; }

  const Placement placement_ = small_placement();
  const Trace trace_;
  const std::vector<Key> keys_;
  const ScaledPlacement scaled_;
  const TemporaryDirectory directory_;
  PosixDisk disk_;
};

TEST_F(Drive, DecidesAsTheSimulationDoesAndDeliversEveryByte) {
  const ReplayOutcome simulated = simulate();
  const ReplayOutcome driven = drive<LyingExecutor>();
  EXPECT_EQ(driven.decisions_sha256, simulated.decisions_sha256);
  EXPECT_EQ(driven.hits.hot, simulated.hits.hot);
  EXPECT_EQ(driven.hits.warm, simulated.hits.warm);
  EXPECT_EQ(driven.hits.cold, simulated.hits.cold);
  EXPECT_EQ(driven.wrong_bytes, 0U);
  EXPECT_EQ(driven.errors, 0U);
  EXPECT_GT(driven.delivered, 300U);
  // The run went everywhere: all tiers hit, segments reclaimed, blocks moved.
  EXPECT_GT(driven.hits.hot, 0U);
  EXPECT_GT(driven.hits.warm, 50U);
  EXPECT_GT(driven.hits.cold, 100U);
  EXPECT_GT(driven.reclaims, 2U);
  EXPECT_GT(driven.moved_cold, 0U);
  EXPECT_LE(driven.peak_cold_bytes, scaled_.cold_bytes);
  EXPECT_LE(driven.peak_warm_bytes, scaled_.core.warm_bytes);
}

TEST_F(Drive, AnExecutorThatSkipsOneLoadTurnsTheDigestAndTheBytesRed) {
  const ReplayOutcome simulated = simulate();
  const ReplayOutcome driven = drive<SkipsOneLoad>();
  EXPECT_NE(driven.decisions_sha256, simulated.decisions_sha256);
  EXPECT_GT(driven.wrong_bytes, 0U);
}

TEST_F(Drive, AnExecutorThatReadsTheNeighbouringSlotIsCaughtBeforeDelivery) {
  const ReplayOutcome simulated = simulate();
  const ReplayOutcome driven = drive<ReadsANeighbour>();
  EXPECT_NE(driven.decisions_sha256, simulated.decisions_sha256);
  EXPECT_EQ(driven.errors, 1U);
  EXPECT_EQ(driven.wrong_bytes, 0U);
}

TEST_F(Drive, ABitFlippedOnDiskIsAnErrorRecomputedAndNeverDelivered) {
  const ReplayOutcome honest = drive<LyingExecutor>();
  const ReplayOutcome flipped = drive<FlipsABit>(store());
  EXPECT_GE(flipped.errors, 1U);  // Once per load of the record: the decisions keep it.
  EXPECT_EQ(flipped.wrong_bytes, 0U);
  EXPECT_EQ(flipped.delivered, honest.delivered - flipped.errors);
  EXPECT_EQ(flipped.decisions_sha256, honest.decisions_sha256)
      << "a real error must not reach the decisions";
}

// Ends every paced wait late, as a machine would that is too slow for the pace.
class SlowMachine final : public LyingExecutor {
 public:
  using LyingExecutor::LyingExecutor;

 protected:
  bool really_loads(const Action&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return true;
  }
};

TEST_F(Drive, AtAPaceLateCountsOperationsThatEndLateNotThoseThatAreAskedForLate) {
  // A link of 500 virtual ms at fifty times real time: 10 real ms for a copy of microseconds.
  Placement slow_link = placement_;
  slow_link.warm.link.latency_ns = 500'000'000;
  slow_link.cold = {};
  const auto scaled = scale_placement(slow_link, 0);
  ASSERT_TRUE(scaled);
  Trace trace = random_tree_trace(9, 60, 60, 6);
  for (Request& request : trace.requests) request.arrival_ns /= 2;
  const auto keys = trace_keys(trace, 512);
  const auto paced = [&](auto& executor) {
    EXPECT_TRUE(executor.set_up(disk_));
    auto outcome = run_replay(slow_link, *scaled, trace, keys, executor, {.pace = 50});
    EXPECT_TRUE(outcome);
    return std::move(*outcome);
  };
  const DriveExecutor::Options own{
      .scaled = *scaled, .block_tokens = 512, .fingerprint = replay_fingerprint(512)};
  LyingExecutor honest(own);
  const ReplayOutcome outcome = paced(honest);
  EXPECT_GT(outcome.hits.warm, 0U);
  // A busy test machine may stop this process for a while; a driver that stamps ends when it is asked is late every time.
  EXPECT_LT(outcome.late, outcome.delivered / 2);
  for (const double seconds : outcome.measured->warm_s)
    EXPECT_LT(seconds, 0.5) << "virtual time taken for measured";
  SlowMachine slow(own);
  EXPECT_GT(paced(slow).late, 0U);
}

TEST_F(Drive, RefusesToEmptyADirectoryThatIsNotItsOwnStore) {
  std::filesystem::create_directories(store());
  const std::string precious = store() + "/precious.txt";
  const int file = ::open(precious.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  ::close(file);
  const auto executor = DriveExecutor::open(disk_, options());
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().what.find("store"), std::string::npos) << executor.error().what;
  EXPECT_TRUE(std::filesystem::exists(precious));
}

TEST_F(Drive, WhatEmptyingFreesIsWhatTheSegmentsTakeOfTheDisk) {
  const auto nothing = reusable_store_bytes(disk_, store());
  ASSERT_TRUE(nothing) << nothing.error().what;
  EXPECT_EQ(*nothing, 0U);
  drive<LyingExecutor>();
  std::uint64_t taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(store())) {
    if (!entry.path().filename().string().starts_with("segment-")) continue;
    struct stat status {};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    taken += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  ASSERT_GT(taken, 0U);
  EXPECT_EQ(*reusable_store_bytes(disk_, store()), taken);
  // Segments without a superblock are nobody's: they will not be emptied, so they free nothing.
  std::filesystem::remove(store() + "/store.meta");
  EXPECT_EQ(*reusable_store_bytes(disk_, store()), 0U);
}

TEST_F(Drive, TheSimulationItselfFollowsThePlacement) {
  Placement other = placement_;
  other.warm.bytes += 6 * 64 * kMiB;
  const auto scaled = scale_placement(other, 0);
  ASSERT_TRUE(scaled);
  SimulatedExecutor executor;
  const auto outcome = run_replay(other, *scaled, trace_, keys_, executor, {});
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->decisions_sha256, simulate().decisions_sha256);
}

}  // namespace
}  // namespace tiercel
