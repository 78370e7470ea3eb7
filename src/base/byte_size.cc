#include "base/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace tiercel {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kQuotedMax = 60;  // Of a wrong text, in an error: enough to find it.

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1},
                                          {"KB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000},
                                          {"KiB", kKiB},
                                          {"MiB", kMiB},
                                          {"GiB", kGiB},
                                          {"TiB", 1024 * kGiB}}};
constexpr std::array<Unit, 6> kTimeUnits{{{"ns", 1},
                                          {"us", 1'000},
                                          {"ms", 1'000'000},
                                          {"s", 1'000'000'000},
                                          {"min", 60'000'000'000},
                                          {"h", 3'600'000'000'000}}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "12.5" in units of `factor`, rounded half up. Whole numbers stay exact over all 63 bits: they never pass through a
// double. Empty where it is no number.
struct Scaled {
  std::uint64_t value = 0;
  bool fits = true;
};
std::optional<Scaled> scale(std::string_view number, std::uint64_t factor) {
  const std::size_t dot = number.find('.');
  const std::string_view whole = number.substr(0, dot);
  const std::string_view fraction =
      dot == std::string_view::npos ? std::string_view() : number.substr(dot + 1);
  if ((whole.empty() && fraction.empty()) || fraction.find('.') != std::string_view::npos) {
    return std::nullopt;
  }
  unsigned __int128 value = 0;
  for (const char digit : whole) {
    value = value * 10 + static_cast<unsigned>(digit - '0');
    if (value > kLargest) return Scaled{.fits = false};
  }
  value *= factor;
  double part = 0;  // Below 1, so part * factor stays far below 2^53: exact enough to round.
  for (auto digit = fraction.rbegin(); digit != fraction.rend(); ++digit) {
    part = (part + (*digit - '0')) / 10;
  }
  value += static_cast<std::uint64_t>(std::round(part * static_cast<double>(factor)));
  if (value > kLargest) return Scaled{.fits = false};
  return Scaled{.value = static_cast<std::uint64_t>(value)};
}

Result<std::uint64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                      std::string_view per, std::string_view example) {
  std::string_view trimmed = trim(text);
  const std::size_t digits = trimmed.find_first_not_of("0123456789.");
  std::string_view name = digits == std::string_view::npos ? "" : trim(trimmed.substr(digits));
  const bool has_per = name.ends_with(per);
  if (has_per) name.remove_suffix(per.size());
  std::string names;
  for (const Unit& unit : units) {
    names += fmt::format("{}{}{}", names.empty() ? "" : ", ", unit.name, per);
    if (!has_per || unit.name != name) continue;
    const auto scaled = scale(trimmed.substr(0, digits), unit.factor);
    if (!scaled) continue;
    if (scaled->fits) return scaled->value;
    return fail(Errc::invalid, fmt::format("\"{}\" is too large: it does not fit into 63 bits; "
                                           "write e.g. \"{}\"",
                                           text.substr(0, kQuotedMax), example));
  }
  return fail(Errc::invalid,
              fmt::format("\"{}\" is not a number with a unit ({}); write e.g. \"{}\"",
                          text.substr(0, kQuotedMax), names, example));
}

std::string exact(std::uint64_t value, std::span<const Unit> units, std::string_view suffix) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0 && unit.factor > best->factor) best = &unit;
  }
  return fmt::format("{} {}{}", value / best->factor, best->name, suffix);
}

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  return parse_with_unit(text, kByteUnits, "", "64 GiB");
}

Result<std::uint64_t> parse_byte_rate(std::string_view text) {
  return parse_with_unit(text, kByteUnits, "/s", "3 GB/s");
}

Result<std::int64_t> parse_duration_ns(std::string_view text) {
  TIERCEL_TRY(const std::uint64_t ns, parse_with_unit(text, kTimeUnits, "", "30 ms"));
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
  if (unit == 0) return fmt::format("{} B", bytes);
  // Three digits of 999.5 and more are "1e+03".
  return value < 999.5 ? fmt::format("{:.3g} {}", value, names[unit])
                       : fmt::format("{:.0f} {}", value, names[unit]);
}

std::string pretty_duration(double seconds) {
  static constexpr std::array<std::pair<double, const char*>, 3> small{
      {{1e9, "ns"}, {1e6, "us"}, {1e3, "ms"}}};
  for (const auto& [per_second, name] : small) {
    // Three digits of 999.5 and more are "1e+03": the next unit says it better.
    if (seconds * per_second < 999.5) return fmt::format("{:.3g} {}", seconds * per_second, name);
  }
  return fmt::format("{:.4g} s", seconds);
}

}  // namespace tiercel
