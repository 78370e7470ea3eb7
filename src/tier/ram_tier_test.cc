// The memory tiers: conformance, and what is theirs alone.
#include "tier/ram_tier.h"

#include "tier/tier_conformance.h"

namespace tiercel {
namespace {

class RamHarness final : public TierHarness {
 public:
  explicit RamHarness(bool hot, LinkPace pace = {}) {
    arena_ = std::move(*Arena::create({.bytes = 64 << 20}));
    RamTierOptions options{.memory = *arena_->take(kCapacity),
                           .arena = arena_.get(),
                           .clock = &clock_,
                           .queue_ops_max = 64,
                           .pace = pace};
    tier_ = std::make_unique<RamTier>(hot ? RamTier::hot_host(options) : options);
  }
  Tier& tier() override { return *tier_; }
  ManualClock& clock() override { return clock_; }
  const Arena& arena() override { return *arena_; }
  Place place(std::uint64_t bytes) override {
    const Place place{.offset = next_, .bytes = bytes};
    next_ += bytes;
    return place;
  }
  Place never_written(std::uint64_t bytes) override {
    return {.offset = kCapacity - align_up(bytes, 4096), .bytes = bytes};
  }
  void flip_bit(const Place& place, std::uint64_t byte) override {
    arena_->base()[place.offset + byte] ^= std::byte{8};
  }
  std::size_t queue_ops_max() const override { return 64; }

 private:
  static constexpr std::uint64_t kCapacity = 48 << 20;
  ManualClock clock_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<RamTier> tier_;
  std::uint64_t next_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Memory, TierConformance,
    testing::Values(HarnessFactory{"warm", [] { return std::make_unique<RamHarness>(false); }},
                    HarnessFactory{"hot_host", [] { return std::make_unique<RamHarness>(true); }}),
    [](const auto& factory) { return factory.param.name; });

TEST(RamTier, HotIsCalledHotHostAndSaysSo) {
  RamHarness hot(true), warm(false);
  EXPECT_EQ(hot.tier().capabilities().name, "hot(host)");
  EXPECT_EQ(warm.tier().capabilities().name, "warm");
  EXPECT_FALSE(hot.tier().capabilities().persistent);
  EXPECT_FALSE(hot.tier().capabilities().device) << "host memory is no device memory";
}

TEST(RamTier, SegmentsAreNotForMemory) {
  RamHarness harness(false);
  for (const OpType type : {OpType::seal, OpType::reclaim, OpType::checkpoint}) {
    const Op op{.type = type};
    EXPECT_EQ(harness.tier().submit(std::span(&op, 1)).error().code, Errc::invalid);
  }
}

TEST(RamTier, APaceDelaysDeliveryByLatencyAndBytes) {
  RamHarness harness(true, {.latency_ns = 1000, .bytes_per_s = 1e9});
  const TestRecord record = make_test_record(1, 4096);  // 8192 bytes: 8192 ns at 1 GB/s.
  const Op ops[] = {record.store({.offset = 0, .bytes = 8192}, 1),
                    record.store({.offset = 8192, .bytes = 8192}, 2)};
  ASSERT_TRUE(harness.tier().submit(ops));
  std::vector<Completion> done;
  harness.clock().advance_ns(9191);
  EXPECT_EQ(harness.tier().poll(done), 0U);
  harness.clock().advance_ns(1);
  EXPECT_EQ(harness.tier().poll(done), 1U);
  harness.clock().advance_ns(8192);
  EXPECT_EQ(harness.tier().poll(done), 1U);
  EXPECT_EQ(done[1].tag, 2U);
}

TEST(RamTier, APlaceIsReusedByTheNextRecord) {
  RamHarness harness(false);
  const TestRecord first = make_test_record(1, 8192), second = make_test_record(2, 8192);
  const Place place{.offset = 0, .bytes = first.bytes.size()};
  const Op ops[] = {first.store(place), second.store(place)};
  ASSERT_TRUE(harness.tier().submit(ops));
  AlignedBytes back(place.bytes);
  const Op loads[] = {first.load(place, back.span(), 1), second.load(place, back.span(), 2)};
  ASSERT_TRUE(harness.tier().submit(loads));
  std::vector<Completion> done;
  harness.tier().poll(done);
  ASSERT_EQ(done.size(), 4U);
  EXPECT_EQ(done[2].error.code, Errc::corrupt);
  EXPECT_EQ(done[3].outcome, Outcome::delivered);
}

}  // namespace
}  // namespace tiercel
