// A cold tier on a simulated disk, for tests: segments so small that a few hundred steps of the disk fill, seal and reclaim
// them all. One such tier at a time: they share their staging memory.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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
    options_ = {.geometry = {.capacity_bytes = kSegments * (kSegmentBytes + kSegmentSlackBytes) +
                                               kStoreMetadataBytes,
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
    AlignedBytes back(record.bytes.size(), std::byte{0x5a});
    if (place.bytes != back.size()) {
      if (wrong != nullptr) *wrong = true;
      return {};
    }
    Completion completion = run_one(record.load(place, back.span()));
    const bool differs = completion.outcome == Outcome::delivered &&
                         !std::ranges::equal(back.span(), record.bytes.span());
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

}  // namespace tiercel
