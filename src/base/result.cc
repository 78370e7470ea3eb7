#include "base/result.h"

#include <fmt/format.h>

#include <cstring>

namespace tiercel {

const char* errc_name(Errc code) {
  switch (code) {
    case Errc::busy:
      return "busy";
    case Errc::no_space:
      return "no space";
    case Errc::corrupt:
      return "corrupt";
    case Errc::io:
      return "i/o";
    case Errc::invalid:
      return "invalid";
    case Errc::unavailable:
      return "unavailable";
    case Errc::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Error fail_errno(std::string what, int os_errno) {
  return Error{.code = Errc::io,
               .what = fmt::format("{}: {}", what, std::strerror(os_errno)),
               .os_errno = os_errno};
}

}  // namespace tiercel
