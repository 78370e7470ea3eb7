// Byte sizes, rates and durations as people write them: "64 GiB", "3 GB/s", "30 ms".
//
// Units   B, KB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers of 1024); a bare number is refused, so a file never
//         leaves the unit to the reader. Durations: ns us ms s min h. Whole numbers are exact; fractions are allowed
//         ("1.5 GiB") and round to the nearest byte or nanosecond; signs and exponents are not.
// Errors  invalid, naming the text and the accepted units; also for what does not fit into 63 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tiercel {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

Result<std::uint64_t> parse_byte_size(std::string_view text);
Result<std::uint64_t> parse_byte_rate(std::string_view text);  // "3 GB/s" in bytes per second.
Result<std::int64_t> parse_duration_ns(std::string_view text);

// Command-line flavour: also takes a bare number of bytes.
Result<std::uint64_t> parse_byte_count(std::string_view text);

// The shortest exact spelling with a binary unit ("110 GiB"), bytes where none divides: parse gives the same value back.
std::string exact_byte_size(std::uint64_t bytes);
std::string exact_byte_rate(std::uint64_t bytes_per_s);  // Decimal units: links are sold in them.
std::string exact_duration(std::int64_t ns);             // Requires ns >= 0.

// For people: three digits ("1.23 GiB"), never parsed back.
std::string pretty_byte_size(std::uint64_t bytes);
std::string pretty_duration(double seconds);

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace tiercel
