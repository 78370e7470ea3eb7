// What blocks are called: 128-bit names, and the kinds of state that a model keeps.
//
// Names   Three types, so that a prefix hash never stands where a key is meant. All are truncated SHA-256 over tagged,
//         length-prefixed fields, so any 64 bits of one are as good a hash as a table needs.
// Kinds   What a block's state is, and how far back the engine needs it (its reach):
//           all        attention: position p needs every block before p
//           window(n)  sliding window: needs the blocks that hold the last n tokens before p
//           last       recurrent state: needs the one record that was taken at exactly p
//         A model has one or several (hybrid models); each block belongs to one of them.
// Threads Plain values.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace tiercel {

template <class Tag>
struct Name128 {
  std::array<std::uint8_t, 16> bytes{};

  auto operator<=>(const Name128&) const = default;

  std::uint64_t low64() const {
    std::uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};

using PrefixHash = Name128<struct PrefixHashTag>;    // Names a position of a chain, without kind.
using Fingerprint = Name128<struct FingerprintTag>;  // Names everything two caches must agree on.
using Key = Name128<struct KeyTag>;  // Names a block: prefix hash + fingerprint + kind.

enum class Reach : std::uint8_t { all = 0, window = 1, last = 2 };

struct Kind {
  std::uint16_t id = 0;  // Chosen by the engine adapter; part of the key.
  Reach reach = Reach::all;
  std::uint32_t window_tokens = 0;  // Only for Reach::window, then > 0.

  auto operator<=>(const Kind&) const = default;
};

std::string hex(const std::array<std::uint8_t, 16>& bytes);
template <class Tag>
std::string hex(const Name128<Tag>& name) {
  return hex(name.bytes);
}

}  // namespace tiercel

template <class Tag>
struct std::hash<tiercel::Name128<Tag>> {
  std::size_t operator()(const tiercel::Name128<Tag>& name) const { return name.low64(); }
};
