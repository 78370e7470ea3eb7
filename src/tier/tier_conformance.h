// What every tier must do, whatever it is made of. A new tier gives a harness and inherits all of it:
//
//   class MyHarness final : public TierHarness { ... };
//   INSTANTIATE_TEST_SUITE_P(My, TierConformance, testing::Values(HarnessFactory{"my", [] { return ...; }}));
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tier/arena.h"
#include "tier/test_record.h"
#include "tier/tier.h"

namespace tiercel {

class TierHarness {
 public:
  virtual ~TierHarness() = default;
  virtual Tier& tier() = 0;
  virtual ManualClock& clock() = 0;
  virtual const Arena& arena() = 0;
  virtual Place place(std::uint64_t bytes) = 0;  // The next free one.
  virtual Place never_written(std::uint64_t bytes) = 0;
  virtual void flip_bit(const Place& place, std::uint64_t byte) = 0;  // Behind the tier's back.
  virtual std::size_t queue_ops_max() const = 0;
};

struct HarnessFactory {
  std::string name;
  std::function<std::unique_ptr<TierHarness>()> make;
};

class TierConformance : public testing::TestWithParam<HarnessFactory> {
 protected:
  TierConformance() : harness_(GetParam().make()), tier_(harness_->tier()) {}

  // Submits and waits for all of them; completions by tag.
  std::map<std::uint64_t, Completion> run(std::span<const Op> ops) {
    const auto ticket = tier_.submit(ops);
    EXPECT_TRUE(ticket) << ticket.error().what;
    if (!ticket) return {};
    EXPECT_NE(*ticket, 0U);
    std::vector<Completion> done;
    for (int round = 0; round < 1000 && done.size() < ops.size(); ++round)
      tier_.wait(done, 1'000'000'000);
    EXPECT_EQ(done.size(), ops.size());
    std::map<std::uint64_t, Completion> by_tag;
    for (Completion& completion : done) {
      EXPECT_EQ(completion.ticket, *ticket);
      by_tag[completion.tag] = std::move(completion);
    }
    return by_tag;
  }
  Completion run_one(const Op& op) { return run(std::span(&op, 1)).begin()->second; }

  Place store(const TestRecord& record) {
    const Place place = harness_->place(record.bytes.size());
    EXPECT_EQ(run_one(record.store(place)).outcome, Outcome::delivered);
    return place;
  }

  void expect_corrupt(const Completion& completion) {
    EXPECT_EQ(completion.outcome, Outcome::error);
    EXPECT_EQ(completion.error.code, Errc::corrupt) << completion.error.what;
    EXPECT_FALSE(completion.error.what.empty());
  }

  std::unique_ptr<TierHarness> harness_;
  Tier& tier_;
};

}  // namespace tiercel
