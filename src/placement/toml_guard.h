// Keeps from toml++ 3.3 what it cannot take: outside quotes it runs into undefined behaviour on many characters that are
// not ASCII (found by fuzz/placement_fuzz.cc), and unbounded lines let dotted keys nest without bound.
//
// Guard   What comes out is ASCII, line for line: in double quotes other characters become escapes, in comments '?'. Refused
//         are text that is no UTF-8, such characters elsewhere, multi-line strings (no key of ours takes one) and lines of
//         more than kTomlLineBytesMax bytes.
// Errors  invalid: "FILE:LINE: what; remedy".
// Threads Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tiercel {

inline constexpr std::size_t kTomlLineBytesMax = 4096;

Result<std::string> guard_toml(std::string_view text, const std::string& file_name);

bool is_utf8(std::string_view text);

}  // namespace tiercel
