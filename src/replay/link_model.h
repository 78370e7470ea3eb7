// Virtual time of transfers: a link is latency + bytes / bandwidth, FIFO, each direction by itself.
//
// Times   In unscaled bytes: a block takes the same virtual time whatever payload carries it.
// Threads one thread.
#pragma once

#include <cstdint>

#include "cache/action.h"
#include "placement/placement.h"
#include "replay/event_queue.h"

namespace tiercel {

class LinkModel {
 public:
  explicit LinkModel(const Placement& placement);

  // When an action with an op that begins now will be complete. Advances the queue of its link.
  std::int64_t completion_ns(const Action& action);

  // The lane of its completion: those of one direction come in order.
  static EventLane lane_of(const Action& action);

 private:
  struct Direction {
    std::int64_t latency_ns = 0;
    std::int64_t transfer_ns = 0;  // Of one block.
    std::int64_t free_at_ns = 0;

    std::int64_t pass(std::int64_t now_ns);
  };

  Direction warm_read_, warm_write_, cold_read_, cold_write_;
  const std::int64_t sync_latency_ns_;
};

}  // namespace tiercel
