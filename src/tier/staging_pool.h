// The fixed staging memory of a cold tier: single pages for record heads, and slots as large as a record for those whose
// memory the device cannot reach directly. A pool of its own, so that no cache can starve it; empty means wait, never grow.
//
// Threads one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace tiercel {

class StagingPool {
 public:
  struct Shape {
    std::uint64_t page_bytes = 4096;
    std::uint32_t page_count = 0;
    std::uint64_t slot_bytes = 0;
    std::uint32_t slot_count = 0;
  };
  static constexpr std::uint64_t bytes_needed(const Shape& shape) {
    return shape.page_bytes * shape.page_count + shape.slot_bytes * shape.slot_count;
  }

  StagingPool(std::span<std::byte> memory, const Shape& shape) : shape_(shape) {
    TIERCEL_CHECK(memory.size() >= bytes_needed(shape));
    std::byte* at = memory.data();
    for (std::uint32_t i = 0; i < shape.page_count; ++i, at += shape.page_bytes)
      pages_.push_back(at);
    for (std::uint32_t i = 0; i < shape.slot_count; ++i, at += shape.slot_bytes)
      slots_.push_back(at);
  }

  std::size_t free_pages() const { return pages_.size(); }
  std::size_t free_slots() const { return slots_.size(); }

  std::span<std::byte> take_page() { return {pop(pages_), shape_.page_bytes}; }
  std::span<std::byte> take_slot() { return {pop(slots_), shape_.slot_bytes}; }
  void give_page(std::span<std::byte> page) { pages_.push_back(page.data()); }
  void give_slot(std::span<std::byte> slot) { slots_.push_back(slot.data()); }

 private:
  static std::byte* pop(std::vector<std::byte*>& list) {
    TIERCEL_CHECK(!list.empty());
    std::byte* const last = list.back();
    list.pop_back();
    return last;
  }

  const Shape shape_;
  std::vector<std::byte*> pages_, slots_;
};

}  // namespace tiercel
