// The superblock of a cold store: what its directory says about itself. docs/formats/store.md has the bytes.
//
// Shape   One page, `store.meta`: magic, version, name of the store, geometry, epoch, purpose; replaced by rename.
// Threads Pure functions, apart from the one that reads.
// Source  docs/formats/store.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/disk.h"
#include "tier/segment_format.h"

namespace tiercel {

inline constexpr std::uint32_t kStoreVersion = 1;
inline constexpr const char* kSuperblockName = "store.meta";

// Who owns what is in the store: a replay empties its store at every start, so it must never be given that of a cache; a
// cache reclaims, so it must never be given that of suspended sessions.
enum class StorePurpose : std::uint8_t { cache, replay, session };
const char* store_purpose_name(StorePurpose purpose);

struct Superblock {
  StoreUuid store{};
  std::uint64_t segment_bytes = 0;
  std::uint64_t record_bytes_max = 0;
  std::uint64_t epoch = 0;
  StorePurpose purpose = StorePurpose::cache;

  bool operator==(const Superblock&) const = default;
};

std::vector<std::byte> encode_superblock(const Superblock& superblock);
// Errors: invalid  not ours, of a newer version, or with flags that this build does not know; corrupt  ours, but damaged.
Result<Superblock> parse_superblock(std::span<const std::byte> bytes);

// For readers: the superblock of a store, the lock untouched. Errors: invalid  no store of ours there.
Result<Superblock> read_superblock(Disk& disk, const std::string& path);

}  // namespace tiercel
