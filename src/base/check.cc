#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tiercel {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "tiercel: %s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tiercel
