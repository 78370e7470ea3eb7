// Cuts a byte source into lines, in memory bounded by the longest line allowed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/byte_source.h"

namespace tiercel {

// One thread.
class LineReader {
 public:
  struct Line {
    std::string_view text = {};  // Without its line end (LF or CRLF); valid until the next call.
    std::uint64_t number = 0;    // 1-based.
    bool too_long = false;  // Over kTraceLineBytesMax: `text` holds only its beginning, the rest
                            // was passed over.
  };

  explicit LineReader(ByteSource& source);

  // Reads the next line into `line`; false at the end. A last line without a line end counts. Fails (invalid) beyond
  // kTraceLinesMax lines.
  Result<bool> next(Line& line);

 private:
  Result<bool> refill();  // False at the end of the source.
  Result<void> pass_over_rest();

  ByteSource& source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // The unread bytes in `buffer_`.
  std::uint64_t number_ = 0;
  bool at_end_ = false;
  bool within_line_ = false;  // The line handed out last was too long; its rest is still to come.
};

}  // namespace tiercel
