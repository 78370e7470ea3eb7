// Where the parts of the core put their decisions, stamped with the time of the event that caused them.
//
// Threads one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ring.h"
#include "cache/action.h"

namespace tiercel {

class Outbox {
 public:
  void set_now_ns(std::int64_t now_ns) { now_ns_ = now_ns; }
  std::int64_t now_ns() const { return now_ns_; }

  // An action whose completion the core waits for; returns its op.
  std::uint64_t start(Action action) {
    action.op = first_op_ + pending_.size();
    action.time_ns = now_ns_;
    pending_.push_back(action);
    ++pending_count_;
    actions_.push_back(action);
    return action.op;
  }

  void emit(Action action) {
    action.time_ns = now_ns_;
    actions_.push_back(action);
  }

  // The started action that `op` names; it is pending no more.
  Action finish(std::uint64_t op) {
    TIERCEL_CHECK(op >= first_op_ && op - first_op_ < pending_.size() &&
                  pending_[op - first_op_].op == op);
    const Action action = pending_[op - first_op_];
    pending_[op - first_op_].op = 0;
    --pending_count_;
    while (!pending_.empty() && pending_.front().op == 0) {
      pending_.pop_front();
      ++first_op_;
    }
    return action;
  }

  std::size_t pending_count() const { return pending_count_; }
  const std::vector<Action>& actions() const { return actions_; }
  void clear() { actions_.clear(); }

 private:
  std::int64_t now_ns_ = 0;
  std::vector<Action> actions_;
  Ring<Action>
      pending_;  // By op from first_op_ on; ops end about in order, op 0 marks those that have.
  std::uint64_t first_op_ = 1;
  std::size_t pending_count_ = 0;
};

}  // namespace tiercel
