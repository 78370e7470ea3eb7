// A small deterministic random source: the same seed gives the same numbers on every machine and compiler.
//
// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush; good for tests and synthetic traces, not for
// secrets. Distributions are ours because those of <random> differ between standard libraries.
// Threads one thread.
#pragma once

#include <cmath>
#include <cstdint>

namespace tiercel {

// The finaliser alone: a cheap bijective mix of 64 bits.
constexpr std::uint64_t mix64(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    return mix64(state_);
  }

  // Uniform in [0, bound), bound > 0 (multiply-shift; the bias is below bound / 2^64).
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // In [0, 1).
  bool chance(double probability) { return uniform() < probability; }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  double normal() {  // Box-Muller, one of the pair.
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  double lognormal(double median, double sigma) { return median * std::exp(sigma * normal()); }

 private:
  std::uint64_t state_;
};

}  // namespace tiercel
