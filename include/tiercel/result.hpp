// The outcome of what can fail: a value or an Error. Codes say what the caller does next, the text what happened.
//
// A miss is not an error: functions that may find nothing return Result<std::optional<T>>.
// The type is [[nodiscard]]: no error is dropped by accident. No exception crosses a public API.
// Shape   std::expected's, over tl::expected (Debian libexpected-dev), so that it can become it.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace tiercel {

enum class Errc : std::uint8_t {
  busy,      // Nothing changed: retry.
  no_space,  // Evict or pick another tier, then retry.
  corrupt,   // Checksum, key or fingerprint mismatch: drop the block, let the engine recompute it.
  io,        // The device refused (see os_errno): take the tier out of service.
  invalid,   // The request or its input is wrong: fix the caller or the file that `what` names.
  unavailable,  // This machine cannot do it (no O_DIRECT, no ring, no permission): downgrade or stop.
  cancelled,    // The caller took it back, or its deadline passed; source and destination are free.
};

// The word for `code` as it stands in messages, e.g. "no space".
const char* errc_name(Errc code);

struct Error {
  Errc code = Errc::invalid;
  std::string what;  // One sentence naming file, place and remedy where there is one.
  int os_errno = 0;  // 0 where the operating system was not asked.
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

// Builds an Error in one expression: `return fail(Errc::invalid, "...")`.
inline Error fail(Errc code, std::string what, int os_errno = 0) {
  return Error{.code = code, .what = std::move(what), .os_errno = os_errno};
}

}  // namespace tiercel
