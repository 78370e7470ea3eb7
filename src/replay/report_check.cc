#include "replay/report_check.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/byte_size.h"
#include "replay/report.h"

namespace tiercel {
namespace {

constexpr std::size_t kReportBytesMax = 16 * kMiB;
constexpr double kMemoryTolerance = 0.01;

Error malformed(const std::string& file, std::string_view what) {
  return fail(
      Errc::invalid,
      fmt::format("{}: {}; is this the report.json of a replay? Run the replay again to make one",
                  file, what));
}

// What of a value stands in a message.
std::string shown(std::string text) {
  constexpr std::size_t kShownMax = 100;
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

struct Field {
  const char* name;  // Dotted once.
  std::string text;  // Expected, where it is a text.
  std::optional<std::uint64_t> number;
  double tolerance = 0;
};

std::vector<Field> expected_fields(const ReportIdentity& expected) {
  return {{"schema", std::string(kReportSchema), {}},
          {"version", expected.version, {}},
          {"placement_sha256", expected.placement_sha256, {}},
          {"trace_sha256", expected.trace_sha256, {}},
          {"trace_reading", expected.trace_reading, {}},
          {"payload_bytes", "", expected.payload_bytes},
          {"machine.cpu_model", expected.machine.cpu_model, {}},
          {"machine.cores", "", expected.machine.cores},
          {"machine.memory_bytes", "", expected.machine.memory_bytes, kMemoryTolerance},
          {"machine.kernel", expected.machine.kernel, {}},
          {"machine.filesystem", expected.machine.filesystem, {}}};
}

const nlohmann::json* find(const nlohmann::json& root, std::string_view name) {
  const nlohmann::json* node = &root;
  while (!name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    if (!node->is_object()) return nullptr;
    const auto found = node->find(std::string(name.substr(0, dot)));
    if (found == node->end()) return nullptr;
    node = &*found;
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return node;
}

// Empty: the field agrees.
Result<std::optional<std::string>> compare(const nlohmann::json& root, const Field& field,
                                           const std::string& file) {
  const nlohmann::json* node = find(root, field.name);
  if (node == nullptr) return malformed(file, fmt::format("the key {} is missing", field.name));
  std::string expected = field.text, found;
  if (field.number) {
    if (!node->is_number_unsigned())
      return malformed(file, fmt::format("the key {} is no whole number", field.name));
    const auto number = node->get<std::uint64_t>();
    const double off = std::abs(static_cast<double>(number) - static_cast<double>(*field.number));
    if (number == *field.number ||
        (field.tolerance > 0 && off <= field.tolerance * static_cast<double>(*field.number))) {
      return std::optional<std::string>();
    }
    expected = fmt::format("{}", *field.number);
    found = fmt::format("{}", number);
  } else {
    if (!node->is_string())
      return malformed(file, fmt::format("the key {} is no text", field.name));
    found = node->get<std::string>();
    if (found == expected) return std::optional<std::string>();
  }
  return std::optional<std::string>(fmt::format("{}: {}: expected {}, found {}", file, field.name,
                                                shown(expected), shown(found)));
}

}  // namespace

Result<std::optional<std::string>> check_report_text(std::string_view text,
                                                     const std::string& file_name,
                                                     const ReportIdentity& expected) {
  if (text.size() > kReportBytesMax) return malformed(file_name, "larger than 16 MiB");
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    return malformed(file_name, fmt::format("not valid JSON at byte {}", error.byte));
  } catch (const nlohmann::json::exception&) {  // A number beyond all bounds.
    return malformed(file_name, "not valid JSON");
  }
  for (const Field& field : expected_fields(expected)) {
    TIERCEL_TRY(const std::optional<std::string> mismatch, compare(root, field, file_name));
    if (mismatch) return mismatch;
  }
  return std::optional<std::string>();
}

Result<std::optional<std::string>> check_report(const std::string& path,
                                                const ReportIdentity& expected) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return fail(
        Errc::invalid,
        fmt::format("{}: no such file; give the report.json that a replay left with -o DIR", path));
  }
  if (!std::filesystem::is_regular_file(status)) return malformed(path, "not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno(fmt::format("{}: cannot be opened", path), errno);
  std::string text(kReportBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail_errno(fmt::format("{}: cannot be read", path), errno);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return check_report_text(text, path, expected);
}

}  // namespace tiercel
