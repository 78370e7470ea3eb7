// The disk of this machine: files by system calls, queues by io_uring or threads.
//
// Direct  O_DIRECT with the alignment that statx tells (4096 where it does not); where a file system refuses it, the
//         file is opened buffered and notes() says so once.
// Locks   flock: they end with the process, so there is no stale lock to break.
// Threads Any.
#pragma once

#include "base/mutex.h"
#include "io/disk.h"

namespace tiercel {

struct PosixDiskOptions {
  bool direct = true;                // False: never ask for O_DIRECT.
  IoEngine engine = IoEngine::best;  // What make_queue() takes where its caller says `best`.
};

class PosixDisk final : public Disk {
 public:
  explicit PosixDisk(PosixDiskOptions options = {}) : options_(options) {}

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Result<std::unique_ptr<File>> open_directory(const std::string& path) override;
  Result<void> make_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> remove(const std::string& path) override;
  Result<DiskSpace> space(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path, const std::string& note) override;
  Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) override;
  Result<std::unique_ptr<IoQueue>> make_queue(const IoQueueOptions& options) override;
  std::vector<std::string> notes() const override;

 private:
  void note(std::string sentence);

  const PosixDiskOptions options_;
  mutable Mutex mutex_;
  std::vector<std::string> notes_ GUARDED_BY(mutex_);  // Each sentence once.
};

}  // namespace tiercel
