#include "base/checksum_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define XXH_VECTOR XXH_AVX512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC push_options
// GCC 12 takes the undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f")
#endif
#include "base/checksum_kernel.inc"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace tiercel {
const ChecksumKernel kChecksumAvx512 = {"avx512", once, reset, update, finish};
bool checksum_avx512_runs() { return __builtin_cpu_supports("avx512f"); }
}  // namespace tiercel

#else
namespace tiercel {
const ChecksumKernel kChecksumAvx512 = kChecksumBaseline;
bool checksum_avx512_runs() { return false; }
}  // namespace tiercel
#endif
