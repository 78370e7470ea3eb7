// How long a prefill takes and how many run at once.
//
//   nominal  tokens / rate; every request has a lane of its own.
//   flops    (2 * parameters * n + 4 * layers * hidden * sum of positions) / FLOP/s; FIFO over `prefill_lanes`.
//
// Threads one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "placement/placement.h"
#include "replay/virtual_time.h"

namespace tiercel {

class PrefillLanes {
 public:
  explicit PrefillLanes(const Placement& placement)
      : placement_(placement),
        limited_(placement.engine.prefill == PrefillModel::flops),
        free_lanes_(placement.engine.prefill_lanes) {}

  void enqueue(std::uint32_t request) { waiting_.push_back(request); }

  // The next request that may start now; it holds a lane until release().
  std::optional<std::uint32_t> next() {
    if (waiting_.empty() || (limited_ && free_lanes_ == 0)) return std::nullopt;
    const std::uint32_t request = waiting_.front();
    waiting_.pop_front();
    if (limited_) --free_lanes_;
    return request;
  }
  void release() {
    if (limited_) ++free_lanes_;
  }
  void withdraw(std::uint32_t request) { std::erase(waiting_, request); }

  // Computing `tokens` behind a prefix of `at` tokens.
  std::int64_t duration_ns(std::uint64_t tokens, std::uint64_t at) const {
    const double n = static_cast<double>(tokens);
    if (!limited_) return tiercel::duration_ns(n * 1e9 / placement_.engine.prefill_tokens_per_s);
    const double positions = n * static_cast<double>(at) + n * (n + 1) / 2;
    const double flop = 2 * placement_.model.parameters * n +
                        4.0 * placement_.model.layers * placement_.model.hidden * positions;
    return tiercel::duration_ns(flop * 1e9 / placement_.engine.flops);
  }

 private:
  const Placement& placement_;
  const bool limited_;
  std::uint32_t free_lanes_;
  std::deque<std::uint32_t> waiting_;
};

}  // namespace tiercel
