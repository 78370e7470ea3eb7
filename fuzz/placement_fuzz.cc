// Placements from anybody: read_placement() answers with a placement or one error, and what it
// accepts has a canonical form that reads back to itself. Input: the file, then after a zero byte
// the --set texts, one a line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "placement/canonical.h"
#include "placement/contradictions.h"
#include "placement/read_placement.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = input.find('\0');
  std::vector<std::string> sets;
  if (zero != std::string_view::npos) {
    std::string_view rest = input.substr(zero + 1);
    while (!rest.empty() && sets.size() < 16) {
      const std::size_t end = rest.find('\n');
      sets.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }
  const auto placement = tiercel::parse_placement(input.substr(0, zero), "fuzz.toml", sets);
  if (!placement) {
    TIERCEL_CHECK(placement.error().what.find("fuzz.toml") != std::string::npos ||
                  placement.error().what.find("--set") != std::string::npos);
    return 0;
  }
  const std::string text = tiercel::canonical_placement(*placement);
  const auto again = tiercel::parse_placement(text, "canonical");
  TIERCEL_CHECK(again.has_value());
  TIERCEL_CHECK(tiercel::canonical_placement(*again) == text);
  (void)tiercel::check_payload(*placement, placement->payload_bytes()).has_value();
  return 0;
}
