// The events of a replay in the order of the rules: by time; at equal times completions, then waiting limits, then arrivals;
// among those by creation.
//
// Threads one thread.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

namespace tiercel {

enum class EventType : std::uint8_t {
  transfer_done,  // Core action `op`.
  wakeup,         // The core asked for it.
  prefill_done,
  token_block,    // The request's output passes the end of its last block.
  decode_done,
  wait_limit,
  arrival,
};

struct Event {
  std::int64_t time_ns = 0;
  EventType type = EventType::arrival;
  std::uint32_t request = 0;
  std::uint32_t life = 0;   // Of the request: a preempted or rejected life's events are void.
  std::uint64_t op = 0;
  std::uint64_t sequence = 0;
};

class EventQueue {
 public:
  void push(Event event) {
    event.sequence = next_sequence_++;
    heap_.push(event);
  }
  bool empty() const { return heap_.empty(); }
  Event pop() {
    const Event event = heap_.top();
    heap_.pop();
    return event;
  }

 private:
  static int rank(EventType type) {
    return type == EventType::arrival ? 2 : type == EventType::wait_limit ? 1 : 0;
  }
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tuple(a.time_ns, rank(a.type), a.sequence) >
             std::tuple(b.time_ns, rank(b.type), b.sequence);
    }
  };

  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tiercel
