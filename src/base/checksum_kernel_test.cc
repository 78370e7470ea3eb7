// Every kernel this processor runs gives the sums of the baseline, at once and in pieces.
#include "base/checksum_kernel.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/checksum.h"
#include "base/random.h"

namespace tiercel {
namespace {

std::vector<const ChecksumKernel*> kernels() {
  std::vector<const ChecksumKernel*> list{&kChecksumBaseline};
  if (checksum_avx2_runs()) list.push_back(&kChecksumAvx2);
  if (checksum_avx512_runs()) list.push_back(&kChecksumAvx512);
  return list;
}

TEST(ChecksumKernel, AllAgreeOnEveryLengthAndAlignment) {
  Rng rng(11);
  std::vector<std::uint8_t> bytes(70000);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng.next());
  for (int i = 0; i < 2000; ++i) {
    const std::size_t first = rng.below(64);
    const std::size_t count = i < 600 ? static_cast<std::size_t>(i) : rng.below(65536);
    const std::uint64_t expected = kChecksumBaseline.once(bytes.data() + first, count);
    for (const ChecksumKernel* kernel : kernels()) {
      EXPECT_EQ(kernel->once(bytes.data() + first, count), expected) << kernel->name;
      alignas(64) std::array<std::byte, kChecksumStateBytes> state;
      kernel->reset(state.data());
      const std::size_t cut = rng.below(count + 1);
      kernel->update(state.data(), bytes.data() + first, cut);
      kernel->update(state.data(), bytes.data() + first + cut, count - cut);
      EXPECT_EQ(kernel->finish(state.data()), expected) << kernel->name;
    }
  }
}

TEST(ChecksumKernel, TheOneInUseRunsHereAndGivesTheKnownSumOfNothing) {
  // Source: the specification of XXH3: the empty input with seed 0.
  EXPECT_EQ(checksum64({}), 0x2d06800538d394c2U) << checksum_kernel_name();
}

}  // namespace
}  // namespace tiercel
