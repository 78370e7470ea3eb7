// A cold tier on a simulated disk, for tests: segments so small that a few hundred steps of the disk fill, seal and reclaim
// them all. One such tier at a time: they share their staging memory.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "io/sim_disk.h"
#include "tier/nvme_tier.h"
#include "tier/test_record.h"

namespace tiercel {

inline constexpr const char* kSimStorePath = "/disk/store";

class SimStore {
 public:
  static constexpr std::uint64_t kSegmentBytes = 256 << 10;
  static constexpr std::uint64_t kRecordBytesMax = 16 << 10;
  static constexpr std::uint32_t kSegments = 5;

  explicit SimStore(SimDisk& disk) : disk_(disk) {
    options_ = {.geometry = {.capacity_bytes = store_bytes(kSegmentBytes, kSegments),
                             .segment_bytes = kSegmentBytes,
                             .record_bytes_max = kRecordBytesMax},
                .clock = &clock_,
                .queue_ops_max = 256,
                .depth = 8,
                .request_bytes_max = 48 << 10,
                .bytes_in_flight_max = 256 << 10,
                .bounce_slots = 2};
    static AlignedBytes staging(NvmeTier::staging_bytes(options_, options_.geometry));
    options_.staging = staging.span();
  }

  Result<void> open() {
    tier_.reset();
    auto opened = NvmeTier::open(disk_, kSimStorePath, options_);
    if (!opened) return opened.error();
    tier_ = std::move(opened->tier);
    recovered_ = std::move(opened->recovered);
    return {};
  }
  void close() { tier_.reset(); }

  NvmeOptions& options() { return options_; }
  ManualClock& clock() { return clock_; }
  NvmeTier& tier() { return *tier_; }
  const Recovered& recovered() const { return recovered_; }
  std::map<Key, Place> places() const {
    std::map<Key, Place> places;
    for (const RecoveredSegment& segment : recovered_.segments) {
      for (const RecoveredRecord& record : segment.records) places[record.key] = record.place;
    }
    return places;
  }

  // Submits and waits for all; completions in the order of the ops.
  std::vector<Completion> run(std::vector<Op> ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) ops[i].tag = i;
    const auto ticket = tier_->submit(ops);
    EXPECT_TRUE(ticket) << ticket.error().what;
    std::vector<Completion> done, by_tag(ops.size());
    for (int round = 0; ticket && done.size() < ops.size() && round < 10'000; ++round)
      tier_->wait(done, 1'000'000'000);
    EXPECT_EQ(done.size(), ops.size()) << "every op ends";
    for (Completion& completion : done) by_tag[completion.tag] = std::move(completion);
    return by_tag;
  }
  Completion run_one(Op op) { return run({std::move(op)})[0]; }
  Completion commit() { return run_one({.type = OpType::commit}); }

  // A load; `wrong` is set where what was delivered is not what was stored.
  Completion load(const TestRecord& record, const Place& place, bool* wrong = nullptr) {
    AlignedBytes back(record.bytes.size());
    if (place.bytes != back.size()) {
      if (wrong != nullptr) *wrong = true;
      return {};
    }
    Completion completion = run_one(record.load(place, back.span()));
    const bool differs =
        completion.outcome == Outcome::delivered &&
        std::memcmp(back.span().data(), record.bytes.span().data(), back.size()) != 0;
    if (wrong != nullptr) {
      *wrong = differs;
    } else {
      EXPECT_FALSE(differs) << "wrong bytes were delivered";
    }
    return completion;
  }

 private:
  SimDisk& disk_;
  ManualClock clock_;
  NvmeOptions options_;
  std::unique_ptr<NvmeTier> tier_;
  Recovered recovered_;
};

struct SimWritten {
  std::vector<TestRecord> records;
  std::vector<Place> places;
};

// Records of three pages, and where they go: back to back, from the start of `segment` on.
inline SimWritten make_sim_records(std::size_t count, std::uint32_t segment = 0,
                                   std::uint64_t seed = 1) {
  SimWritten made;
  std::uint64_t end = kSegmentHeaderBytes, in_segment = 0;
  for (std::size_t i = 0; i < count; ++i) {
    made.records.push_back(make_test_record(seed + i, 2 * kPageBytes));
    const std::uint64_t bytes = made.records.back().bytes.size();
    if (!segment_has_room(SimStore::kSegmentBytes, end, bytes, ++in_segment)) {
      ++segment;
      end = kSegmentHeaderBytes;
      in_segment = 1;
    }
    made.places.push_back({.segment = segment, .offset = end, .bytes = bytes});
    end += bytes;
  }
  return made;
}
inline constexpr std::size_t kSimRecordsPerSegment = 20;  // Of three pages.

// Stores them in batches of four; the outcomes.
inline std::vector<Completion> store_all(SimStore& store, const SimWritten& made) {
  std::vector<Completion> outcomes;
  for (std::size_t first = 0; first < made.records.size(); first += 4) {
    std::vector<Op> ops;
    for (std::size_t i = first; i < std::min(first + 4, made.records.size()); ++i)
      ops.push_back(made.records[i].store(made.places[i]));
    std::ranges::move(store.run(std::move(ops)), std::back_inserter(outcomes));
  }
  return outcomes;
}

// The same where nothing may go wrong, then a commit.
inline SimWritten store_durably(SimStore& store, std::size_t count, std::uint32_t segment = 0,
                                std::uint64_t seed = 1) {
  SimWritten made = make_sim_records(count, segment, seed);
  for (const Completion& done : store_all(store, made))
    EXPECT_EQ(done.outcome, Outcome::delivered) << done.error.what;
  EXPECT_EQ(store.commit().outcome, Outcome::delivered);
  return made;
}

// What a store that was opened again knows of records. Wrong bytes fail the test here.
struct SimFound {
  std::size_t delivered = 0;
  std::size_t refused = 0;  // Listed by the recovery, but the load was no delivery.
  std::size_t missing = 0;  // Not listed.
};
inline SimFound look_for(SimStore& store, const SimWritten& written) {
  SimFound found;
  const auto places = store.places();
  for (std::size_t i = 0; i < written.records.size(); ++i) {
    const auto place = places.find(written.records[i].head.key);
    if (place == places.end()) {
      ++found.missing;
      continue;
    }
    const Completion done = store.load(written.records[i], place->second);
    ++(done.outcome == Outcome::delivered ? found.delivered : found.refused);
  }
  return found;
}

// A store that is open on a disk of its own.
class SimStoreTest : public testing::Test {
 protected:
  SimStoreTest() { open(); }

  void open() {
    const auto opened = store_.open();
    ASSERT_TRUE(opened) << opened.error().what;
  }
  Completion store_one(std::uint64_t seed, std::uint32_t segment) {
    const SimWritten made = make_sim_records(1, segment, seed);
    return store_.run_one(made.records[0].store(made.places[0]));
  }
  static std::size_t count(const std::vector<Completion>& done, Outcome outcome) {
    return static_cast<std::size_t>(std::ranges::count(done, outcome, &Completion::outcome));
  }

  SimDisk disk_;
  SimStore store_{disk_};
};

}  // namespace tiercel
