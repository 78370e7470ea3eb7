#include "placement/canonical.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "base/sha256.h"
#include "placement/schema.h"

namespace tiercel {

std::string canonical_placement(const Placement& placement) {
  std::string text = fmt::format("schema = \"{}\"\n", kPlacementSchema);
  std::string_view table;
  for (const PlacementKey& key : placement_keys()) {
    const std::size_t dot = key.name.find('.');
    const std::string_view own_table = dot == std::string_view::npos ? "" : key.name.substr(0, dot);
    if (own_table != table) {
      text += fmt::format("\n[{}]\n", own_table);
      table = own_table;
    }
    const std::string_view leaf = own_table.empty() ? key.name : key.name.substr(dot + 1);
    text += fmt::format("{} = {}\n", leaf, canonical_value(key, placement));
  }
  return text;
}

std::string placement_sha256(const Placement& placement) {
  const std::string text = canonical_placement(placement);
  return hex(sha256(std::as_bytes(std::span(text))));
}

}  // namespace tiercel
