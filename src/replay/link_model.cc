#include "replay/link_model.h"

#include <algorithm>

#include "base/check.h"
#include "replay/virtual_time.h"

namespace tiercel {

namespace {

std::int64_t transfer_ns(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return 0;
  return duration_ns(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s));
}

}  // namespace

LinkModel::LinkModel(const Placement& placement)
    : sync_latency_ns_(placement.cold.sync_latency_ns) {
  const auto direction = [&](const LinkSpec& link, std::uint64_t bytes_per_s) {
    return Direction{.latency_ns = link.latency_ns,
                     .transfer_ns = transfer_ns(placement.block_bytes(), bytes_per_s)};
  };
  warm_read_ = direction(placement.warm.link, placement.warm.link.read_bytes_per_s);
  warm_write_ = direction(placement.warm.link, placement.warm.link.write_bytes_per_s);
  cold_read_ = direction(placement.cold.link, placement.cold.link.read_bytes_per_s);
  cold_write_ = direction(placement.cold.link, placement.cold.link.write_bytes_per_s);
}

// The link is busy for the transfer; the latency overlaps with the next one.
std::int64_t LinkModel::Direction::pass(std::int64_t now_ns) {
  free_at_ns = after_ns(std::max(free_at_ns, now_ns), transfer_ns);
  return after_ns(free_at_ns, latency_ns);
}

std::int64_t LinkModel::completion_ns(const Action& action) {
  switch (action.type) {
    case ActionType::load:
      return (action.from == TierId::cold ? cold_read_ : warm_read_).pass(action.time_ns);
    case ActionType::store:
      return (action.to == TierId::cold ? cold_write_ : warm_write_).pass(action.time_ns);
    case ActionType::move:
      return cold_write_.pass(cold_read_.pass(action.time_ns));
    case ActionType::commit:
      return action.time_ns + sync_latency_ns_;
    case ActionType::compute:
    case ActionType::drop:
    case ActionType::seal:
    case ActionType::reclaim:
      break;
  }
  TIERCEL_CHECK(false);
  return 0;
}

EventLane LinkModel::lane_of(const Action& action) {
  switch (action.type) {
    case ActionType::load:
      return action.from == TierId::cold ? EventLane::cold_read : EventLane::warm_read;
    case ActionType::store:
      return action.to == TierId::cold ? EventLane::cold_write : EventLane::warm_write;
    case ActionType::move:
      return EventLane::cold_write;
    default:
      return EventLane::none;
  }
}

}  // namespace tiercel
