// Time as a seam: who waits or stamps takes a Clock, so that tests and replays decide what time it is.
#pragma once

#include <cstdint>

namespace tiercel {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;  // Monotonic; the zero point is arbitrary.
};

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
