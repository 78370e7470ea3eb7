#include "io/posix_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tiercel {

Error posix_error(const char* what, const std::string& path, int os_errno) {
  Error error = fail_errno(fmt::format("{} {}", what, path), os_errno);
  if (os_errno == ENOSPC || os_errno == EDQUOT) error.code = Errc::no_space;
  if (os_errno == EMFILE) error.what += "; a store keeps a file open per segment: raise ulimit -n";
  return error;
}

Error early_end(const std::string& path, std::uint64_t offset) {
  return fail(Errc::io, fmt::format("read {}: the file ends at or before byte {}", path, offset));
}

PosixFile::~PosixFile() { ::close(descriptor_); }

Result<FileStatus> PosixFile::status() const {
  struct stat stat {};
  if (::fstat(descriptor_, &stat) != 0) return posix_error("stat", path_, errno);
  return FileStatus{.bytes = static_cast<std::uint64_t>(stat.st_size),
                    .allocated_bytes = static_cast<std::uint64_t>(stat.st_blocks) * 512};
}

Result<void> PosixFile::allocate(std::uint64_t bytes) {
  struct stat stat {};
  if (::fstat(descriptor_, &stat) != 0) return posix_error("stat", path_, errno);
  int outcome = 0;
  do {
    outcome = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes));
  } while (outcome != 0 && errno == EINTR);
  if (outcome == 0) return {};
  const int os_errno = errno;
  // What was reserved before the disk was full goes back, or a retry would find even less.
  if (::ftruncate(descriptor_, stat.st_size) != 0) return posix_error("truncate", path_, errno);
  if (os_errno == EOPNOTSUPP) {
    return fail(
        Errc::unavailable,
        fmt::format(
            "{}: this file system cannot reserve space (fallocate); put the store on ext4 or XFS",
            path_),
        os_errno);
  }
  return posix_error("allocate", path_, os_errno);
}

Result<void> PosixFile::truncate(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    return posix_error("truncate", path_, errno);
  return {};
}

Result<void> PosixFile::read(std::uint64_t offset, std::span<std::byte> memory) {
  while (!memory.empty()) {
    const ssize_t got =
        ::pread(descriptor_, memory.data(), memory.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return posix_error("read", path_, errno);
    if (got == 0) return early_end(path_, offset);
    memory = memory.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> PosixFile::write(std::uint64_t offset, std::span<const std::byte> memory) {
  while (!memory.empty()) {
    const ssize_t put =
        ::pwrite(descriptor_, memory.data(), memory.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return posix_error("write", path_, errno);
    if (put == 0) return posix_error("write", path_, ENOSPC);
    memory = memory.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<void> PosixFile::sync() {
  if (::fdatasync(descriptor_) != 0) return posix_error("sync", path_, errno);
  return {};
}

}  // namespace tiercel
