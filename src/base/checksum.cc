#include "base/checksum.h"

#include "base/checksum_kernel.h"

namespace tiercel {
namespace {

const ChecksumKernel& kernel() {
  static const ChecksumKernel& best = checksum_avx512_runs() ? kChecksumAvx512
                                      : checksum_avx2_runs() ? kChecksumAvx2
                                                             : kChecksumBaseline;
  return best;
}

}  // namespace

static_assert(sizeof(Checksum64) == kChecksumStateBytes);

std::uint64_t checksum64(std::span<const std::byte> bytes) {
  return kernel().once(bytes.data(), bytes.size());
}

void Checksum64::reset() { kernel().reset(state_.data()); }

void Checksum64::update(std::span<const std::byte> bytes) {
  kernel().update(state_.data(), bytes.data(), bytes.size());
}

std::uint64_t Checksum64::finish() const { return kernel().finish(state_.data()); }

const char* checksum_kernel_name() { return kernel().name; }

}  // namespace tiercel
