// Measures a link from the transfers that use it: how fast while busy, how long a transfer takes beyond its bytes.
//
// Rates are bytes over busy time (time with at least one transfer of that direction under way), sampled each kSampleBytes
// or kSampleNs of it and smoothed; so parallel transfers count as the throughput they reach together.
// Threads one thread.
#pragma once

#include <cstdint>

#include "tier/tier.h"

namespace tiercel {

class LinkMeter {
 public:
  enum class Direction : std::uint8_t { read = 0, write = 1 };

  void start(Direction direction, std::int64_t now_ns);
  // `latency_ns`: from the start of this transfer to its end.
  void finish(Direction direction, std::uint64_t bytes, std::int64_t latency_ns,
              std::int64_t now_ns);

  LinkEstimate estimate() const;

  static constexpr std::uint64_t kSampleBytes = 8ULL << 20;
  static constexpr std::int64_t kSampleNs = 20'000'000;
  static constexpr double kWeight = 0.2;  // Of the newest sample.

 private:
  struct Way {
    std::uint32_t active = 0;
    std::int64_t busy_since_ns = 0;
    std::int64_t busy_ns = 0;
    std::uint64_t bytes = 0;
    double bytes_per_s = 0;
  };

  Way ways_[2];
  double latency_s_ = 0;
};

}  // namespace tiercel
