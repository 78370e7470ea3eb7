#include "replay/block_content.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace tiercel {

namespace {
constexpr std::size_t kPage = 4096;
constexpr std::size_t kTableBytes = 1 << 20;  // Stays in a second-level cache.
constexpr std::size_t kOffsetAlignment = 64;
constexpr int kLargeChannel = 37;  // Some K channels carry values far beyond the others.

std::vector<std::byte> make_table() {
  std::vector<std::byte> table(kTableBytes + kPage);
  Rng rng(20261129);
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const bool large = (i / 2) % 128 == kLargeChannel;
    const auto value = static_cast<float>(rng.normal() * (large ? 12.0 : 1.0));
    const auto bf16 = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    std::memcpy(&table[i], &bf16, sizeof bf16);
  }
  return table;
}

// Made once, at the first use.
const std::vector<std::byte>& shared_table() {
  static const std::vector<std::byte> table = make_table();
  return table;
}

}  // namespace

BlockContent::BlockContent() : table_(shared_table()) {}

std::span<const std::byte> BlockContent::page_source(const Key& key, std::uint64_t page,
                                                     std::size_t bytes) const {
  const std::uint64_t slot =
      mix64(key.low64() + page * 0x9e3779b97f4a7c15U) % (kTableBytes / kOffsetAlignment);
  return table_.subspan(slot * kOffsetAlignment, bytes);
}

void BlockContent::fill(const Key& key, std::span<std::byte> block) const {
  TIERCEL_CHECK(block.size() >= key.bytes.size());
  for (std::size_t offset = 0; offset < block.size(); offset += kPage) {
    const std::size_t bytes = std::min(kPage, block.size() - offset);
    std::memcpy(block.data() + offset, page_source(key, offset / kPage, bytes).data(), bytes);
  }
  std::memcpy(block.data(), key.bytes.data(), key.bytes.size());
}

std::uint64_t BlockContent::count_wrong(const Key& key, std::span<const std::byte> block) const {
  std::uint64_t wrong = 0;
  const auto compare = [&](const std::byte* got, const std::byte* want, std::size_t bytes) {
    if (std::memcmp(got, want, bytes) == 0) return;
    for (std::size_t i = 0; i < bytes; ++i) wrong += got[i] != want[i];
  };
  const std::size_t head = key.bytes.size();
  compare(block.data(), reinterpret_cast<const std::byte*>(key.bytes.data()), head);
  for (std::size_t offset = 0; offset < block.size(); offset += kPage) {
    const std::size_t bytes = std::min(kPage, block.size() - offset);
    const std::size_t skip = offset == 0 ? head : 0;
    compare(block.data() + offset + skip, page_source(key, offset / kPage, bytes).data() + skip,
            bytes - skip);
  }
  return wrong;
}

}  // namespace tiercel
