// Numbers and names as bytes of a file, at fixed offsets: the only way a format of ours is written
// or read.
//
// Requires the span to reach past offset + size: the caller has checked the length of what came
// from outside.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "kv/key.h"

namespace tiercel {

template <class T>
void put_number(std::span<std::byte> out, std::size_t offset, T value) {
  TIERCEL_DCHECK(offset + sizeof(T) <= out.size());
  const auto bits = static_cast<std::uint64_t>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out[offset + i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

template <class T>
T get_number(std::span<const std::byte> in, std::size_t offset) {
  TIERCEL_DCHECK(offset + sizeof(T) <= in.size());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<std::uint64_t>(in[offset + i]) << (8 * i);
  }
  return static_cast<T>(value);
}

template <std::size_t N>
void put_bytes(std::span<std::byte> out, std::size_t offset,
               const std::array<std::uint8_t, N>& in) {
  TIERCEL_DCHECK(offset + N <= out.size());
  std::ranges::copy(std::as_bytes(std::span(in)),
                    out.begin() + static_cast<std::ptrdiff_t>(offset));
}

template <std::size_t N>
std::array<std::uint8_t, N> get_bytes(std::span<const std::byte> in, std::size_t offset) {
  TIERCEL_DCHECK(offset + N <= in.size());
  std::array<std::uint8_t, N> out;
  std::ranges::copy(in.subspan(offset, N), std::as_writable_bytes(std::span(out)).begin());
  return out;
}

template <class Tag>
void put_name(std::span<std::byte> out, std::size_t offset, const Name128<Tag>& name) {
  put_bytes(out, offset, name.bytes);
}

template <class Name>
Name get_name(std::span<const std::byte> in, std::size_t offset) {
  return Name{get_bytes<16>(in, offset)};
}

// Eight letters at the start of every structure, so that a hex dump says what it is.
inline void put_magic(std::span<std::byte> out, std::string_view magic) {
  std::ranges::copy(std::as_bytes(std::span(magic)), out.begin());
}

inline bool has_magic(std::span<const std::byte> in, std::string_view magic) {
  return in.size() >= magic.size() &&
         std::ranges::equal(in.first(magic.size()), std::as_bytes(std::span(magic)));
}

}  // namespace tiercel
