// Where the bytes of a trace come from: a file, memory, or another source seen through a decompressor.
//
// Shape   A pull stream without seek. A trace is read once, front to back, in bounded memory.
// Errors  invalid  not a regular file, empty, compressed in a way we do not read, too large after decompression
//         corrupt  the compressed data ends early or fails its own check; what came before was already handed out
//         io       the operating system refused
//         Every message starts with the name of the source and ends with a remedy.
// Threads one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tiercel {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills a prefix of `out` and returns its length; 0 only at the end. After an error nothing more
  // may be read.
  virtual Result<std::size_t> read(std::span<std::byte> out) = 0;

  // For messages: the path, with the entry's name behind it inside an archive.
  virtual const std::string& name() const = 0;
};

// Opens a regular, non-empty file; never blocks on a FIFO.
Result<std::unique_ptr<ByteSource>> open_file_source(const std::string& path);

// Bytes that the caller keeps alive.
std::unique_ptr<ByteSource> memory_source(std::string name, std::string_view bytes);

// Puts back what was already read: `head` comes first, then `rest`. For looking at the start of a stream.
std::unique_ptr<ByteSource> prepend_source(std::string head, std::unique_ptr<ByteSource> rest);

// Reads until `out` is full or the stream ends; returns how much there is.
Result<std::size_t> read_full(ByteSource& source, std::span<char> out);

// Looks at the first bytes and returns the source itself (plain), or one that inflates gzip (all
// members, CRC and length verified) or zstd (all frames). Refuses other compressions by name. The
// plain bytes handed out are limited to kTraceBytesMax.
Result<std::unique_ptr<ByteSource>> open_decompressed(std::unique_ptr<ByteSource> source);

}  // namespace tiercel
