// The one LRU of the house: an order over dense ids, most recent first. `trace cache`, `trace tiers`, the replay and the
// library's Cache all use it, each tier with an instance of its own: nodes are never shared between tiers.
//
// Shape   A doubly linked list threaded through one array indexed by id;
//         every operation is O(1) and allocates only when a larger id than ever appears.
// Use     FIFO is the same order without touch(). Capacity, what eviction means (drop or demote) and what may be evicted are
//         the owner's business: it walks from back().
// Threads one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace tiercel {

class Lru {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool contains(std::uint32_t id) const { return id < nodes_.size() && nodes_[id].linked; }

  std::uint32_t back() const { return tail_; }   // The next victim, or kNone.
  std::uint32_t front() const { return head_; }  // The most recent, or kNone.
  std::uint32_t before(std::uint32_t id) const {
    return nodes_[id].prev;
  }  // The next more recent, or kNone.

  void push_front(std::uint32_t id) {
    TIERCEL_DCHECK(!contains(id));
    if (id >= nodes_.size()) grow(id);
    Node& node = nodes_[id];
    node = {.prev = kNone, .next = head_, .linked = true};
    (head_ == kNone ? tail_ : nodes_[head_].prev) = id;
    head_ = id;
    ++size_;
  }

  void push_back(std::uint32_t id) {  // First victim: what a hint has ended.
    TIERCEL_DCHECK(!contains(id));
    if (id >= nodes_.size()) grow(id);
    nodes_[id] = {.prev = tail_, .next = kNone, .linked = true};
    (tail_ == kNone ? head_ : nodes_[tail_].next) = id;
    tail_ = id;
    ++size_;
  }

  void remove(std::uint32_t id) {
    TIERCEL_DCHECK(contains(id));
    Node& node = nodes_[id];
    (node.prev == kNone ? head_ : nodes_[node.prev].next) = node.next;
    (node.next == kNone ? tail_ : nodes_[node.next].prev) = node.prev;
    node.linked = false;
    --size_;
  }

  void touch(std::uint32_t id) {
    if (head_ == id) return;
    remove(id);
    push_front(id);
  }

 private:
  struct Node {
    std::uint32_t prev = kNone;
    std::uint32_t next = kNone;
    bool linked = false;
  };

  void grow(std::uint32_t id) { nodes_.resize(static_cast<std::size_t>(id) + id / 2 + 64); }

  std::vector<Node> nodes_;
  std::uint32_t head_ = kNone;
  std::uint32_t tail_ = kNone;
  std::uint64_t size_ = 0;
};

}  // namespace tiercel
