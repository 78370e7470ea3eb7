// Space in a memory tier: gives out byte ranges of [0, capacity) and takes them back. Pure bookkeeping, no memory.
//
// A range that comes back waits for a request of just its size; only where none fits do neighbours merge, and the best fit
// is cut (ties to the lowest offset). With records of one size it is a slot table; mixed sizes may fragment, then allocate()
// fails although free_bytes() would do, and the caller evicts on until it fits.
// Cost    O(1) for a size that was released before, else O(log ranges). Deterministic: the same calls give the same offsets, so a simulation and a driven run agree.
// Threads one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tiercel {

class ExtentAllocator {
 public:
  explicit ExtentAllocator(std::uint64_t capacity_bytes);

  // The offset of a free range of exactly `bytes` > 0, or nullopt where no free range is that long.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);

  // Takes back what allocate() gave, whole.
  void release(std::uint64_t offset, std::uint64_t bytes);

  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t free_bytes() const { return capacity_bytes_ - used_bytes_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  std::optional<std::uint64_t> cut(std::uint64_t bytes);
  void merge_waiting();
  void merge_free(std::uint64_t offset, std::uint64_t bytes);
  void add_free(std::uint64_t offset, std::uint64_t bytes);
  void remove_free(std::map<std::uint64_t, std::uint64_t>::iterator range);

  const std::uint64_t capacity_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::map<std::uint64_t, std::vector<std::uint64_t>>
      waiting_;  // bytes -> offsets, not yet merged; few sizes.
  std::map<std::uint64_t, std::uint64_t> by_offset_;  // offset -> bytes, never adjacent.
  std::set<std::pair<std::uint64_t, std::uint64_t>>
      by_size_;  // {bytes, offset} of the same ranges.
};

}  // namespace tiercel
