// One XXH3 compiled for one instruction set. Only checksum.cc and its tests look here.
//
// Each kernel has a source of its own, compiled with a target attribute, so the rest of the library
// keeps the baseline. Such a source includes C headers only: an inline C++ function compiled there
// for AVX could be the copy that the linker keeps for everybody.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tiercel {

struct ChecksumKernel {
  const char* name;
  uint64_t (*once)(const void* bytes, size_t count);
  void (*reset)(void* state);
  void (*update)(void* state, const void* bytes, size_t count);
  uint64_t (*finish)(const void* state);
};

inline constexpr size_t kChecksumStateBytes = 640;

extern const ChecksumKernel kChecksumBaseline;  // SSE2 on x86-64, what the compiler has elsewhere.
extern const ChecksumKernel kChecksumAvx2;
extern const ChecksumKernel kChecksumAvx512;

// True where this processor (and its operating system) runs it.
bool checksum_avx2_runs();
bool checksum_avx512_runs();

}  // namespace tiercel
