// One request under way: what is left of it after a partial transfer. Shared by both queues.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <vector>

#include "base/check.h"
#include "io/posix_file.h"

namespace tiercel {

class Transfer {
 public:
  void start(IoRequest request) {
    request_ = std::move(request);
    offset_ = request_.offset;
    first_ = 0;
    left_ = 0;
    vectors_.clear();
    TIERCEL_CHECK(request_.pieces.size() <= kIoPiecesMax);
    for (const IoPiece& piece : request_.pieces) {
      vectors_.push_back({.iov_base = piece.data, .iov_len = piece.bytes});
      left_ += piece.bytes;
    }
  }

  IoType type() const { return request_.type; }
  std::uint64_t tag() const { return request_.tag; }
  int descriptor() const { return static_cast<const PosixFile*>(request_.file)->descriptor(); }
  std::uint64_t offset() const { return offset_; }
  const iovec* vectors() const { return vectors_.data() + first_; }
  unsigned vector_count() const { return static_cast<unsigned>(vectors_.size() - first_); }

  enum class Next : std::uint8_t { finished, again };

  // Takes the outcome of one system call: bytes transferred, or -errno. Fills `error` where it is
  // over and went wrong.
  Next advance(std::int64_t outcome, Result<void>& result) {
    const std::string& path = request_.file->path();
    result = {};
    if (outcome == -EINTR || outcome == -EAGAIN) return Next::again;
    if (outcome < 0) {
      const char* const what = type() == IoType::read    ? "read"
                               : type() == IoType::write ? "write"
                                                         : "sync";
      result = posix_error(what, path, static_cast<int>(-outcome));
      return Next::finished;
    }
    if (type() == IoType::sync || left_ == 0) return Next::finished;
    if (outcome == 0) {
      result =
          type() == IoType::read ? early_end(path, offset_) : posix_error("write", path, ENOSPC);
      return Next::finished;
    }
    auto done = static_cast<std::uint64_t>(outcome);
    TIERCEL_CHECK(done <= left_);
    offset_ += done;
    left_ -= done;
    while (done > 0) {
      iovec& vector = vectors_[first_];
      const std::uint64_t part = std::min<std::uint64_t>(done, vector.iov_len);
      vector.iov_base = static_cast<std::byte*>(vector.iov_base) + part;
      vector.iov_len -= part;
      done -= part;
      if (vector.iov_len == 0) ++first_;
    }
    return left_ == 0 ? Next::finished : Next::again;
  }

 private:
  IoRequest request_;
  std::uint64_t offset_ = 0;
  std::uint64_t left_ = 0;
  std::size_t first_ = 0;
  std::vector<iovec> vectors_;
};

}  // namespace tiercel
