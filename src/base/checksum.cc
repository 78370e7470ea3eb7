#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tiercel {

std::uint64_t checksum64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct Checksum64::State {
  XXH3_state_t xxh;
};

Checksum64::Checksum64() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum64::~Checksum64() = default;

void Checksum64::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Checksum64::finish() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace tiercel
