// What the tier benches share: paired rounds (ours, the reference, ours, ...), because figures on shared machines drift.
//
// With TIERCEL_BENCH_TINY set (as ctest does) a bench runs once over little data: it proves that it runs, nothing more.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

namespace tiercel {

inline bool bench_is_tiny() { return std::getenv("TIERCEL_BENCH_TINY") != nullptr; }

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// Rates in GB/s of both, in pairs; prints the medians and the median of the ratios.
class PairedRates {
 public:
  void add(double ours, double reference) {
    ours_.push_back(ours);
    references_.push_back(reference);
    if (reference > 0) ratios_.push_back(ours / reference);
  }
  void print(const std::string& name, const std::string& reference_name) const {
    std::vector<double> sorted = ratios_;
    std::ranges::sort(sorted);
    fmt::print(
        "{:<28} {:6.2f} GB/s   {:<34} {:6.2f} GB/s   ratio {:.2f} ({:.2f} .. {:.2f}, {} pairs)\n",
        name, median(ours_), reference_name, median(references_), median(ratios_),
        sorted.empty() ? 0 : sorted.front(), sorted.empty() ? 0 : sorted.back(), ratios_.size());
  }

 private:
  std::vector<double> ours_, references_, ratios_;
};

}  // namespace tiercel
