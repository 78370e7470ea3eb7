#include "replay/decision_digest.h"

#include <fmt/format.h>

namespace tiercel {

namespace {
constexpr std::size_t kBatchBytes = 64 * 1024;
}

void DecisionDigest::add(const Action& executed) {
  const bool to_place = executed.type == ActionType::store || executed.type == ActionType::move ||
                        executed.type == ActionType::compute;
  const Place& place = to_place ? executed.target : executed.source;
  fmt::format_to(std::back_inserter(buffer_), "{} {} {} {} {} {} {}\n", executed.time_ns,
                 action_name(executed.type),
                 executed.block == kNoBlock ? std::string("-") : hex(executed.key),
                 tier_name(executed.from), tier_name(executed.to), place.segment, place.offset);
  if (buffer_.size() < kBatchBytes) return;
  hash_.update(buffer_);
  buffer_.clear();
}

std::string DecisionDigest::finish() {
  hash_.update(buffer_);
  buffer_.clear();
  return hex(hash_.finish());
}

}  // namespace tiercel
