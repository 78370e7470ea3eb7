// Time as a seam: who waits or stamps takes a Clock, so that tests and replays decide what time it is.
#pragma once

#include <cstdint>

namespace tiercel {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;  // Monotonic; the zero point is arbitrary.
};

}  // namespace tiercel
