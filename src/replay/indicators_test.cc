// Windows, percentiles and turn bins against their definitions, computed a second time in the plainest way.
#include "replay/indicators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"

namespace tiercel {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMillisecond = 1'000'000;

RequestOutcome at(double arrival_s) {
  return {.arrival_ns = static_cast<std::int64_t>(arrival_s * 1e9)};
}

TEST(NearestRank, IsTheCeilingOfPTimesN) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  EXPECT_EQ(nearest_rank(values, 50), 10);
  EXPECT_EQ(nearest_rank(values, 95), 19);
  EXPECT_EQ(nearest_rank(values, 99), 20);
  EXPECT_EQ(nearest_rank(values, 100), 20);
  EXPECT_EQ(nearest_rank(std::vector<double>{7}, 50), 7);
}

TEST(NearestRank, IsTheSmallestValueThatPPercentDoNotExceed) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    std::vector<double> values(1 + rng.below(200));
    for (double& v : values) v = static_cast<double>(rng.below(50));
    const Percentiles p = percentiles(values);
    for (const auto& [percent, value] :
         {std::pair{50U, p.p50}, std::pair{95U, p.p95}, std::pair{99U, p.p99}}) {
      double expected = 1e9;
      for (const double v : values) {
        const auto not_above = static_cast<std::uint64_t>(
            std::ranges::count_if(values, [&](double w) { return w <= v; }));
        if (not_above * 100 >= percent * values.size()) expected = std::min(expected, v);
      }
      EXPECT_EQ(value, expected) << "seed " << seed << " percent " << percent;
    }
  }
}

TEST(Percentiles, OfNothingCountNothing) { EXPECT_EQ(percentiles({}).n, 0U); }

TEST(Rejections, CountEachFateApartAndDivideByArrivals) {
  ReplayOutcome outcome;
  for (int i = 0; i < 10; ++i) outcome.requests.push_back(at(i));
  outcome.requests[2].fate = Fate::rejected;
  outcome.requests[3].fate = Fate::too_large;
  outcome.requests[4].preemptions = 2;
  outcome.requests[5].fate = Fate::rejected;
  outcome.requests[5].preemptions = 1;
  const Rejections r = compute_indicators(outcome).overall.rejections;
  EXPECT_EQ(r.arrivals, 10U);
  EXPECT_EQ(r.count, 2U);
  EXPECT_EQ(r.too_large, 1U);
  EXPECT_EQ(r.preemptions, 3U);
  EXPECT_DOUBLE_EQ(r.ratio(), 0.2);
  EXPECT_DOUBLE_EQ(r.too_large_ratio(), 0.1);
}

TEST(Rejections, OfNoRequestsAreNone) {
  const Indicators in = compute_indicators({});
  EXPECT_EQ(in.windows, 0U);
  EXPECT_EQ(in.overall.rejections.ratio(), 0);
  EXPECT_FALSE(in.overall.drift.ratio);
}

TEST(PeakWindows, AreTheBusiestFivePercentWithTiesToTheEarlier) {
  ReplayOutcome outcome;
  for (int window = 0; window < 40; ++window)
    outcome.requests.push_back(at(10.0 * window));  // One each: 40 windows, 2 taken.
  outcome.requests.push_back(at(395));              // Window 39 has two.
  outcome.requests.back().fate = Fate::rejected;
  outcome.requests[0].fate = Fate::rejected;  // Window 0 wins the tie for the second place.
  outcome.requests[1].fate = Fate::rejected;  // Window 1 does not.
  const Indicators in = compute_indicators(outcome);
  EXPECT_EQ(in.windows, 40U);
  EXPECT_EQ(in.peak_windows, 2U);
  EXPECT_EQ(in.rejecting_windows, 3U);
  EXPECT_EQ(in.p95_traffic.rejections.arrivals, 3U);
  EXPECT_EQ(in.p95_traffic.rejections.count, 2U);
}

TEST(PeakWindows, ARequestAtTheEdgeBelongsToTheLaterWindow) {
  ReplayOutcome outcome;
  outcome.requests = {at(0), at(10), at(10.5)};
  outcome.requests[0].fate = Fate::rejected;
  const Indicators in = compute_indicators(outcome);
  EXPECT_EQ(in.windows, 2U);
  EXPECT_EQ(in.peak_windows, 1U);  // At least one.
  EXPECT_EQ(in.p95_traffic.rejections.arrivals, 2U);
  EXPECT_EQ(in.p95_traffic.rejections.count, 0U);
}

