// Values of keys: from a file, from the command line, and back to text.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/byte_size.h"
#include "placement/schema.h"

namespace tiercel {
namespace {

using enum ValueType;

std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::string_view type_words(ValueType type) {
  switch (type) {
    case text:
      return "a text in quotes";
    case flag:
      return "true or false";
    case integer:
      return "a whole number";
    case real:
      return "a number";
    case byte_size:
      return "a byte size with its unit in quotes";
    case byte_rate:
      return "a rate with its unit in quotes";
    case duration:
      return "a duration with its unit in quotes";
    case prefill_model:
      return "\"nominal\" or \"flops\"";
  }
  return "";
}

std::string quoted(std::string_view raw) {
  std::string out = "\"";
  for (const char c : raw) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string spelled(ValueType type, double value) {
  if (type == byte_size) return exact_byte_size(static_cast<std::uint64_t>(value));
  if (type == byte_rate) return exact_byte_rate(static_cast<std::uint64_t>(value));
  if (type == duration) return exact_duration(static_cast<std::int64_t>(value));
  return fmt::format("{}", value);
}

// The last step of every assignment of a number: range, then the slot.
Result<void> store_number(const PlacementKey& key, double value, Placement& placement) {
  if (!(value >= key.min && value <= key.max)) {
    return fail(Errc::invalid,
                fmt::format("{} must be from {} to {}, not {}", key.name,
                            spelled(key.type, key.min), spelled(key.type, key.max),
                            std::isfinite(value) && value >= 0 ? spelled(key.type, value)
                                                               : fmt::format("{}", value)));
  }
  std::visit(
      [&](auto* slot) {
        using T = std::remove_pointer_t<decltype(slot)>;
        if constexpr (std::is_same_v<T, double>) {
          *slot = key.type == duration ? value / 1e9 : value;
        } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          *slot = static_cast<T>(value);
        }
      },
      key.slot(placement));
  return {};
}

template <class T>
Result<void> store_parsed(const PlacementKey& key, const Result<T>& parsed, Placement& placement) {
  if (!parsed) return fail(Errc::invalid, fmt::format("{}: {}", key.name, parsed.error().what));
  return store_number(key, static_cast<double>(*parsed), placement);
}

Result<void> wrong_type(const PlacementKey& key, std::string_view found) {
  return fail(Errc::invalid,
              fmt::format("{} is {}, not {}; write e.g. {} = {}", key.name, type_words(key.type),
                          found, leaf_of(key.name), key.example));
}

Result<void> store_text(const PlacementKey& key, std::string_view value, Placement& placement) {
  const ValueSlot slot = key.slot(placement);
  if (key.type == text) {
    if (static_cast<double>(value.size()) > key.max) {
      return fail(Errc::invalid, fmt::format("{} has {} bytes; at most {} are read", key.name,
                                             value.size(), key.max));
    }
    *std::get<std::string*>(slot) = value;
    return {};
  }
  for (const auto& [name, model] :
       {std::pair{"nominal", PrefillModel::nominal}, std::pair{"flops", PrefillModel::flops}}) {
    if (value != name) continue;
    *std::get<PrefillModel*>(slot) = model;
    return {};
  }
  return wrong_type(key, quoted(value.substr(0, 60)));
}

// A bare number where a unit is due: the remedy repeats the number with the smallest unit.
Result<void> unit_missing(const PlacementKey& key, std::string_view number) {
  const std::string_view unit = key.type == byte_size ? "B" : key.type == byte_rate ? "B/s" : "ns";
  return fail(Errc::invalid,
              fmt::format("{} = {} has no unit; write e.g. {} = {}, or \"{} {}\" if that was meant",
                          key.name, number, leaf_of(key.name), key.example, number, unit));
}

bool has_unit(ValueType type) { return type == byte_size || type == byte_rate || type == duration; }

std::optional<double> parse_number(std::string_view value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(number))
    return {};
  return number;
}

bool is_digits(std::string_view value) {
  return !value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<void> parse_with_unit(const PlacementKey& key, std::string_view value,
                             Placement& placement) {
  if (key.type == byte_size) return store_parsed(key, parse_byte_size(value), placement);
  if (key.type == byte_rate) return store_parsed(key, parse_byte_rate(value), placement);
  return store_parsed(key, parse_duration_ns(value), placement);
}

}  // namespace

Result<void> assign_from_file(const PlacementKey& key, const FileValue& value,
                              Placement& placement) {
  if (const auto* other = std::get_if<OtherType>(&value)) return wrong_type(key, other->name);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    if (has_unit(key.type)) return unit_missing(key, fmt::format("{}", *whole));
    if (key.type != integer && key.type != real) return wrong_type(key, fmt::format("{}", *whole));
    return store_number(key, static_cast<double>(*whole), placement);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    if (has_unit(key.type)) return unit_missing(key, fmt::format("{}", *number));
    if (key.type != real) return wrong_type(key, fmt::format("{}", *number));
    return store_number(key, *number, placement);
  }
  if (const auto* yes = std::get_if<bool>(&value)) {
    if (key.type != flag) return wrong_type(key, *yes ? "true" : "false");
    *std::get<bool*>(key.slot(placement)) = *yes;
    return {};
  }
  const std::string& words = std::get<std::string>(value);
  if (has_unit(key.type)) return parse_with_unit(key, words, placement);
  if (key.type == text || key.type == prefill_model) return store_text(key, words, placement);
  return wrong_type(key, "a text in quotes");
}

