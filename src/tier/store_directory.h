// The directory of a cold store: who may use it, which files are ours, how much of the disk they take.
//
// Shape   lock              held by the one process that writes; says its pid
//         store.meta        superblock, one page: magic, version, name of the store, geometry, epoch; replaced by rename
//         segment-00000001  segment files (tier/segment_format.h), preallocated at first use, reused in place
// Epoch   Bumped durably by every open for writing, so that lives of segments are never named twice.
// Refuses A directory that is not empty and holds no superblock of ours, a newer format, another geometry, a store that was
//         made for another purpose, even where it would be emptied: untouched.
// Cap     Never more than capacity_bytes of physical bytes: a segment is reserved (fallocate) before it is written, and
//         what the file system really took is counted.
// Threads One thread.
// Source  docs/formats/store.md
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/disk.h"
#include "tier/segment_format.h"

namespace tiercel {

inline constexpr std::uint32_t kStoreVersion = 1;
inline constexpr const char* kSuperblockName = "store.meta";
inline constexpr const char* kStoreLockName = "lock";

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

enum class StoreStart : std::uint8_t {
  recover,  // Keeps what is there; creates the store where the directory is empty or missing.
  empty,    // Removes every segment of our own store first.
};

struct StoreGeometry {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t segment_bytes = 0;     // 0: as the store that is there.
  std::uint64_t record_bytes_max = 0;  // 0: as the store that is there.
  StorePurpose purpose = StorePurpose::cache;
};

class StoreDirectory {
 public:
  // Errors: busy     another process holds the lock; the text names it
  //         invalid  the directory or the geometry is refused; the text says why and what to do
  static Result<std::unique_ptr<StoreDirectory>> open(Disk& disk, const std::string& path,
                                                      const StoreGeometry& geometry,
                                                      StoreStart start);

  const std::string& path() const { return path_; }
  const Superblock& superblock() const { return superblock_; }
  std::uint32_t segment_count_max() const {
    return segment_count_max_;
  }  // Segments are 0 .. count - 1.
  std::uint64_t physical_bytes() const {
    return physical_bytes_;
  }  // Of all our files, as the disk counts them.
  std::uint64_t format_bytes() const { return format_bytes_; }  // Written for superblock and lock.
  File& directory_file() { return *directory_; }                // For a durable create.

  // The file of a segment; null where it does not exist (yet).
  File* segment_file(std::uint32_t segment) const { return files_[segment].get(); }
  // The same, created and reserved where missing. Errors: no_space  by the disk or by the cap; nothing changed.
  Result<File*> make_segment_file(std::uint32_t segment);

 private:
  StoreDirectory(Disk& disk, std::string path, std::uint64_t capacity_bytes)
      : disk_(disk), path_(std::move(path)), capacity_bytes_(capacity_bytes) {}

  Result<void> load_or_create(const StoreGeometry& geometry, StoreStart start);
  Result<void> open_segments(StoreStart start);
  Result<void> write_superblock();
  std::string segment_path(std::uint32_t segment) const;

  Disk& disk_;
  const std::string path_;
  const std::uint64_t capacity_bytes_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<File> directory_;
  Superblock superblock_;
  std::uint32_t segment_count_max_ = 0;
  std::uint64_t physical_bytes_ = 0;
  std::uint64_t format_bytes_ = 0;
  std::vector<std::unique_ptr<File>> files_;
};

std::string segment_file_name(std::uint32_t segment);
std::optional<std::uint32_t> parse_segment_file_name(const std::string& name);

// For readers: the superblock of a store, the lock untouched. Errors: invalid  no store of ours there.
Result<Superblock> read_superblock(Disk& disk, const std::string& path);

}  // namespace tiercel