TEST(PeakWindows, EmptyOnesCountTowardsTheFivePercent) {
  ReplayOutcome outcome;
  outcome.requests = {at(0), at(5), at(3600),
                      at(9'999)};  // 1,000 windows, 50 taken: all that have arrivals.
  const Indicators in = compute_indicators(outcome);
  EXPECT_EQ(in.windows, 1000U);
  EXPECT_EQ(in.peak_windows, 50U);
  EXPECT_EQ(in.p95_traffic.rejections.arrivals, 4U);
}

TEST(PeakWindows, CenturiesBetweenTwoRequestsCostNoMemory) {
  ReplayOutcome outcome;
  outcome.requests = {at(0), {.arrival_ns = 9'000'000'000'000'000'000}};
  EXPECT_EQ(compute_indicators(outcome).windows, 900'000'001U);
}

TEST(PeakWindows, AgreeWithAPlainCountOverRandomTraffic) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    ReplayOutcome outcome;
    const double span_s = static_cast<double>(1 + rng.below(3000));
    for (std::uint64_t i = 1 + rng.below(400); i > 0; --i) {
      outcome.requests.push_back(at(span_s * rng.uniform()));
      outcome.requests.back().fate = rng.chance(0.3) ? Fate::rejected : Fate::completed;
    }
    std::int64_t last = 0;
    for (const auto& r : outcome.requests) last = std::max(last, r.arrival_ns);
    std::vector<std::pair<int, std::size_t>> order;  // {-arrivals, window}
    for (std::int64_t begin = 0; begin <= last; begin += 10 * kSecond) {
      const auto inside = std::ranges::count_if(outcome.requests, [&](const auto& r) {
        return r.arrival_ns >= begin && r.arrival_ns < begin + 10 * kSecond;
      });
      order.emplace_back(-static_cast<int>(inside), order.size());
    }
    std::ranges::sort(order);
    const std::size_t taken = std::max<std::size_t>(1, order.size() * 5 / 100);
    std::set<std::int64_t> chosen;
    for (std::size_t i = 0; i < taken; ++i)
      chosen.insert(static_cast<std::int64_t>(order[i].second));
    std::uint64_t arrivals = 0, rejected = 0;
    for (const auto& r : outcome.requests) {
      if (!chosen.contains(r.arrival_ns / (10 * kSecond))) continue;
      ++arrivals;
      rejected += r.fate == Fate::rejected;
    }
    const Indicators in = compute_indicators(outcome);
    EXPECT_EQ(in.windows, order.size()) << "seed " << seed;
    EXPECT_EQ(in.peak_windows, taken) << "seed " << seed;
    EXPECT_EQ(in.p95_traffic.rejections.arrivals, arrivals) << "seed " << seed;
    EXPECT_EQ(in.p95_traffic.rejections.count, rejected) << "seed " << seed;
  }
}

TEST(Refill, IsBookedToTheSlowestTierAndCountsOnlyWhoLoaded) {
  ReplayOutcome outcome;
  outcome.requests = {at(0), at(1), at(2), at(3), at(4)};
  outcome.requests[0].refill_tier = RefillTier::warm;
  outcome.requests[0].refill_ns = 10 * kMillisecond;
  outcome.requests[1].refill_tier = RefillTier::cold;
  outcome.requests[1].refill_ns = 30 * kMillisecond;
  outcome.requests[2].refill_tier =
      RefillTier::cold;  // Preempted while it loaded, then turned away: no refill.
  outcome.requests[2].fate = Fate::rejected;
  outcome.requests[3].refill_tier =
      RefillTier::cold;  // Turned away after a whole refill: it counts.
  outcome.requests[3].fate = Fate::rejected;
  outcome.requests[3].refill_ns = 50 * kMillisecond;
  const RefillSeconds refill = compute_indicators(outcome).overall.refill;
  EXPECT_EQ(refill.warm.n, 1U);
  EXPECT_DOUBLE_EQ(refill.warm.p95, 0.010);
  EXPECT_EQ(refill.cold.n, 2U);
  EXPECT_DOUBLE_EQ(refill.cold.p50, 0.030);
  EXPECT_DOUBLE_EQ(refill.cold.p95, 0.050);
}

// `count` completed requests of one turn, all with one wait.
void add_turns(ReplayOutcome& outcome, std::uint32_t turn, int count, std::int64_t wait_ns) {
  for (int i = 0; i < count; ++i) outcome.requests.push_back({.turn = turn, .wait_ns = wait_ns});
}

TEST(Drift, IsTheLastFullBinOverTurnsTwoAndThree) {
  ReplayOutcome outcome;
  add_turns(outcome, 1, 100, 500 * kMillisecond);
  add_turns(outcome, 2, 25, 10 * kMillisecond);
  add_turns(outcome, 3, 25, 10 * kMillisecond);
  add_turns(outcome, 4, 50, 20 * kMillisecond);
  add_turns(outcome, 8, 25, 40 * kMillisecond);
  add_turns(outcome, 15, 25, 40 * kMillisecond);
  add_turns(outcome, 16, 49, 900 * kMillisecond);  // One too few.
  for (auto& r : outcome.requests) {
    if (r.turn >= 8) r.refill_ns = 5 * kMillisecond;
    if (r.turn >= 8) r.refill_tier = RefillTier::cold;
  }
  const Drift drift = compute_indicators(outcome).overall.drift;
  ASSERT_TRUE(drift.ratio) << drift.reason;
  EXPECT_DOUBLE_EQ(*drift.ratio, 4.5);
  EXPECT_EQ(drift.last.turn_first, 8U);
  EXPECT_EQ(drift.last.n, 50U);
  EXPECT_NEAR(drift.last.cold_refill_s, 0.25, 1e-9);
  EXPECT_EQ(drift.base.n, 50U);
}

