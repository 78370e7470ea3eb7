#include "placement/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/byte_size.h"

namespace tiercel {
namespace {

using enum ValueType;

constexpr double kBytesMax = 0x1p53;  // 8 PiB: the exact range of the parser.
constexpr double kDurationMax =
    3600e9 * 100;                 // 100 h: longer than any trace; exact in seconds as a double.
constexpr double kTextMax = 512;  // Bytes of a text.
constexpr double kUnused = 0;

// clang-format off
constexpr std::array kKeys{
    PlacementKey{"name", text, 0, kTextMax, false, "\"one-box\"", "what reports call this placement",
                 [](Placement& p) -> ValueSlot { return &p.name; }},
    PlacementKey{"wait_limit", duration, 0, kDurationMax, false, "\"1 s\"", "a request that waits longer for admission is rejected",
                 [](Placement& p) -> ValueSlot { return &p.wait_limit_ns; }},
    PlacementKey{"prefix_sharing", flag, kUnused, kUnused, false, "true", "whether requests reuse the blocks of equal prefixes; `false` computes every prompt whole",
                 [](Placement& p) -> ValueSlot { return &p.prefix_sharing; }},

    PlacementKey{"model.name", text, 0, kTextMax, false, "\"Llama-3-8B\"", "for people",
                 [](Placement& p) -> ValueSlot { return &p.model.name; }},
    PlacementKey{"model.bytes_per_token", byte_size, 1, 0x1p30, true, "\"128 KiB\"", "KV bytes of one token over all layers",
                 [](Placement& p) -> ValueSlot { return &p.model.bytes_per_token; }},
    PlacementKey{"model.block_tokens", integer, 1, 0x1p20, false, "512", "tokens of a full block; that of the trace where the trace has one",
                 [](Placement& p) -> ValueSlot { return &p.model.block_tokens; }},
    PlacementKey{"model.parameters", real, 0, 1e15, false, "8.0e9", "for `prefill = \"flops\"`: active parameters",
                 [](Placement& p) -> ValueSlot { return &p.model.parameters; }},
    PlacementKey{"model.layers", integer, 0, 100000, false, "32", "for `prefill = \"flops\"`: layers with attention",
                 [](Placement& p) -> ValueSlot { return &p.model.layers; }},
    PlacementKey{"model.hidden", integer, 0, 1e7, false, "4096", "for `prefill = \"flops\"`: heads x head_dim of the queries",
                 [](Placement& p) -> ValueSlot { return &p.model.hidden; }},

    PlacementKey{"engine.prefill", prefill_model, kUnused, kUnused, false, "\"nominal\"", "`nominal`: tokens / rate, no lanes; `flops`: arithmetic over planned FLOP/s, FIFO over lanes",
                 [](Placement& p) -> ValueSlot { return &p.engine.prefill; }},
    PlacementKey{"engine.prefill_tokens_per_s", real, 1e-3, 1e12, false, "10000", "for `nominal`: input tokens per second of one request",
                 [](Placement& p) -> ValueSlot { return &p.engine.prefill_tokens_per_s; }},
    PlacementKey{"engine.flops", real, 0, 1e21, false, "4.0e14", "for `flops`: planned FLOP/s of one lane",
                 [](Placement& p) -> ValueSlot { return &p.engine.flops; }},
    PlacementKey{"engine.prefill_lanes", integer, 1, 1024, false, "1", "for `flops`: prefills that run at once",
                 [](Placement& p) -> ValueSlot { return &p.engine.prefill_lanes; }},
    PlacementKey{"engine.decode_per_token", duration, 0, kDurationMax, false, "\"30 ms\"", "time of one output token",
                 [](Placement& p) -> ValueSlot { return &p.engine.decode_per_token_ns; }},

    PlacementKey{"hot.bytes", byte_size, 0, kBytesMax, true, "\"110 GiB\"", "the envelope: GPU memory for KV; at least one block",
                 [](Placement& p) -> ValueSlot { return &p.hot.bytes; }},

    PlacementKey{"warm.bytes", byte_size, 0, kBytesMax, false, "\"640 GiB\"", "host memory for KV, at least `hot.bytes`; `0 B` = no warm tier",
                 [](Placement& p) -> ValueSlot { return &p.warm.bytes; }},
    PlacementKey{"warm.latency", duration, 0, kDurationMax, false, "\"20 us\"", "of one transfer between warm and hot",
                 [](Placement& p) -> ValueSlot { return &p.warm.link.latency_ns; }},
    PlacementKey{"warm.read_bandwidth", byte_rate, 0, kBytesMax, false, "\"20 GB/s\"", "warm to hot",
                 [](Placement& p) -> ValueSlot { return &p.warm.link.read_bytes_per_s; }},
    PlacementKey{"warm.write_bandwidth", byte_rate, 0, kBytesMax, false, "\"20 GB/s\"", "hot to warm",
                 [](Placement& p) -> ValueSlot { return &p.warm.link.write_bytes_per_s; }},

    PlacementKey{"cold.bytes", byte_size, 0, kBytesMax, false, "\"6 TiB\"", "disk space for KV, physical; `0 B` = no cold tier; needs a warm tier",
                 [](Placement& p) -> ValueSlot { return &p.cold.bytes; }},
    PlacementKey{"cold.path", text, 0, kTextMax, false, "\"/mnt/nvme0/tiercel\"", "directory of the store; empty: `store` below the output directory",
                 [](Placement& p) -> ValueSlot { return &p.cold.path; }},
    PlacementKey{"cold.segment_bytes", byte_size, 0, 0x1p40, false, "\"64 MiB\"", "size of a segment file, physical and not scaled; a multiple of 4 KiB; raised to 8 records where those are larger",
                 [](Placement& p) -> ValueSlot { return &p.cold.segment_bytes; }},
    PlacementKey{"cold.sync_bytes", byte_size, 0, kBytesMax, false, "\"1 GiB\"", "group commit once so many bytes (unscaled) wait; `0 B` = by time alone",
                 [](Placement& p) -> ValueSlot { return &p.cold.sync_bytes; }},
    PlacementKey{"cold.sync_interval", duration, 0, kDurationMax, false, "\"1 s\"", "group commit once the oldest waits so long; `0 ns` = by bytes alone",
                 [](Placement& p) -> ValueSlot { return &p.cold.sync_interval_ns; }},
    PlacementKey{"cold.sync_latency", duration, 0, kDurationMax, false, "\"5 ms\"", "what a commit takes in virtual time",
                 [](Placement& p) -> ValueSlot { return &p.cold.sync_latency_ns; }},
    PlacementKey{"cold.latency", duration, 0, kDurationMax, false, "\"100 us\"", "of one transfer between cold and warm",
                 [](Placement& p) -> ValueSlot { return &p.cold.link.latency_ns; }},
    PlacementKey{"cold.read_bandwidth", byte_rate, 0, kBytesMax, false, "\"3 GB/s\"", "cold to warm",
                 [](Placement& p) -> ValueSlot { return &p.cold.link.read_bytes_per_s; }},
    PlacementKey{"cold.write_bandwidth", byte_rate, 0, kBytesMax, false, "\"3 GB/s\"", "warm to cold",
                 [](Placement& p) -> ValueSlot { return &p.cold.link.write_bytes_per_s; }},

    PlacementKey{"staging.bytes", byte_size, 0, kBytesMax, false, "\"16 GiB\"", "stores in flight to one tier, at most; what comes beyond is skipped and counted",
                 [](Placement& p) -> ValueSlot { return &p.staging_bytes; }},

    PlacementKey{"replay.payload", byte_size, 0, 0x1p40, false, "\"64 KiB\"", "bytes that stand for a full block when a replay moves it; every capacity scales by payload / block bytes; a multiple of 4 KiB; `0 B` = the block itself",
                 [](Placement& p) -> ValueSlot { return &p.replay_payload; }},

    PlacementKey{"targets.rejection_ratio", real, 0, 1, false, "0.01", "rejected requests over arrivals, at most",
                 [](Placement& p) -> ValueSlot { return &p.targets.rejection_ratio_max; }},
    PlacementKey{"targets.refill_p95", duration, 0, kDurationMax, false, "\"1 s\"", "P95 of the refill latency of a tier, at most",
                 [](Placement& p) -> ValueSlot { return &p.targets.refill_p95_s_max; }},
    PlacementKey{"targets.turn_drift", real, 0, 1e6, false, "2.0", "P95 of wait + refill in late turns over that of turns 2-3, at most",
                 [](Placement& p) -> ValueSlot { return &p.targets.turn_drift_max; }},
};
// clang-format on

std::string_view table_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Edits (insert, delete, replace, swap of neighbours) between two short names.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

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

std::span<const PlacementKey> placement_keys() { return kKeys; }

const PlacementKey* find_placement_key(std::string_view name) {
  const auto found = std::ranges::find(kKeys, name, &PlacementKey::name);
  return found != kKeys.end() ? &*found : nullptr;
}

bool is_placement_table(std::string_view name) {
  return !name.empty() && std::ranges::any_of(kKeys, [&](const PlacementKey& key) {
    return table_of(key.name) == name;
  });
}

std::string suggest_placement_key(std::string_view unknown) {
  constexpr std::size_t kLongestName = 64;  // Bounds the work; no key is half as long.
  std::string_view nearest;
  std::size_t best = std::numeric_limits<std::size_t>::max();
  const auto consider = [&](std::string_view candidate, std::size_t distance) {
    if (distance >= best) return;
    best = distance;
    nearest = candidate;
  };
  if (unknown.size() <= kLongestName) {
    for (const PlacementKey& key : kKeys) {
      consider(key.name, edit_distance(unknown, key.name));
      // The right name in the wrong table is nearer than any typo.
      if (leaf_of(key.name) == leaf_of(unknown)) consider(key.name, 1);
      if (unknown.find('.') == std::string_view::npos) {
        consider(table_of(key.name), edit_distance(unknown, table_of(key.name)));
      }
    }
  }
  if (!nearest.empty() && best <= std::max<std::size_t>(2, unknown.size() / 3)) {
    return fmt::format("; did you mean \"{}\"?", nearest);
  }
  std::string names;
  for (const PlacementKey& key : kKeys) {
    if (table_of(key.name) == table_of(unknown)) names += fmt::format(" {}", leaf_of(key.name));
  }
  if (names.empty() || table_of(unknown).empty())
    return "; the keys are listed in docs/formats/placement.md";
  return fmt::format("; [{}] has:{}", table_of(unknown), names);
}

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
  for (const PlacementKey& key : kKeys) {
    out +=
        fmt::format("| `{}` | {} | {} | {} |\n", key.name, type_words(key.type),
                    key.required ? "required" : fmt::format("`{}`", canonical_value(key, defaults)),
                    key.meaning);
  }
  return out;
}

}  // namespace tiercel
