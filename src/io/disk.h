// The one door to files: everything above io/ sees disks through this, so a simulated disk can stand under the real code.
//
// Paths   As the operating system takes them. Relative ones are relative to the process, so give absolute ones.
// Errors  io           the operating system refused; os_errno says why, the text names the path
//         no_space     ENOSPC or EDQUOT: nothing was lost, reserve less or free something
//         busy         a lock is held; the text names the holder
//         unavailable  this file system cannot do it (no fallocate, no locks)
// Threads A Disk may be used from any thread; a File from one at a time, apart from the queue's own work on it.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/io_queue.h"

namespace tiercel {

struct FileStatus {
  std::uint64_t bytes = 0;  // Length.
  std::uint64_t allocated_bytes =
      0;  // What it takes on the disk (st_blocks), the file system's own blocks included.
};

// What direct I/O asks of memory addresses, and of offsets and lengths; 1 and 1 where the file is
// not direct.
struct IoAlignment {
  std::uint32_t memory = 1;
  std::uint32_t offset = 1;
};

class File {
 public:
  virtual ~File() = default;

  virtual const std::string& path() const = 0;
  virtual bool direct() const = 0;  // Bypasses the page cache.
  virtual IoAlignment alignment() const = 0;
  virtual Result<FileStatus> status() const = 0;

  // Reserves disk blocks for [0, bytes) and makes the file at least so long. On no_space the file
  // is as before.
  virtual Result<void> allocate(std::uint64_t bytes) = 0;
  virtual Result<void> truncate(std::uint64_t bytes) = 0;

  // All of `memory` or an error: a short transfer is continued, and an end of file before its end
  // is an error.
  virtual Result<void> read(std::uint64_t offset, std::span<std::byte> memory) = 0;
  virtual Result<void> write(std::uint64_t offset, std::span<const std::byte> memory) = 0;

  // What was written before survives a power cut once this returns (fdatasync; of a directory: its
  // entries). After an error nothing is known about earlier writes, and trying again proves
  // nothing.
  virtual Result<void> sync() = 0;
};

struct OpenMode {
  bool write = false;
  bool create = false;  // Where it is missing; needs write.
  bool direct =
      false;  // Asks for direct I/O; File::direct() says whether it was to be had, notes() why not.
};

// Held while it lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct DiskSpace {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes =
      0;  // For this process, quotas of the file system included where it tells.
};

class Disk {
 public:
  virtual ~Disk() = default;

  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
  virtual Result<std::unique_ptr<File>> open_directory(const std::string& path) = 0;  // For sync().
  virtual Result<void> make_directory(
      const std::string& path) = 0;  // With its parents, each durable; one that exists is fine.
  virtual Result<std::vector<std::string>> list(
      const std::string& path) = 0;  // Names, sorted, without . and ..
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<void> remove(const std::string& path) = 0;
  virtual Result<DiskSpace> space(const std::string& path) = 0;

  // Takes the lock or fails with busy, which quotes the note of
  // the last exclusive holder: it is the holder's own unless readers hold it now. The lock of a process
  // that died is free. An exclusive lock creates the file and leaves `note` in it; a shared one
  // only reads it, so it works on a read-only file system and keeps writers out.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                                 const std::string& note) = 0;
  virtual Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) = 0;

  virtual Result<std::unique_ptr<IoQueue>> make_queue(const IoQueueOptions& options) = 0;

  // Why something better was not to be had, one sentence each: direct I/O, the ring.
  virtual std::vector<std::string> notes() const = 0;
};

// True for an error that says there is no such file.
bool is_missing(const Error& error);

// Reads a small file whole. Errors: invalid where it is longer than `bytes_max`.
Result<std::vector<std::byte>> read_file(Disk& disk, const std::string& path,
                                         std::uint64_t bytes_max);

// Replaces `directory`/`name` so that a crash leaves the old or the new content, never a mix:
// writes NAME.tmp, syncs it, renames it, syncs the directory.
Result<void> replace_file(Disk& disk, const std::string& directory, const std::string& name,
                          std::span<const std::byte> content);

}  // namespace tiercel
