// The checksum of stored bytes: XXH3, 64 bits (xxHash). About memory speed; catches every flip a disk makes, but is no
// defence against somebody who wants a collision: names of blocks are SHA-256 (kv/chain.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tiercel {

std::uint64_t checksum64(std::span<const std::byte> bytes);

// The same over pieces, for scatter lists. One thread.
class Checksum64 {
 public:
  Checksum64();
  ~Checksum64();
  void update(std::span<const std::byte> bytes);
  std::uint64_t finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tiercel
