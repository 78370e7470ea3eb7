// Clocks: the one of the system, and one that a test moves by hand.
#pragma once

#include <cstdint>

#include "tiercel/clock.hpp"

namespace tiercel {

// CLOCK_MONOTONIC: never jumps backwards, whatever happens to the wall clock. Thread-safe.
class SystemClock final : public Clock {
 public:
  std::int64_t now_ns() const override;
};

class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_; }
  void advance_ns(std::int64_t by) { now_ns_ += by; }

 private:
  std::int64_t now_ns_ = 0;
};

}  // namespace tiercel
