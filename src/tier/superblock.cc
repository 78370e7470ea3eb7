#include "tier/superblock.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/checksum.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

constexpr std::string_view kMagic = "TIERSTOR";

constexpr std::uint32_t kFlagChecksums = 1;  // Always set.
constexpr std::uint32_t kFlagReplay = 2;     // StorePurpose::replay.
constexpr std::uint32_t kFlagSession = 4;    // StorePurpose::session. Neither: cache; never both.

std::uint32_t purpose_flags(StorePurpose purpose) {
  switch (purpose) {
    case StorePurpose::cache:
      return 0;
    case StorePurpose::replay:
      return kFlagReplay;
    case StorePurpose::session:
      return kFlagSession;
  }
  return 0;
}

std::optional<StorePurpose> parse_purpose(std::uint32_t flags) {
  for (const auto purpose : {StorePurpose::cache, StorePurpose::replay, StorePurpose::session}) {
    if (flags == purpose_flags(purpose)) return purpose;
  }
  return std::nullopt;
}

}  // namespace

const char* store_purpose_name(StorePurpose purpose) {
  switch (purpose) {
    case StorePurpose::cache:
      return "cache";
    case StorePurpose::replay:
      return "replay";
    case StorePurpose::session:
      return "session class";
  }
  return "unknown";
}

std::vector<std::byte> encode_superblock(const Superblock& superblock) {
  std::vector<std::byte> page(kPageBytes);
  const std::span<std::byte> out(page);
  put_magic(out, kMagic);
  put_number<std::uint32_t>(out, 8, kStoreVersion);
  put_number<std::uint32_t>(out, 12, kFlagChecksums | purpose_flags(superblock.purpose));
  put_bytes(out, 16, superblock.store);
  put_number<std::uint64_t>(out, 32, superblock.segment_bytes);
  put_number<std::uint64_t>(out, 40, superblock.record_bytes_max);
  put_number<std::uint64_t>(out, 48, superblock.epoch);
  put_number<std::uint64_t>(out, 56, checksum64(out.first(56)));
  return page;
}

Result<Superblock> parse_superblock(std::span<const std::byte> bytes) {
  if (!has_magic(bytes, kMagic))
    return fail(Errc::invalid, "store.meta is not a superblock of Tiercel");
  if (bytes.size() != kPageBytes) return fail(Errc::corrupt, "store.meta is not one page long");
  const auto version = get_number<std::uint32_t>(bytes, 8);
  if (version > kStoreVersion) {
    return fail(
        Errc::invalid,
        fmt::format("the store has format version {}, this build reads up to {}; use a newer build",
                    version, kStoreVersion));
  }
  const auto rest = bytes.subspan(64);
  if (get_number<std::uint64_t>(bytes, 56) != checksum64(bytes.first(56)) ||
      std::ranges::any_of(rest, [](std::byte byte) { return byte != std::byte{0}; })) {
    return fail(Errc::corrupt,
                "store.meta: checksum does not match; without it nothing in the store can be "
                "trusted, empty it");
  }
  const auto flags = get_number<std::uint32_t>(bytes, 12);
  const auto purpose = parse_purpose(flags & ~kFlagChecksums);
  if ((flags & kFlagChecksums) == 0 || !purpose) {
    return fail(Errc::invalid,
                fmt::format("store.meta has the flags {:#x}, which this build does not know; use a "
                            "newer build",
                            flags));
  }
  const Superblock superblock{.store = get_bytes<16>(bytes, 16),
                              .segment_bytes = get_number<std::uint64_t>(bytes, 32),
                              .record_bytes_max = get_number<std::uint64_t>(bytes, 40),
                              .epoch = get_number<std::uint64_t>(bytes, 48),
                              .purpose = *purpose};
  if (superblock.segment_bytes % kPageBytes != 0 ||
      superblock.record_bytes_max >
          superblock.segment_bytes / kSegmentRecordsMin ||  // Or the next line wraps.
      superblock.segment_bytes < segment_bytes_min(superblock.record_bytes_max)) {
    return fail(Errc::corrupt, "store.meta: its geometry does not hold together");
  }
  return superblock;
}

Result<Superblock> read_superblock(Disk& disk, const std::string& path) {
  const std::string file = path + "/" + kSuperblockName;
  const auto bytes = read_file(disk, file, 16 * kPageBytes);
  if (!bytes && is_missing(bytes.error()))
    return fail(Errc::invalid, fmt::format("{} is no store of Tiercel (no store.meta)", path));
  if (!bytes) return bytes.error();
  auto superblock = parse_superblock(*bytes);
  if (!superblock)
    return fail(superblock.error().code, fmt::format("{}: {}", path, superblock.error().what));
  return superblock;
}

}  // namespace tiercel
