// Who carries out the core's actions in a replay. The virtual clock alone decides when an action completes for the core; the
// executor decides what is really done, and its digest says what was.
//
// Calls   begin(action) in the order of decision. For an action with an op, finish(action) when its virtual completion is
//         due: real work must be over when it returns. Real time and real outcomes never reach the core.
// Threads one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cache/action.h"
#include "replay/decision_digest.h"
#include "replay/outcome.h"

namespace tiercel {

// When the real part of an action began and ended, on the system's monotonic clock.
struct RealSpan {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const char* name() const = 0;
  // Errors end the replay: the machine cannot do what the placement asks.
  virtual Result<void> begin(const Action& action) = 0;
  virtual Result<std::optional<RealSpan>> finish(const Action& action) = 0;
  // Passes real time until `real_ns` of the monotonic clock, at a pace; what ends meanwhile is noted when it ends.
  virtual void work_until(std::int64_t real_ns) = 0;
  // After the last event: fills in what was really done (digest, bytes, errors).
  virtual Result<void> end(ReplayOutcome& outcome) = 0;
};

// Does nothing, in no time: what it "executes" is what was decided.
class SimulatedExecutor final : public Executor {
 public:
  const char* name() const override { return "simulate"; }
  Result<void> begin(const Action& action) override {
    if (action.op == 0) digest_.add(action);
    return {};
  }
  Result<std::optional<RealSpan>> finish(const Action& action) override {
    digest_.add(action);
    return std::optional<RealSpan>();
  }
  void work_until(std::int64_t) override {}  // A simulation has no pace.
  Result<void> end(ReplayOutcome& outcome) override {
    outcome.decisions_sha256 = digest_.finish();
    return {};
  }

 private:
  DecisionDigest digest_;
};

}  // namespace tiercel
