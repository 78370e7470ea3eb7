// The scrub: finds what nobody asks for, in its own time, and never mistakes a new life for damage.
#include "tier/nvme_restart_testing.h"
#include "tier/nvme_sim_testing.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kRate = 8 << 20;

class ScrubTest : public testing::Test {
 protected:
  ScrubTest() {
    written_ = write_records(harness_, 150);  // Two segments.
    harness_.commit();
    harness_.reopen();  // Seals both.
    harness_.close();
    NvmeOptions options = harness_.options();
    options.scrub_bytes_per_s = kRate;
    auto opened = NvmeTier::open(harness_.disk(), harness_.directory(), options);
    EXPECT_TRUE(opened) << opened.error().what;
    tier_ = std::move(opened->tier);
  }

  // Lets `seconds` of the tier's time pass in steps; what is read is waited for, not slept for.
  void pass(double seconds) {
    for (int step = 0; step < static_cast<int>(seconds * 100); ++step) {
      static_cast<ManualClock&>(harness_.clock()).advance_ns(10'000'000);
      tier_->poll(done_);
      tier_->wait(done_, 1'000'000'000);
    }
  }
  std::uint64_t scrubbed() const { return tier_->stats().scrubbed_bytes; }
  Errc load(std::size_t i) {
    AlignedBytes back(written_.records[i].bytes.size());
    const Op op = written_.records[i].load(written_.places[i], back.span());
    EXPECT_TRUE(tier_->submit(std::span(&op, 1)));
    done_.clear();
    while (done_.empty()) tier_->wait(done_, 1'000'000'000);
    return done_[0].outcome == Outcome::delivered ? Errc{} : done_[0].error.code;
  }

  NvmeHarness harness_;
  Written written_;
  std::unique_ptr<NvmeTier> tier_;
  std::vector<Completion> done_;
};

TEST_F(ScrubTest, FindsABadRecordBeforeAnybodyAsksForIt) {
  for (const std::size_t bad : {5U, 149U}) harness_.flip_bit(written_.places[bad], 60'000);
  harness_.flip_bit(written_.places[20], kPlacementOffset + 3);
  pass(4);
  const auto findings = tier_->take_findings();
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].key, written_.records[5].head.key);
  EXPECT_EQ(findings[0].place, written_.places[5]);
  EXPECT_EQ(findings[0].error.code, Errc::corrupt);
  EXPECT_EQ(findings[1].place, written_.places[20]);
  EXPECT_EQ(findings[2].place, written_.places[149]);
  EXPECT_TRUE(tier_->take_findings().empty());
  EXPECT_EQ(tier_->stats().quarantined, 3U);
  EXPECT_GE(tier_->stats().scrub_rounds, 1U);
  pass(3);
  EXPECT_TRUE(tier_->take_findings().empty()) << "each is told once";
  EXPECT_TRUE(tier_->checkpoint_due());
  const Op op{.type = OpType::checkpoint};
  ASSERT_TRUE(tier_->submit(std::span(&op, 1)));
  done_.clear();
  while (done_.empty()) tier_->wait(done_, 1'000'000'000);
  tier_.reset();
  expect_found(harness_, harness_.reopen(), written_, {5, 20, 149});
}

TEST_F(ScrubTest, FindsNothingInAGoodStoreHoweverOftenItGoesRound) {
  pass(8);
  EXPECT_GE(tier_->stats().scrub_rounds, 3U);
  EXPECT_GE(scrubbed(), 3 * 150 * written_.places[0].bytes);
  EXPECT_TRUE(tier_->take_findings().empty());
  EXPECT_EQ(tier_->stats().corrupt, 0U);
  EXPECT_EQ(load(3), Errc{});
}

TEST_F(ScrubTest, KeepsItsRateByTheTiersClock) {
  tier_->poll(done_);
  pass(0.5);
  const std::uint64_t half_a_second = kRate / 2, one_request = kScrubRequestBytes + 200'000;
  EXPECT_LE(scrubbed(), half_a_second + 2 * one_request);
  EXPECT_GE(scrubbed(), half_a_second / 2);
  const std::uint64_t before = scrubbed();
  for (int i = 0; i < 1000; ++i) tier_->poll(done_);  // No time passes.
  EXPECT_LE(scrubbed(), before + one_request);
}

TEST_F(ScrubTest, AsksForAMegabyteAtATimeAndOneAfterTheOther) {
  std::uint64_t under_way = 0, most_under_way = 0, largest = 0, requests = 0;
  harness_.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
    std::uint64_t bytes = 0;
    for (const IoPiece& piece : request.pieces) bytes += piece.bytes;
    largest = std::max(largest, bytes);
    most_under_way = std::max(most_under_way, ++under_way);
    ++requests;
    return std::nullopt;
  };
  harness_.disk().hooks.on_completion = [&](const IoCompletion&, IoType, const std::string&) {
    --under_way;
  };
  pass(3);
  EXPECT_GE(requests, 15U);
  EXPECT_EQ(most_under_way, 1U);
  EXPECT_LE(largest, kScrubRequestBytes + written_.places[0].bytes);
}

TEST_F(ScrubTest, IsOffWhereNoRateIsGiven) {
  tier_.reset();
  harness_.reopen();
  EXPECT_FALSE(harness_.nvme().scrub_due_ns());
  harness_.flip_bit(written_.places[5], 60'000);
  for (int i = 0; i < 200; ++i) {
    static_cast<ManualClock&>(harness_.clock()).advance_ns(100'000'000);
    harness_.nvme().poll(done_);
  }
  EXPECT_EQ(harness_.nvme().stats().scrubbed_bytes, 0U);
  EXPECT_TRUE(harness_.nvme().take_findings().empty());
}

// A segment that is reclaimed while the scrub reads it: what was read may be of two lives, and is no finding. The control is
// the same without the reclaim.
TEST_F(ScrubTest, ASegmentThatIsReclaimedMeanwhileIsNoFalseAlarm) {
  for (const bool reclaimed : {true, false}) {
    SCOPED_TRACE(reclaimed ? "reclaimed" : "the control");
    const std::uint32_t segment = reclaimed ? 0 : 1;
    const std::size_t first = reclaimed ? 0 : 149;
    const Place& place = written_.places[first];
    ASSERT_EQ(place.segment, segment);
    harness_.flip_bit(place, 60'000);
    bool asked = false;  // The very request that reads the bad record is under way.
    harness_.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
      std::uint64_t bytes = 0;
      for (const IoPiece& piece : request.pieces) bytes += piece.bytes;
      asked = request.file->path() == harness_.segment_path(segment) &&
              request.offset <= place.offset && place.offset < request.offset + bytes;
      return std::nullopt;
    };
    for (int i = 0; i < 3000 && !asked; ++i) {
      static_cast<ManualClock&>(harness_.clock()).advance_ns(10'000'000);
      tier_->poll(done_);                             // Starts a request.
      if (!asked) tier_->wait(done_, 1'000'000'000);  // It was another one: sees it through.
    }
    ASSERT_TRUE(asked);
    harness_.disk().hooks.on_request = {};
    if (reclaimed) {
      const Op op{.type = OpType::reclaim, .place = {.segment = segment}};
      ASSERT_TRUE(tier_->submit(std::span(&op, 1)));
    }
    done_.clear();
    pass(0.1);
    EXPECT_EQ(tier_->take_findings().size(), reclaimed ? 0U : 1U);
    EXPECT_EQ(tier_->stats().quarantined, reclaimed ? 0U : 1U);
  }
}

TEST_F(ScrubTest, WaitEndsWithItsOwnWorkAndDoesNotSpin) {
  EXPECT_EQ(load(3), Errc{});
  // Nothing of ours under way: the wait may see the scrub's read through, and ends although nothing completed.
  done_.clear();
  static_cast<ManualClock&>(harness_.clock()).advance_ns(10'000'000'000);
  EXPECT_EQ(tier_->wait(done_, 3'600'000'000'000), 0U);
  ASSERT_TRUE(tier_->scrub_due_ns());
  EXPECT_GT(*tier_->scrub_due_ns(), harness_.clock().now_ns());
}

TEST_F(ScrubTest, ADamagedFooterIsCountedAndARefusedReadIsNoFinding) {
  harness_.flip_bit_at(0, NvmeHarness::kSegmentBytes - 200);
  harness_.disk().hooks.on_request = [n = 0](const IoRequest&) mutable -> std::optional<Error> {
    return ++n % 3 == 0 ? std::optional<Error>(fail_errno("read", EIO)) : std::nullopt;
  };
  pass(4);
  EXPECT_GE(tier_->stats().corrupt, 1U);
  EXPECT_GE(tier_->stats().errors, 1U);
  EXPECT_TRUE(tier_->take_findings().empty());
  EXPECT_EQ(tier_->stats().quarantined, 0U);
}

// The geometry that the library opens with: the memory of the scrub is part of what was asked for, and it stays inside.
TEST(ScrubMemory, IsPartOfTheStagingAndNothingBehindItIsTouched) {
  SimDisk disk;
  SimStore store(disk);
  ManualClock& clock = store.clock();
  store.options() = {.geometry = {.capacity_bytes = store_bytes(64 * kMiB, 2),
                                  .segment_bytes = 64 * kMiB,
                                  .record_bytes_max = 1 * kMiB},
                     .clock = &clock,
                     .scrub_bytes_per_s = 64 * kMiB};
  constexpr std::byte kGuard{0x5a};
  const std::uint64_t bytes = NvmeTier::staging_bytes(store.options(), store.options().geometry);
  const AlignedBytes memory(bytes + 4 * kMiB, kGuard);
  store.options().staging = memory.span().first(bytes);
  ASSERT_TRUE(store.open());
  std::uint64_t end = kSegmentHeaderBytes;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const TestRecord record = make_test_record(seed, kMiB - 2 * kPageBytes);
    const Place place{.segment = 0, .offset = end, .bytes = record.bytes.size()};
    ASSERT_EQ(store.run_one(record.store(place)).outcome, Outcome::delivered);
    end += place.bytes;
  }
  store.commit();
  store.run_one({.type = OpType::seal, .place = {.segment = 0}});
  store.commit();
  store.commit();
  std::vector<Completion> done;
  for (int step = 0; step < 100; ++step) {
    clock.advance_ns(100'000'000);
    store.tier().poll(done);
  }
  EXPECT_GE(store.tier().stats().scrubbed_bytes, end - kSegmentHeaderBytes);
  EXPECT_TRUE(store.tier().take_findings().empty());
  store.close();  // Before its memory goes.
  EXPECT_TRUE(std::ranges::all_of(memory.span().subspan(bytes),
                                  [](std::byte byte) { return byte == kGuard; }));
}

}  // namespace
}  // namespace tiercel
