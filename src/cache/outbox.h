// Where the parts of the core put their decisions, stamped with the time of the event that caused them.
//
// Threads one thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cache/action.h"

namespace tiercel {

class Outbox {
 public:
  void set_now_ns(std::int64_t now_ns) { now_ns_ = now_ns; }
  std::int64_t now_ns() const { return now_ns_; }

  // An action whose completion the core waits for; returns its op.
  std::uint64_t start(Action action) {
    action.op = next_op_++;
    action.time_ns = now_ns_;
    pending_.emplace(action.op, action);
    actions_.push_back(action);
    return action.op;
  }

  void emit(Action action) {
    action.time_ns = now_ns_;
    actions_.push_back(action);
  }

  // The started action that `op` names; it is pending no more.
  Action finish(std::uint64_t op) {
    const auto found = pending_.find(op);
    TIERCEL_CHECK(found != pending_.end());
    const Action action = found->second;
    pending_.erase(found);
    return action;
  }

  std::size_t pending_count() const { return pending_.size(); }
  const std::vector<Action>& actions() const { return actions_; }
  void clear() { actions_.clear(); }

 private:
  std::int64_t now_ns_ = 0;
  std::uint64_t next_op_ = 1;
  std::vector<Action> actions_;
  std::unordered_map<std::uint64_t, Action> pending_;
};

}  // namespace tiercel
