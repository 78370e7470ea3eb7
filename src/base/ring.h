// A queue in one growing array: first in, first out, with access by position. std::deque allocates a chunk for every few
// large elements that pass through; this allocates only when more wait than ever before.
//
// Cost    All operations O(1), push_back amortised. T is moved when the array grows.
// Threads one thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tiercel {

template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  T& operator[](std::size_t position) {
    TIERCEL_DCHECK(position < size_);
    return slots_[(first_ + position) & (slots_.size() - 1)];
  }
  const T& operator[](std::size_t position) const { return const_cast<Ring&>(*this)[position]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  const T& back() const { return (*this)[size_ - 1]; }

  void push_back(T value) {
    if (size_ == slots_.size()) grow();
    ++size_;
    (*this)[size_ - 1] = std::move(value);
  }

  void pop_front() {
    TIERCEL_DCHECK(size_ > 0);
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
  }

 private:
  static constexpr std::size_t kSlotsAtStart = 16;

  void grow() {
    std::vector<T> slots(slots_.empty() ? kSlotsAtStart : slots_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) slots[i] = std::move((*this)[i]);
    slots_ = std::move(slots);
    first_ = 0;
  }

  std::vector<T> slots_;  // Its size is a power of two, or zero.
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tiercel
