// The regular files of a tar, one after the other, out of a stream.
//
// Errors  corrupt  not a tar, or it ends early
//         io and others as the source reports them
// Threads one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "trace/byte_source.h"

namespace tiercel {

class TarReader {
 public:
  explicit TarReader(std::unique_ptr<ByteSource> source);
  ~TarReader();

  // Moves to the next regular file; false at the end. `name` is its path in the archive.
  Result<bool> next(std::string& name);

  // Reads the current file into `text`, at most `bytes_max` bytes; false where it is longer (the
  // rest is passed over).
  Result<bool> read_all(std::string& text, std::size_t bytes_max);

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
};

}  // namespace tiercel
