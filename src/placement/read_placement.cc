#include "placement/read_placement.h"

// toml++ 3.3 asserts of some input what it then reports as an error by itself (a table name that begins with '`'), and
// under NDEBUG lets clang assume it. Bytes from outside must reach neither: asserts off, and no NDEBUG while it is read.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(condition) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "placement/contradictions.h"
#include "placement/schema.h"
#include "placement/toml_guard.h"

namespace tiercel {
namespace {

constexpr std::size_t kFileBytesMax = kMiB;

Error at(const std::string& place, std::string_view what) {
  return fail(Errc::invalid, fmt::format("{}: {}", place, what));
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    default:
      return "something else";
  }
}

FileValue file_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* yes = node.as_boolean()) return yes->get();
  return OtherType{type_name(node)};
}

// A key of the file with its line, flattened to its dotted name.
struct Entry {
  std::string name;
  std::uint32_t line = 0;
  const toml::node* node = nullptr;
};

// Flattens the known tables; what stands in unknown ones or deeper is left whole, to be refused by
// its name.
std::vector<Entry> entries_of(const toml::table& root) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : root) {
    const toml::table* table = node.as_table();
    if (table == nullptr || !is_placement_table(key.str())) {
      entries.push_back({std::string(key.str()), key.source().begin.line, &node});
      continue;
    }
    for (const auto& [inner_key, inner] : *table) {
      entries.push_back({fmt::format("{}.{}", key.str(), inner_key.str()),
                         inner_key.source().begin.line, &inner});
    }
  }
  std::ranges::stable_sort(entries, {}, &Entry::line);
  return entries;
}

// What a message may repeat of a name from outside: short, and without line breaks.
std::string printable(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 80))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return name.size() > 80 ? out + "..." : out;
}

Result<void> check_schema(const toml::table& root, const std::string& file) {
  const toml::node* node = root.get("schema");
  if (node == nullptr) {
    return at(file + ":1",
              fmt::format("schema is missing; the file must begin with schema = \"{}\"",
                          kPlacementSchema));
  }
  const std::string place = fmt::format("{}:{}", file, node->source().begin.line);
  const auto* text = node->as_string();
  if (text == nullptr)
    return at(place, fmt::format("schema must be the text \"{}\"", kPlacementSchema));
  const std::string& found = text->get();
  if (found == kPlacementSchema) return {};
  const std::string_view family = kPlacementSchema.substr(0, kPlacementSchema.find('/') + 1);
  if (found.starts_with(family)) {
    return at(place, fmt::format("schema \"{}\" is of another version than the one read here "
                                 "(\"{}\"); use the Tiercel that "
                                 "wrote it, or write the file anew",
                                 printable(found), kPlacementSchema));
  }
  return at(place,
            fmt::format("schema \"{}\" is not a placement; a placement begins with schema = \"{}\"",
                        printable(found), kPlacementSchema));
}

Result<void> read_entry(const Entry& entry, const std::string& file, Placement& placement) {
  const std::string place = fmt::format("{}:{}", file, entry.line);
  const PlacementKey* key = find_placement_key(entry.name);
  if (key == nullptr) {
    if (is_placement_table(entry.name)) {
      return at(place,
                fmt::format("{0} is a table, not a value; write a line [{0}] and its keys below it",
                            entry.name));
    }
    return at(place, fmt::format("unknown key \"{}\"{}", printable(entry.name),
                                 suggest_placement_key(entry.name)));
  }
  if (const auto assigned = assign_from_file(*key, file_value(*entry.node), placement); !assigned) {
    return at(place, assigned.error().what);
  }
  placement.origin.places.insert_or_assign(entry.name, place);
  return {};
}

bool is_plain_text(std::string_view text) {
  return is_utf8(text) &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<void> apply_set(std::string_view set, Placement& placement) {
  const std::string shown = fmt::format("--set {}", printable(set));
  const std::size_t equals = set.find('=');
  const std::string_view name = trim(set.substr(0, equals));
  if (equals == std::string_view::npos || name.empty()) {
    return at(shown, "expected KEY=VALUE, e.g. --set hot.bytes=\"100 GiB\"");
  }
  if (set.size() > kTomlLineBytesMax || !is_plain_text(set)) {
    return at(shown, fmt::format("expected at most {} bytes of UTF-8 without control characters",
                                 kTomlLineBytesMax));
  }
  if (name == "schema") return at(shown, "the schema belongs to the file and cannot be set");
  const PlacementKey* key = find_placement_key(name);
  if (key == nullptr) {
    return at(shown,
              fmt::format("unknown key \"{}\"{}", printable(name), suggest_placement_key(name)));
  }
  if (const auto assigned = assign_from_text(*key, trim(set.substr(equals + 1)), placement);
      !assigned) {
    return at(shown, assigned.error().what);
  }
  placement.origin.places.insert_or_assign(std::string(name),
                                           fmt::format("{}, {}", placement.origin.file, shown));
  return {};
}

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory)
      return fail_errno(fmt::format("{}: cannot be read", path), error.value());
    return at(path, "no such file; give the path of a placement, e.g. examples/one-box.toml");
  }
  if (!std::filesystem::is_regular_file(status)) {
    return at(path, std::filesystem::is_directory(status)
                        ? "is a directory; give the path of a placement file"
                        : "is not a regular file; write the placement to a file first");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno(fmt::format("{}: cannot be opened", path), errno);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail_errno(fmt::format("{}: cannot be read", path), errno);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

Result<Placement> parse_placement(std::string_view text, const std::string& file_name,
                                  std::span<const std::string> sets) {
  if (text.size() > kFileBytesMax) return at(file_name, "larger than 1 MiB; is this a placement?");
  TIERCEL_TRY(const std::string guarded, guard_toml(text, file_name));
  const toml::parse_result parsed = toml::parse(std::string_view(guarded), file_name);
  if (!parsed) {
    return at(fmt::format("{}:{}", file_name, parsed.error().source().begin.line),
              fmt::format("not valid TOML: {}", parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  TIERCEL_TRY_VOID(check_schema(root, file_name));

  Placement placement;
  placement.origin.file = file_name;
  for (const Entry& entry : entries_of(root)) {
    if (entry.name == "schema") continue;
    TIERCEL_TRY_VOID(read_entry(entry, file_name, placement));
  }
  for (const std::string& set : sets) TIERCEL_TRY_VOID(apply_set(set, placement));
  for (const PlacementKey& key : placement_keys()) {
    if (!key.required || placement.origin.places.contains(key.name)) continue;
    const std::size_t dot = key.name.find('.');
    return at(file_name,
              fmt::format("{} is missing; write e.g. {} = {} under [{}]", key.name,
                          key.name.substr(dot + 1), key.example, key.name.substr(0, dot)));
  }
  TIERCEL_TRY_VOID(check_contradictions(placement));
  return placement;
}

Result<Placement> read_placement(const std::string& path, std::span<const std::string> sets) {
  TIERCEL_TRY(const std::string text, read_text(path));
  return parse_placement(text, path, sets);
}

}  // namespace tiercel
