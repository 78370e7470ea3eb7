// The checksum of stored bytes: XXH3, 64 bits (xxHash). About memory speed; catches every flip a disk makes, but is no
// defence against somebody who wants a collision: names of blocks are SHA-256 (kv/chain.h).
//
// The instruction set is picked once, at the first call, from what the processor has; every kernel gives the same sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tiercel {

std::uint64_t checksum64(std::span<const std::byte> bytes);

// The same over pieces, for scatter lists. One thread. finish() may be called at any point; reset()
// starts anew.
class Checksum64 {
 public:
  Checksum64() { reset(); }
  void reset();
  void update(std::span<const std::byte> bytes);
  std::uint64_t finish() const;

 private:
  alignas(64) std::array<std::byte, 640> state_;
};

// The name of the kernel in use ("avx2"), for reports.
const char* checksum_kernel_name();

}  // namespace tiercel
