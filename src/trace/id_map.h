// Makes 64-bit ids dense: the n-th distinct id gets n. A flat table; about 24 bytes per id at its
// fullest doubling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiercel {

// One thread. Ids are below 2^63 (the formats promise it; JsonRecords checks it).
class IdMap {
 public:
  IdMap();

  // The dense number of `id`, new ones numbered in order of first call.
  std::uint32_t number(std::uint64_t id);
  std::uint32_t size() const { return size_; }
  void clear();

 private:
  struct Slot {
    std::uint64_t id = kEmpty;
    std::uint32_t number = 0;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  std::size_t find(std::uint64_t id) const;
  void grow();

  std::vector<Slot> slots_;  // Power of two, at most half full.
  std::uint32_t size_ = 0;
};

}  // namespace tiercel
