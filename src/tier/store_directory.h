// The directory of a cold store: who may use it, which files are ours, how much of the disk they take.
//
// Shape   lock              held by the one process that writes; says its pid
//         store.meta        superblock, one page: magic, version, name of the store, geometry, epoch; replaced by rename
//         index.checkpoint  what a restart need not look for (tier/checkpoint_file.h), preallocated
//         segment-00000001  segment files (tier/segment_format.h), preallocated at first use, reused in place
// Epoch   Bumped durably by every open for writing, so that lives of segments are never named twice.
// Refuses A directory that is not empty and holds no superblock of ours, a newer format, another geometry, a store that was
//         made for another purpose, even where it would be emptied, one that is larger than its cap: untouched. Nothing is
//         removed or changed before every refusal has been decided.
// Crashes Empty segment files and temporary ones are left-overs and are removed. A segment file of another length is brought
//         back to its own, so that the records that are left in it can be found; where the disk has no room for that, it is left
//         as it is, out of use until its segment is stored to again.
// Cap     Never more than capacity_bytes of physical bytes: a segment is reserved (fallocate) before it is written, and
//         what the file system really took is counted.
// Threads One thread.
// Source  docs/formats/store.md
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/disk.h"
#include "tier/checkpoint_file.h"
#include "tier/segment_format.h"
#include "tier/superblock.h"

namespace tiercel {

inline constexpr const char* kStoreLockName = "lock";
inline constexpr const char* kSelfTestName =
    "tiercel-self-test.tmp";  // Left over where a self-test was killed.
// Where a cache keeps the store of its sessions: a directory of its own, with a lock of its own.
inline constexpr const char* kSessionsName = "sessions";

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
  std::uint64_t leftovers_removed() const { return leftovers_removed_; }
  std::uint64_t resized_segments() const { return resized_.size(); }
  bool was_resized(std::uint32_t segment) const { return resized_.contains(segment); }
  // A segment with a file of the wrong length, and no room to bring it to its own; segment_file() is null.
  bool is_left_out(std::uint32_t segment) const { return left_out_.contains(segment); }
  const std::vector<std::string>& notes() const { return notes_; }  // One sentence each.
  File& directory_file() { return *directory_; }                    // For a durable create.

  // What the checkpoint said when the store was opened, and its file; null where it could not be made (see notes).
  CheckpointRead take_checkpoint() { return std::move(checkpoint_); }
  File* checkpoint_file() { return checkpoint_file_.get(); }

  // The file of a segment; null where it does not exist (yet).
  File* segment_file(std::uint32_t segment) const { return files_[segment].get(); }
  // The same, created and reserved where missing. Errors: no_space  by the disk or by the cap; nothing changed.
  Result<File*> make_segment_file(std::uint32_t segment);

 private:
  StoreDirectory(Disk& disk, std::string path, std::uint64_t capacity_bytes)
      : disk_(disk), path_(std::move(path)), capacity_bytes_(capacity_bytes) {}

  Result<void> load_or_create(const StoreGeometry& geometry, StoreStart start);
  struct FoundSegment;
  Result<void> open_files(StoreStart start);
  Result<void> survey(const std::vector<std::string>& names, std::vector<FoundSegment>& found);
  Result<void> bring_to_length(FoundSegment& found);
  Result<void> make_checkpoint_file();
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
  std::uint64_t leftovers_removed_ = 0;
  std::set<std::uint32_t> resized_;
  std::map<std::uint32_t, std::uint64_t> left_out_;  // With the bytes that their files take.
  std::vector<std::string> notes_;
  std::vector<std::unique_ptr<File>> files_;
  CheckpointRead checkpoint_;
  std::unique_ptr<File> checkpoint_file_;
};

std::string segment_file_name(std::uint32_t segment);
std::optional<std::uint32_t> parse_segment_file_name(const std::string& name);

// A cap that holds whatever lies in the directory, with room for more: for who opens a store to look at it and was not told its
// own, which is not written down. Errors: as read_superblock().
Result<std::uint64_t> roomy_capacity(Disk& disk, const std::string& path);

}  // namespace tiercel
