#include "cache/extent_allocator.h"

#include <algorithm>

#include "base/check.h"

namespace tiercel {

ExtentAllocator::ExtentAllocator(std::uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  if (capacity_bytes > 0) add_free(0, capacity_bytes);
}

void ExtentAllocator::add_free(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void ExtentAllocator::remove_free(std::map<std::uint64_t, std::uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

std::optional<std::uint64_t> ExtentAllocator::allocate(std::uint64_t bytes) {
  TIERCEL_CHECK(bytes > 0);
  std::optional<std::uint64_t> given;
  if (const auto same = waiting_.find(bytes); same != waiting_.end() && !same->second.empty()) {
    given = same->second.back();
    same->second.pop_back();
  } else if (given = cut(bytes); !given && bytes <= free_bytes()) {
    merge_waiting();
    given = cut(bytes);
  }
  if (!given) return std::nullopt;
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return given;
}

// The best fit among the merged ranges.
std::optional<std::uint64_t> ExtentAllocator::cut(std::uint64_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [range_bytes, offset] = *fit;
  remove_free(by_offset_.find(offset));
  if (range_bytes > bytes) add_free(offset + bytes, range_bytes - bytes);
  return offset;
}

void ExtentAllocator::release(std::uint64_t offset, std::uint64_t bytes) {
  TIERCEL_CHECK(bytes > 0 && bytes <= used_bytes_ && offset + bytes <= capacity_bytes_);
  used_bytes_ -= bytes;
  waiting_[bytes].push_back(offset);
}

void ExtentAllocator::merge_waiting() {
  for (const auto& [bytes, offsets] : waiting_) {
    for (const std::uint64_t offset : offsets) merge_free(offset, bytes);
  }
  waiting_.clear();
}

void ExtentAllocator::merge_free(std::uint64_t offset, std::uint64_t bytes) {
  auto next = by_offset_.lower_bound(offset);
  TIERCEL_CHECK(next == by_offset_.end() || next->first >= offset + bytes);
  if (next != by_offset_.begin()) {
    const auto previous = std::prev(next);
    TIERCEL_CHECK(previous->first + previous->second <= offset);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      remove_free(previous);
    }
  }
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    remove_free(next);
  }
  add_free(offset, bytes);
}

}  // namespace tiercel
