// Says where and why a text is not JSON, for people. Runs only once a real parser has refused the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tiercel {

// "column 15, field \"timestamp\": NaN is not a JSON number", or `fallback` where this scan sees
// nothing wrong.
std::string describe_json_error(std::string_view text, std::size_t depth_max,
                                std::string_view fallback);

// Outside text made fit for a message: at most `length_max` bytes, unprintable ones as \xNN.
std::string printable(std::string_view text, std::size_t length_max = 40);

}  // namespace tiercel
