// Block codecs by number: how the plain bytes of a chunk become the stored ones and back.
//
// Ids     Stand in every record's chunk table, so a number is never reused. 0 = identity; a codec brings its own with it.
// Law     decode(encode(x)) gives x, or x within the error the codec states; the same bytes from every kernel.
// Errors  invalid  a length that does not fit
//         corrupt  stored bytes that no encoder wrote
// Threads Codecs are immutable: any thread.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tiercel {

inline constexpr std::uint16_t kIdentityCodec = 0;

using CodecParameters = std::array<std::uint8_t, 16>;

struct Encoded {
  std::uint64_t stored_bytes = 0;
  CodecParameters parameters{};
};

class Codec {
 public:
  virtual ~Codec() = default;

  virtual std::uint16_t id() const = 0;
  virtual const char* name() const = 0;
  virtual std::uint64_t stored_bytes_max(std::uint64_t plain_bytes) const = 0;

  // Requires out.size() >= stored_bytes_max(plain.size()); not overlapping.
  virtual Result<Encoded> encode(std::span<const std::byte> plain,
                                 std::span<std::byte> out) const = 0;

  // Fills `out` whole: its size is the chunk's plain length.
  virtual Result<void> decode(std::span<const std::byte> stored, const CodecParameters& parameters,
                              std::span<std::byte> out) const = 0;
};

// Errors: unavailable  this build has no such codec; the text names the number and those it has.
Result<const Codec*> find_codec(std::uint16_t id);

}  // namespace tiercel