Result<void> assign_from_text(const PlacementKey& key, std::string_view value,
                              Placement& placement) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value =
        value.substr(1, value.size() - 2);  // As it stands in the file: --set 'hot.bytes="1 GiB"'.
  }
  switch (key.type) {
    case text:
    case prefill_model:
      return store_text(key, value, placement);
    case flag:
      if (value != "true" && value != "false") return wrong_type(key, quoted(value.substr(0, 60)));
      *std::get<bool*>(key.slot(placement)) = value == "true";
      return {};
    case byte_size:
      return store_parsed(key, parse_byte_count(value), placement);
    case byte_rate:
    case duration:
      if (is_digits(value)) return unit_missing(key, value);
      return parse_with_unit(key, value, placement);
    case integer:
    case real: {
      const std::optional<double> number = parse_number(value);
      if (!number || (key.type == integer && !is_digits(value))) {
        return wrong_type(key, quoted(value.substr(0, 60)));
      }
      return store_number(key, *number, placement);
    }
  }
  return {};
}

std::string canonical_value(const PlacementKey& key, const Placement& placement) {
  // The slot is only read; the table hands out mutable ones so that a key has one row.
  const ValueSlot slot = key.slot(const_cast<Placement&>(placement));
  switch (key.type) {
    case text:
      return quoted(*std::get<std::string*>(slot));
    case flag:
      return *std::get<bool*>(slot) ? "true" : "false";
    case prefill_model:
      return *std::get<PrefillModel*>(slot) == PrefillModel::nominal ? "\"nominal\"" : "\"flops\"";
    case byte_size:
      return quoted(exact_byte_size(*std::get<std::uint64_t*>(slot)));
    case byte_rate:
      return quoted(exact_byte_rate(*std::get<std::uint64_t*>(slot)));
    case duration: {
      const auto* seconds = std::get_if<double*>(&slot);
      return quoted(exact_duration(seconds != nullptr ? std::llround(**seconds * 1e9)
                                                      : *std::get<std::int64_t*>(slot)));
    }
    case integer:
      return fmt::format("{}", *std::get<std::uint32_t*>(slot));
    case real:
      return fmt::format("{}", *std::get<double*>(slot));
  }
  return "";
}

std::string placement_keys_markdown() {
  const Placement defaults;
  std::string out = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const PlacementKey& key : placement_keys()) {
    out +=
        fmt::format("| `{}` | {} | {} | {} |\n", key.name, type_words(key.type),
                    key.required ? "required" : fmt::format("`{}`", canonical_value(key, defaults)),
                    key.meaning);
  }
  return out;
}

}  // namespace tiercel
