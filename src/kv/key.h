// 128-bit names. Three types, so that a prefix hash never stands where a key is meant.
//
// All are made by truncated SHA-256 (kv/chain.h), so any 64 bits of one are as good a hash as a table needs.
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
