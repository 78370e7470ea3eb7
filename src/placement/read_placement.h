// Reads placement.toml, applies `--set KEY=VALUE`, and refuses what contradicts itself.
//
// Sets    "hot.bytes=100 GiB", "warm.bytes=0", "prefix_sharing=false": dotted keys, through the same checks as the file.
//         A byte size may then be a bare number of bytes. Later ones win. The schema cannot be set.
// Errors  One, the first by line: "FILE:LINE: what is wrong; remedy", code invalid; io where the file cannot be read.
//         Unknown keys come with the nearest known one.
// Bounds  Regular files of at most 1 MiB, lines of at most 4096 bytes.
// Threads Pure but for the file.
// Source  docs/formats/placement.md
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "placement/placement.h"

namespace tiercel {

Result<Placement> read_placement(const std::string& path, std::span<const std::string> sets = {});

// The same from memory; `file_name` stands in messages.
Result<Placement> parse_placement(std::string_view text, const std::string& file_name,
                                  std::span<const std::string> sets = {});

}  // namespace tiercel
