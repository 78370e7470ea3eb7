// The events of a replay in the order of the rules: by time; at equal times completions, then waiting limits, then arrivals;
// among those by creation.
//
// Cost    Most events come from sources whose times only grow (arrivals, each direction of each link). Those wait in lanes, first
//         in, first out; only the rest is in a heap, which stays small. An event that would go back in its lane's time
//         goes to the heap, so a lane is a matter of speed alone.
// Threads one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <queue>
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

enum class EventLane : std::uint8_t { none, arrivals, limits, warm_read, warm_write, cold_read, cold_write };

class EventQueue {
 public:
  void push(Event event, EventLane lane = EventLane::none) {
    event.sequence = next_sequence_++;
    std::deque<Event>& in_order = lanes_[static_cast<std::size_t>(lane)];
    if (lane == EventLane::none || (!in_order.empty() && before(event, in_order.back()))) {
      heap_.push(event);
    } else {
      in_order.push_back(event);
    }
    ++size_;
  }

  bool empty() const { return size_ == 0; }

  Event pop() {
    std::deque<Event>* first = nullptr;
    for (std::deque<Event>& lane : lanes_) {
      if (!lane.empty() && (first == nullptr || before(lane.front(), first->front()))) first = &lane;
    }
    --size_;
    if (first == nullptr || (!heap_.empty() && before(heap_.top(), first->front()))) {
      const Event event = heap_.top();
      heap_.pop();
      return event;
    }
    const Event event = first->front();
    first->pop_front();
    return event;
  }

 private:
  static int rank(EventType type) {
    return type == EventType::arrival ? 2 : type == EventType::wait_limit ? 1 : 0;
  }
  static bool before(const Event& a, const Event& b) {
    if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    if (rank(a.type) != rank(b.type)) return rank(a.type) < rank(b.type);
    return a.sequence < b.sequence;
  }
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return before(b, a); }
  };

  std::array<std::deque<Event>, 7> lanes_;
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace tiercel
