#include "trace/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tiercel {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~FileSource() override { ::close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  Result<std::size_t> read(std::span<std::byte> out) override {
    for (;;) {
      const ssize_t count = ::read(fd_, out.data(), out.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) return fail_errno(path_ + ": cannot be read", errno);
    }
  }
  const std::string& name() const override { return path_; }

 private:
  const std::string path_;
  const int fd_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::string_view bytes) : name_(std::move(name)), rest_(bytes) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    const std::size_t count = std::min(out.size(), rest_.size());
    if (count > 0) std::memcpy(out.data(), rest_.data(), count);
    rest_.remove_prefix(count);
    return count;
  }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  std::string_view rest_;
};

class PrependSource final : public ByteSource {
 public:
  PrependSource(std::string head, std::unique_ptr<ByteSource> rest)
      : head_(std::move(head)), rest_(std::move(rest)) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (given_ == head_.size()) return rest_->read(out);
    const std::size_t count = std::min(out.size(), head_.size() - given_);
    if (count > 0) std::memcpy(out.data(), head_.data() + given_, count);
    given_ += count;
    return count;
  }
  const std::string& name() const override { return rest_->name(); }

 private:
  const std::string head_;
  std::size_t given_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

const char* file_type(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "a socket";
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file_source(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer. It does nothing on regular files.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    Error error = fail_errno(path + ": cannot be opened", errno);
    const bool machine_is_out =
        error.os_errno == EMFILE || error.os_errno == ENFILE || error.os_errno == ENOMEM;
    if (!machine_is_out) error.code = Errc::invalid;  // Name a file that exists and may be read.
    return error;
  }
  auto source = std::make_unique<FileSource>(path, fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno(path + ": cannot be examined", errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(Errc::invalid,
                path + ": is " + file_type(status.st_mode) +
                    ", not a trace file; write the trace to a regular file and name that");
  }
  if (status.st_size == 0) {
    return fail(Errc::invalid, path + ": is empty (0 bytes); fetch or write the trace again");
  }
  return std::unique_ptr<ByteSource>(std::move(source));
}

std::unique_ptr<ByteSource> memory_source(std::string name, std::string_view bytes) {
  return std::make_unique<MemorySource>(std::move(name), bytes);
}

std::unique_ptr<ByteSource> prepend_source(std::string head, std::unique_ptr<ByteSource> rest) {
  return std::make_unique<PrependSource>(std::move(head), std::move(rest));
}

Result<std::size_t> read_full(ByteSource& source, std::span<char> out) {
  std::size_t have = 0;
  while (have < out.size()) {
    TIERCEL_TRY(const std::size_t count, source.read(std::as_writable_bytes(out.subspan(have))));
    if (count == 0) break;
    have += count;
  }
  return have;
}

}  // namespace tiercel
