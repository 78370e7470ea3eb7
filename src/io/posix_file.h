// A file of the operating system. Only io/ looks here: queues need the descriptor.
#pragma once

#include <string>

#include "io/disk.h"

namespace tiercel {

class PosixFile final : public File {
 public:
  // Takes the descriptor over.
  PosixFile(std::string path, int descriptor, bool direct, IoAlignment alignment)
      : path_(std::move(path)), descriptor_(descriptor), direct_(direct), alignment_(alignment) {}
  ~PosixFile() override;
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  int descriptor() const { return descriptor_; }

  const std::string& path() const override { return path_; }
  bool direct() const override { return direct_; }
  IoAlignment alignment() const override { return alignment_; }
  Result<FileStatus> status() const override;
  Result<void> allocate(std::uint64_t bytes) override;
  Result<void> truncate(std::uint64_t bytes) override;
  Result<void> read(std::uint64_t offset, std::span<std::byte> memory) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> memory) override;
  Result<void> sync() override;

 private:
  const std::string path_;
  const int descriptor_;
  const bool direct_;
  const IoAlignment alignment_;
};

// The error of a system call on `path`: ENOSPC and EDQUOT become no_space, the rest io.
Error posix_error(const char* what, const std::string& path, int os_errno);

// The error of a read that met the end of the file.
Error early_end(const std::string& path, std::uint64_t offset);

}  // namespace tiercel
