#include "io/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "io/posix_file.h"
#include "io/ring_queue.h"
#include "io/thread_queue.h"

namespace tiercel {
namespace {

// What statx says about direct I/O, where both headers and kernel know it (Linux 6.1).
IoAlignment direct_alignment(int descriptor) {
#if defined(STATX_DIOALIGN)
  struct statx status {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_offset_align != 0) {
    return {.memory = status.stx_dio_mem_align, .offset = status.stx_dio_offset_align};
  }
#else
  static_cast<void>(descriptor);
#endif
  return {.memory = 4096, .offset = 4096};
}

// Of a path as mkdir takes it, without a slash at its end.
std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// So that a FIFO or a terminal by the name of a file is refused and not waited for.
constexpr int kNeverWait = O_NONBLOCK | O_NOCTTY;

class FlockLock final : public FileLock {
 public:
  explicit FlockLock(int descriptor) : descriptor_(descriptor) {}
  ~FlockLock() override { ::close(descriptor_); }
  FlockLock(const FlockLock&) = delete;
  FlockLock& operator=(const FlockLock&) = delete;

 private:
  const int descriptor_;
};

std::string read_note(int descriptor) {
  std::array<char, 200> text{};
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  std::string note(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  std::erase_if(note, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return note;
}

Result<int> take_lock(const std::string& path, int open_flags, int operation) {
  const int descriptor = ::open(path.c_str(), open_flags | O_CLOEXEC | kNeverWait, 0644);
  if (descriptor < 0) return posix_error("open", path, errno);
  int outcome = 0;
  do {
    outcome = ::flock(descriptor, operation | LOCK_NB);
  } while (outcome != 0 && errno == EINTR);
  if (outcome == 0) return descriptor;
  const int os_errno = errno;
  const std::string note = read_note(descriptor);
  ::close(descriptor);
  if (os_errno == EWOULDBLOCK) {
    return fail(Errc::busy,
                fmt::format("{} is held by another process (last writer: {})", path,
                            note.empty() ? "no note" : note),
                os_errno);
  }
  return fail(Errc::unavailable, fmt::format("{}: this file system has no locks", path), os_errno);
}

}  // namespace

Result<std::unique_ptr<File>> PosixDisk::open(const std::string& path, OpenMode mode) {
  int flags =
      O_CLOEXEC | kNeverWait | (mode.write ? O_RDWR : O_RDONLY) | (mode.create ? O_CREAT : 0);
  bool direct = mode.direct && options_.direct;
  int descriptor = ::open(path.c_str(), flags | (direct ? O_DIRECT : 0), 0644);
  if (descriptor < 0 && direct && errno == EINVAL) {
    direct = false;
    note(fmt::format("buffered I/O: the file system of {} refuses O_DIRECT",
                     path.substr(0, path.find_last_of('/'))));
    descriptor = ::open(path.c_str(), flags, 0644);
  } else if (mode.direct && !options_.direct) {
    note("buffered I/O: direct I/O was switched off");
  }
  if (descriptor < 0) return posix_error("open", path, errno);
  struct stat stat {};
  if (::fstat(descriptor, &stat) != 0 || !S_ISREG(stat.st_mode)) {
    ::close(descriptor);
    return fail(Errc::invalid, fmt::format("{} is not a regular file", path));
  }
  const int status_flags = ::fcntl(descriptor, F_GETFL);
  if (status_flags < 0 || ::fcntl(descriptor, F_SETFL, status_flags & ~O_NONBLOCK) != 0) {
    const int os_errno = errno;
    ::close(descriptor);
    return posix_error("open", path, os_errno);
  }
  return std::make_unique<PosixFile>(path, descriptor, direct,
                                     direct ? direct_alignment(descriptor) : IoAlignment{});
}

Result<std::unique_ptr<File>> PosixDisk::open_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return posix_error("open", path, errno);
  return std::make_unique<PosixFile>(path, descriptor, false, IoAlignment{});
}

Result<void> PosixDisk::make_directory(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (!prefix.empty()) {
      if (::mkdir(prefix.c_str(), 0755) == 0) {
        TIERCEL_TRY(const auto parent, open_directory(parent_of(prefix)));
        TIERCEL_TRY_VOID(parent->sync());  // Or a power cut takes it away with all that is in it.
      } else if (errno != EEXIST) {
        return posix_error("make directory", prefix, errno);
      }
    }
    if (end == std::string::npos) break;
  }
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return posix_error("stat", path, errno);
  if (!S_ISDIR(stat.st_mode))
    return fail(Errc::invalid, fmt::format("{} is not a directory", path));
  return {};
}

Result<std::vector<std::string>> PosixDisk::list(const std::string& path) {
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) return posix_error("open directory", path, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int os_errno = errno;
  ::closedir(directory);
  if (os_errno != 0) return posix_error("read directory", path, os_errno);
  std::ranges::sort(names);
  return names;
}

Result<void> PosixDisk::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return posix_error("rename", from, errno);
  return {};
}

Result<void> PosixDisk::remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return posix_error("remove", path, errno);
  return {};
}

Result<DiskSpace> PosixDisk::space(const std::string& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return posix_error("statvfs", path, errno);
  return DiskSpace{.total_bytes = static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize,
                   .free_bytes = static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize};
}

Result<std::unique_ptr<FileLock>> PosixDisk::lock(const std::string& path,
                                                  const std::string& note) {
  TIERCEL_TRY(const int descriptor, take_lock(path, O_RDWR | O_CREAT, LOCK_EX));
  auto lock = std::make_unique<FlockLock>(descriptor);
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, note.data(), note.size(), 0) != static_cast<ssize_t>(note.size())) {
    return posix_error("write", path, errno);
  }
  return lock;
}

Result<std::unique_ptr<FileLock>> PosixDisk::lock_shared(const std::string& path) {
  TIERCEL_TRY(const int descriptor, take_lock(path, O_RDONLY, LOCK_SH));
  return std::make_unique<FlockLock>(descriptor);
}

Result<std::unique_ptr<IoQueue>> PosixDisk::make_queue(const IoQueueOptions& options) {
  const IoEngine engine = options.engine == IoEngine::best ? options_.engine : options.engine;
  std::string reason = "asked for threads";
  if (engine != IoEngine::threads) {
    auto ring = make_ring_queue(options);
    if (ring || engine == IoEngine::ring) return ring;
    reason = ring.error().what;
    note(fmt::format("threads instead of io_uring: {}", reason));
  }
  return make_thread_queue(options, std::move(reason));
}

std::vector<std::string> PosixDisk::notes() const {
  const MutexLock lock(mutex_);
  return notes_;
}

void PosixDisk::note(std::string sentence) {
  const MutexLock lock(mutex_);
  if (std::ranges::find(notes_, sentence) == notes_.end()) notes_.push_back(std::move(sentence));
}

}  // namespace tiercel
