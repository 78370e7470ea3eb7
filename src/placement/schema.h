// The keys of placement.toml: one table from which reading, --set, writing and
// docs/formats/placement.md all follow.
//
// A key exists in exactly one row of placement_keys(): its name, type, range, meaning, and where
// its value lives in a Placement. Its default is what a default-constructed Placement holds there.
// Errors  Messages name neither file nor line: the reader puts the place in front.
// Threads Pure functions over constants.
// Source  docs/formats/placement.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "placement/placement.h"

namespace tiercel {

inline constexpr std::string_view kPlacementSchema = "tiercel.placement/1";

enum class ValueType : std::uint8_t {
  text,
  flag,
  integer,
  real,
  byte_size,
  byte_rate,
  duration,
  prefill_model
};

// Where a value lives. A duration may be nanoseconds (int64_t) or seconds (double).
using ValueSlot = std::variant<std::string*, bool*, std::uint32_t*, std::uint64_t*, std::int64_t*,
                               double*, PrefillModel*>;

struct PlacementKey {
  std::string_view name;  // Dotted, as --set takes it.
  ValueType type;
  double min;  // Inclusive: bytes, bytes/s, ns, the plain number, or the length of a text.
  double max;
  bool required;
  std::string_view example;  // As it stands in the file.
  std::string_view meaning;  // One line for the documentation.
  ValueSlot (*slot)(Placement&);
};

// In the order of the canonical form: top-level keys first, then table by table.
std::span<const PlacementKey> placement_keys();
const PlacementKey* find_placement_key(std::string_view name);  // nullptr: no such key.
bool is_placement_table(std::string_view name);                 // "hot" is, "name" is not.

// "; did you mean \"hot.bytes\"?" or a list of what there is: the end of a message about an unknown key.
std::string suggest_placement_key(std::string_view unknown);

// A value as TOML has it; `other` carries the name of a type that no key takes ("array", "date").
struct OtherType {
  std::string_view name;
};
using FileValue = std::variant<std::string, std::int64_t, double, bool, OtherType>;

// Both check type and range and then write into `placement`; on an error it is unchanged.
Result<void> assign_from_file(const PlacementKey& key, const FileValue& value,
                              Placement& placement);
Result<void> assign_from_text(const PlacementKey& key, std::string_view text,
                              Placement& placement);  // --set.

// The value as it stands in the canonical form, a TOML literal.
std::string canonical_value(const PlacementKey& key, const Placement& placement);

// The table of keys as Markdown; a test holds docs/formats/placement.md to it.
std::string placement_keys_markdown();

}  // namespace tiercel
