// Each way to fail names its tier and shows its arithmetic; nothing else does.
#include "replay/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "base/byte_size.h"

namespace tiercel {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

Placement nominal() {
  Placement p;
  p.model.bytes_per_token = 128 * kKiB;
  p.hot.bytes = 110 * kGiB;
  p.warm = {.bytes = 640 * kGiB,
            .link = {.latency_ns = 0, .read_bytes_per_s = 20'000'000'000, .write_bytes_per_s = 1}};
  p.cold.bytes = 6144 * kGiB;
  p.cold.link = {.latency_ns = 0, .read_bytes_per_s = 3'000'000'000, .write_bytes_per_s = 1};
  p.targets = {.rejection_ratio_max = 0.01, .refill_p95_s_max = 1.0, .turn_drift_max = 2.0};
  return p;
}

// `count` requests spread over an hour, first turns, each running 10 s.
ReplayOutcome traffic(std::size_t count) {
  ReplayOutcome outcome;
  for (std::size_t i = 0; i < count; ++i) {
    outcome.requests.push_back(
        {.arrival_ns = static_cast<std::int64_t>(3'600'000'000'000 / count * i),
         .run_ns = 10'000 * kMillisecond});
  }
  return outcome;
}

void reject(ReplayOutcome& outcome, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    RequestOutcome& r = outcome.requests[i * outcome.requests.size() / count];
    r.fate = Fate::rejected;
    r.run_ns = 0;
  }
}

void refill(ReplayOutcome& outcome, RefillTier tier, std::size_t from, std::size_t to,
            std::int64_t refill_ns) {
  for (std::size_t i = from; i < to; ++i) {
    if (outcome.requests[i].fate != Fate::completed) continue;
    outcome.requests[i].refill_tier = tier;
    outcome.requests[i].refill_ns = refill_ns;
    outcome.requests[i].run_ns += refill_ns;
  }
}

Verdict judged(const ReplayOutcome& outcome, const Placement& placement = nominal()) {
  return judge(compute_indicators(outcome), outcome, placement);
}

std::string joined(const Verdict& verdict) {
  std::string text;
  for (const std::string& sentence : verdict.because) text += sentence + "\n";
  return text;
}

testing::AssertionResult says(const Verdict& verdict, std::string_view words) {
  if (joined(verdict).find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no \"" << words << "\" in\n" << joined(verdict);
}

TEST(Verdict, PassesQuietTrafficAndStillSaysWhyAndOnWhatBasis) {
  const Verdict verdict = judged(traffic(12'000));
  EXPECT_TRUE(verdict.pass);
  EXPECT_FALSE(verdict.fix_tier);
  EXPECT_TRUE(says(verdict, "Rejections: 0 of 12,000 = 0 %"));
  EXPECT_TRUE(says(verdict, "no request loaded a block from below hot"));
  EXPECT_TRUE(says(verdict, "modelled"));
}

TEST(Verdict, RejectionsNameHotAndCount) {
  ReplayOutcome outcome = traffic(12'000);
  reject(outcome, 240);
  const Verdict verdict = judged(outcome);
  EXPECT_FALSE(verdict.pass);
  EXPECT_FALSE(verdict.rejections_pass);
  EXPECT_TRUE(verdict.refill_pass);
  EXPECT_EQ(verdict.fix_tier, FixTier::hot);
  EXPECT_TRUE(verdict.because[0].starts_with("Rejections: 240 of 12,000 = 2 %"))
      << verdict.because[0];
  EXPECT_TRUE(says(verdict, "target at most 1 %: missed in "));
  EXPECT_TRUE(says(verdict, "110 GiB hold 1,760 blocks of 64 MiB"));
}

TEST(Verdict, ARatioOfExactlyTheTargetMeetsIt) {
  ReplayOutcome outcome;
  for (int i = 0; i < 200; ++i) outcome.requests.push_back({.arrival_ns = i});
  outcome.requests[0].fate = outcome.requests[1].fate = Fate::rejected;
  EXPECT_TRUE(judged(outcome).pass);
  outcome.requests[2].fate = Fate::rejected;
  EXPECT_FALSE(judged(outcome).pass);
}

TEST(Verdict, RejectionsAtPeakAloneFailToo) {
  ReplayOutcome outcome = traffic(12'000);
  for (int i = 0; i < 60;
       ++i) {  // A burst within one window, all of it turned away: 0.5 % overall.
    outcome.requests.push_back({.arrival_ns = 1'000'000'000LL * 1801, .fate = Fate::rejected});
  }
  const Verdict verdict = judged(outcome);
  EXPECT_LE(compute_indicators(outcome).overall.rejections.ratio(), 0.01);
  EXPECT_FALSE(verdict.rejections_pass);
  EXPECT_EQ(verdict.fix_tier, FixTier::hot);
}

TEST(Verdict, RequestsThatCanNeverFitAreHeldToTheSameTarget) {
  ReplayOutcome outcome = traffic(1000);
  for (int i = 0; i < 20; ++i)
    outcome.requests[static_cast<std::size_t>(i) * 50].fate = Fate::too_large;
  const Verdict verdict = judged(outcome);
  EXPECT_FALSE(verdict.pass);
  EXPECT_EQ(verdict.fix_tier, FixTier::hot);
  EXPECT_TRUE(says(verdict, "20 of 1,000 = 2 % requests are larger than hot as a whole"));
}

TEST(Verdict, SlowRefillsNameTheirTierAndTheBandwidthTheyNeed) {
  ReplayOutcome outcome = traffic(10'000);
  refill(outcome, RefillTier::cold, 0, 1000, 3200 * kMillisecond);
  refill(outcome, RefillTier::warm, 1000, 3000, 100 * kMillisecond);
  const Verdict verdict = judged(outcome);
  EXPECT_FALSE(verdict.pass);
  EXPECT_EQ(verdict.fix_tier, FixTier::cold);
  EXPECT_TRUE(says(verdict, "Refill from cold: P95 3.2 s over 1,000 requests"));
  EXPECT_TRUE(says(verdict, "a block of 64 MiB takes 22.4 ms at 3 GB/s"));
  EXPECT_TRUE(says(verdict, "room for 44 and the worse P95 lasts as long as 144 blocks"));
  EXPECT_TRUE(
      says(verdict, "cold.read_bandwidth would have to be about 3.2 times as high (9.6 GB/s)"));
  EXPECT_TRUE(says(verdict, "Refill from warm: P95 100 ms"));
}

TEST(Verdict, ADiskThatCannotDeliverOneBlockInTimeIsSaidSo) {
  ReplayOutcome outcome = traffic(1000);
  refill(outcome, RefillTier::cold, 0, 100, 5000 * kMillisecond);
  Placement slow = nominal();
  slow.cold.link.read_bytes_per_s = 50'000'000;
  EXPECT_TRUE(says(judged(outcome, slow),
                   "takes 1.342 s at 50 MB/s, so the target has room for less than one"));
}

TEST(Verdict, TheSlowestFailingTierIsTheOneToFix) {
  ReplayOutcome outcome = traffic(10'000);
  refill(outcome, RefillTier::warm, 0, 1000, 5000 * kMillisecond);
  refill(outcome, RefillTier::cold, 1000, 2000, 900 * kMillisecond);  // Meets its target.
  EXPECT_EQ(judged(outcome).fix_tier, FixTier::warm);
  refill(outcome, RefillTier::cold, 1000, 2000, 1200 * kMillisecond);  // Misses it, but by less.
  EXPECT_EQ(judged(outcome).fix_tier, FixTier::warm);
  refill(outcome, RefillTier::cold, 1000, 2000, 6000 * kMillisecond);
  EXPECT_EQ(judged(outcome).fix_tier, FixTier::cold);
}

TEST(Verdict, RejectionsThatSlowRefillsCauseAreBookedToTheSlowTier) {
  ReplayOutcome outcome = traffic(10'000);
  reject(outcome, 500);
  refill(outcome, RefillTier::cold, 0, 5000, 60'000 * kMillisecond);  // Most of the held time.
  const Verdict slow_disk = judged(outcome);
  EXPECT_FALSE(slow_disk.rejections_pass);
  EXPECT_EQ(slow_disk.fix_tier, FixTier::cold);
  EXPECT_TRUE(says(slow_disk, "of the time in hot memory goes into waiting for loads"));

  ReplayOutcome small = traffic(10'000);
  reject(small, 500);
  refill(small, RefillTier::cold, 0, 300,
         2000 * kMillisecond);  // Misses its target, but holds next to nothing.
  const Verdict small_envelope = judged(small);
  EXPECT_FALSE(small_envelope.refill_pass);
  EXPECT_EQ(small_envelope.fix_tier, FixTier::hot);
}

ReplayOutcome drifting(RefillTier tier) {
  ReplayOutcome outcome;
  for (int i = 0; i < 200; ++i) {
    RequestOutcome r{.arrival_ns = i, .turn = i < 100 ? 2U : 9U, .run_ns = 10'000 * kMillisecond};
    r.wait_ns = 10 * kMillisecond;
    const std::int64_t extra = i < 100 ? 0 : 90 * kMillisecond;
    (tier == RefillTier::none ? r.wait_ns : r.refill_ns) += extra;
    if (extra != 0) r.refill_tier = tier;
    outcome.requests.push_back(r);
  }
  return outcome;
}

TEST(Verdict, DriftNamesTheOffloadTierThatLateTurnsWaitFor) {
  EXPECT_EQ(judged(drifting(RefillTier::warm)).fix_tier, FixTier::warm);
  const Verdict cold = judged(drifting(RefillTier::cold));
  EXPECT_EQ(cold.fix_tier, FixTier::cold);
  EXPECT_TRUE(cold.rejections_pass && cold.refill_pass);
  EXPECT_TRUE(says(cold, "10 (100 ms in turns 8-15 over 10 ms in turns 2-3)"));
  EXPECT_TRUE(says(cold, "The offload tier is too slow"));
}

TEST(Verdict, DriftWithoutRefillsIsQueueingForHot) {
  const Verdict verdict = judged(drifting(RefillTier::none));
  EXPECT_EQ(verdict.fix_tier, FixTier::hot);
  EXPECT_TRUE(says(verdict, "wait for admission"));
}

TEST(Verdict, NeverProposesFewerBits) {
  ReplayOutcome all = drifting(RefillTier::cold);
  refill(all, RefillTier::warm, 0, 50, 5000 * kMillisecond);
  refill(all, RefillTier::cold, 50, 150, 9000 * kMillisecond);
  reject(all, 40);
  all.requests[1].fate = Fate::too_large;
  for (const ReplayOutcome& outcome : {all, drifting(RefillTier::warm), traffic(10)}) {
    std::string text = joined(judged(outcome));
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* word : {"quant", "precision", "fp8", "int8", "int4", "nvfp4", "bits"}) {
      EXPECT_EQ(text.find(word), std::string::npos) << word << " in " << text;
    }
  }
}

TEST(Words, GroupAndRoundForPeople) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(12'345'678), "12,345,678");
  EXPECT_EQ(percent_text(0.004156), "0.416 %");
  EXPECT_EQ(turns_text({.turn_first = 4}), "turns 4-7");
}

}  // namespace
}  // namespace tiercel
