#include "base/checksum_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define XXH_VECTOR XXH_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#include "base/checksum_kernel.inc"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace tiercel {
const ChecksumKernel kChecksumAvx2 = {"avx2", once, reset, update, finish};
bool checksum_avx2_runs() { return __builtin_cpu_supports("avx2"); }
}  // namespace tiercel

#else
namespace tiercel {
const ChecksumKernel kChecksumAvx2 = kChecksumBaseline;
bool checksum_avx2_runs() { return false; }
}  // namespace tiercel
#endif
