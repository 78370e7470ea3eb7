// Invariants of ours. Input from outside never reaches one: that is what Result is for.
//
// TIERCEL_CHECK   always on: a broken invariant stops the process before it can serve a wrong byte.
// TIERCEL_DCHECK  the same in debug and sanitizer builds, nothing in release: for hot loops.
#pragma once

namespace tiercel {

// Prints file, line and the condition on standard error, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace tiercel

#define TIERCEL_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::tiercel::check_failed(__FILE__, __LINE__, #condition))

#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIERCEL_DCHECK(condition) TIERCEL_CHECK(condition)
#else
#define TIERCEL_DCHECK(condition) void(sizeof(!(condition)))
#endif