TEST(Drift, IsNullWithAReasonWhereItCannotBeSaid) {
  ReplayOutcome outcome;
  add_turns(outcome, 2, 49, 10 * kMillisecond);
  add_turns(outcome, 4, 50, 20 * kMillisecond);
  EXPECT_FALSE(compute_indicators(outcome).overall.drift.ratio);
  EXPECT_EQ(compute_indicators(outcome).overall.drift.reason,
            "turns 2-3 have 49 completed requests, fewer than 50");

  add_turns(outcome, 3, 1, 10 * kMillisecond);
  EXPECT_DOUBLE_EQ(*compute_indicators(outcome).overall.drift.ratio, 2.0);

  outcome.requests[60].fate = Fate::rejected;  // One of turn 4: rejected requests are not of a bin.
  EXPECT_EQ(compute_indicators(outcome).overall.drift.reason,
            "no bin of later turns has 50 completed requests");
}

TEST(Drift, IsNullBelowAMillisecond) {
  ReplayOutcome outcome;
  add_turns(outcome, 2, 50, kMillisecond - 1);
  add_turns(outcome, 4, 50, 20 * kMillisecond);
  EXPECT_FALSE(compute_indicators(outcome).overall.drift.ratio);
  EXPECT_NE(compute_indicators(outcome).overall.drift.reason.find("below 1 ms"), std::string::npos);
  for (auto& r : outcome.requests) {
    if (r.turn == 2) r.wait_ns = kMillisecond;
  }
  EXPECT_DOUBLE_EQ(*compute_indicators(outcome).overall.drift.ratio, 20.0);
}

TEST(Drift, AgreesWithAPlainCountOverRandomTurns) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    ReplayOutcome outcome;
    for (std::uint64_t i = rng.below(1500); i > 0; --i) {
      RequestOutcome r{.turn = static_cast<std::uint32_t>(
                           1 + std::min<std::uint64_t>(rng.below(9), rng.below(40)))};
      r.fate = rng.chance(0.1) ? Fate::rejected : Fate::completed;
      r.wait_ns = static_cast<std::int64_t>(rng.below(100 * kMillisecond));
      r.refill_ns = static_cast<std::int64_t>(rng.below(100 * kMillisecond));
      outcome.requests.push_back(r);
    }
    const auto p95_of = [&](std::uint32_t first, std::uint32_t last) {  // 0: fewer than 50.
      std::vector<std::int64_t> values;
      for (const auto& r : outcome.requests) {
        if (r.fate == Fate::completed && r.turn >= first && r.turn <= last)
          values.push_back(r.wait_ns + r.refill_ns);
      }
      if (values.size() < 50) return 0.0;
      std::ranges::sort(values);
      return static_cast<double>(values[static_cast<std::size_t>(std::ceil(
                                            0.95 * static_cast<double>(values.size()) - 1e-9)) -
                                        1]);
    };
    double late = 0;
    for (const auto& [first, last] : {std::pair{4U, 7U}, {8U, 15U}, {16U, 31U}, {32U, 63U}}) {
      if (const double p95 = p95_of(first, last); p95 > 0) late = p95;
    }
    const double base = p95_of(2, 3);
    const Drift drift = compute_indicators(outcome).overall.drift;
    EXPECT_EQ(drift.ratio.has_value(), base >= kMillisecond && late > 0) << "seed " << seed;
    if (drift.ratio) {
      EXPECT_NEAR(*drift.ratio, late / base, 1e-9) << "seed " << seed;
    }
  }
}

TEST(RefillShare, IsWaitingForLoadsOverTheTimeHeld) {
  ReplayOutcome outcome;
  outcome.requests = {at(0), at(1)};
  outcome.requests[0].refill_ns = 1 * kSecond;
  outcome.requests[0].prefill_ns = 1 * kSecond;
  outcome.requests[0].run_ns = 4 * kSecond;
  outcome.requests[1].run_ns = 6 * kSecond;
  EXPECT_DOUBLE_EQ(compute_indicators(outcome).refill_share, 0.1);
  outcome.requests[0].run_ns = outcome.requests[1].run_ns =
      0;  // Not filled in: refill + prefill stand for it.
  EXPECT_DOUBLE_EQ(compute_indicators(outcome).refill_share, 0.5);
}

}  // namespace
}  // namespace tiercel
