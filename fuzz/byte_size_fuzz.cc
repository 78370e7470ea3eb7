// Sizes, rates and durations from outside: no input crashes, and what was accepted has an exact
// spelling that reads back to the same value.
#include <cstdint>
#include <string_view>

#include "base/byte_size.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = parse_byte_size(text)) {
    const auto again = parse_byte_size(exact_byte_size(*bytes));
    TIERCEL_CHECK(again && *again == *bytes);
    // What a file may say, the command line may say too.
    const auto count = parse_byte_count(text);
    TIERCEL_CHECK(count && *count == *bytes);
  } else {
    TIERCEL_CHECK(bytes.error().code == Errc::invalid && !bytes.error().what.empty());
  }
  if (const auto rate = parse_byte_rate(text)) {
    const auto again = parse_byte_rate(exact_byte_rate(*rate));
    TIERCEL_CHECK(again && *again == *rate);
  }
  if (const auto duration = parse_duration_ns(text)) {
    TIERCEL_CHECK(*duration >= 0);
    const auto again = parse_duration_ns(exact_duration(*duration));
    TIERCEL_CHECK(again && *again == *duration);
  }
  if (const auto count = parse_byte_count(text)) {
    const auto again = parse_byte_count(exact_byte_size(*count));
    TIERCEL_CHECK(again && *again == *count);
  }
  return 0;
}
