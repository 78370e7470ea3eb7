// Arithmetic of virtual time that ends instead of overflowing: a link of 1 B/s and a trace of a century are allowed inputs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tiercel {

// About 127 years: beyond the longest trace (a century), and twice it still fits into 63 bits.
inline constexpr std::int64_t kEndOfTime_ns = 4'000'000'000'000'000'000;

// `by_ns` after `at_ns`; what would lie beyond the end of time happens at it.
constexpr std::int64_t after_ns(std::int64_t at_ns, std::int64_t by_ns) {
  return by_ns >= kEndOfTime_ns - at_ns ? std::max(at_ns, kEndOfTime_ns) : at_ns + by_ns;
}

// A product or a quotient as a duration.
inline std::int64_t duration_ns(double ns) {
  return ns >= static_cast<double>(kEndOfTime_ns) ? kEndOfTime_ns : static_cast<std::int64_t>(ns);
}
inline std::int64_t times_ns(std::uint64_t count, std::int64_t each_ns) {
  const auto product = static_cast<unsigned __int128>(count) * static_cast<std::uint64_t>(each_ns);
  return static_cast<std::int64_t>(std::min<unsigned __int128>(product, kEndOfTime_ns));
}

}  // namespace tiercel
