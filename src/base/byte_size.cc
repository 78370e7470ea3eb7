#include "base/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace tiercel {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0}}};
constexpr std::array<Unit, 6> kTimeUnits{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<std::uint64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                      std::string_view example) {
  const std::string_view trimmed = trim(text);
  const std::size_t digits = trimmed.find_first_not_of("0123456789.");
  const std::string_view number = trimmed.substr(0, digits);
  const std::string_view name =
      digits == std::string_view::npos ? "" : trim(trimmed.substr(digits));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool number_ok = error == std::errc() && end == number.data() + number.size();
  for (const Unit& unit : units) {
    if (!number_ok || unit.name != name) continue;
    const double scaled = std::round(value * unit.factor);
    if (scaled >= 9.2e18) break;
    return static_cast<std::uint64_t>(scaled);
  }
  std::string names;
  for (const Unit& unit : units) names += fmt::format("{}{}", names.empty() ? "" : ", ", unit.name);
  return fail(Errc::invalid, fmt::format("\"{}\" is not a number with a unit ({}); write e.g. \"{}\"",
                                         text.substr(0, 60), names, example));
}

std::string exact(std::uint64_t value, std::span<const Unit> units, std::string_view suffix) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    const auto factor = static_cast<std::uint64_t>(unit.factor);
    if (value != 0 && value % factor == 0 && factor > best->factor) best = &unit;
  }
  return fmt::format("{} {}{}", value / static_cast<std::uint64_t>(best->factor), best->name,
                     suffix);
}

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  return parse_with_unit(text, kByteUnits, "64 GiB");
}

Result<std::uint64_t> parse_byte_rate(std::string_view text) {
  std::string_view rate = trim(text);
  if (!rate.ends_with("/s")) {
    return fail(Errc::invalid, fmt::format("\"{}\" is not a rate; write e.g. \"3 GB/s\"", text));
  }
  rate.remove_suffix(2);
  return parse_with_unit(rate, kByteUnits, "3 GB/s");
}

Result<std::int64_t> parse_duration_ns(std::string_view text) {
  TIERCEL_TRY(const std::uint64_t ns, parse_with_unit(text, kTimeUnits, "30 ms"));
  return static_cast<std::int64_t>(ns);
}

Result<std::uint64_t> parse_byte_count(std::string_view text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {
    return parse_byte_size(fmt::format("{} B", text));
  }
  return parse_byte_size(text);
}

std::string exact_byte_size(std::uint64_t bytes) {
  // Binary units only (B first): a size that happens to divide by 1000 still reads in GiB.
  static constexpr std::array<Unit, 5> binary{
      {kByteUnits[0], kByteUnits[5], kByteUnits[6], kByteUnits[7], kByteUnits[8]}};
  return exact(bytes, binary, "");
}

std::string exact_byte_rate(std::uint64_t bytes_per_s) {
  return exact(bytes_per_s, std::span(kByteUnits).first(5), "/s");
}

std::string exact_duration(std::int64_t ns) {
  return exact(static_cast<std::uint64_t>(ns), std::span(kTimeUnits).first(4), "");
}

std::string pretty_byte_size(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, names[unit]);
}

std::string pretty_duration(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

}  // namespace tiercel
