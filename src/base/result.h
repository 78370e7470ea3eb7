// Inside the house: the public Result (tiercel/result.hpp) with the macros that pass an error on.
//
// Source: docs/adr/0001-interfaces-that-last.md
#pragma once

#include <string>
#include <utility>

#include "tiercel/result.hpp"

namespace tiercel {

// An I/O error with the words of the operating system behind `what`.
Error fail_errno(std::string what, int os_errno);

}  // namespace tiercel

#define TIERCEL_CONCAT_INNER(a, b) a##b
#define TIERCEL_CONCAT(a, b) TIERCEL_CONCAT_INNER(a, b)

// TIERCEL_TRY(auto file, disk.open(path)): takes the value or returns the error of the enclosing function.
#define TIERCEL_TRY(declaration, expression)                          \
  auto TIERCEL_CONCAT(tiercel_try_, __LINE__) = (expression);         \
  if (!TIERCEL_CONCAT(tiercel_try_, __LINE__)) [[unlikely]] {         \
    return std::move(TIERCEL_CONCAT(tiercel_try_, __LINE__)).error(); \
  }                                                                   \
  declaration = std::move(*TIERCEL_CONCAT(tiercel_try_, __LINE__))

// TIERCEL_TRY_VOID(file.sync()): the same for Result<void>.
#define TIERCEL_TRY_VOID(expression)                                          \
  if (auto tiercel_try_void = (expression); !tiercel_try_void) [[unlikely]] { \
    return std::move(tiercel_try_void).error();                               \
  }
