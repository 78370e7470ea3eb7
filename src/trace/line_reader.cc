#include "trace/line_reader.h"

#include <cstring>

#include "trace/limits.h"

namespace tiercel {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{1}
                                    << 20;  // Grows by doubling up to the longest line.
constexpr std::size_t kShownBytes = 64;     // What is kept of a line that is too long.

}  // namespace

LineReader::LineReader(ByteSource& source) : source_(source), buffer_(kFirstBytes) {}

Result<bool> LineReader::refill() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
  TIERCEL_TRY(const std::size_t count,
              source_.read(std::as_writable_bytes(std::span(buffer_).subspan(end_))));
  end_ += count;
  at_end_ = count == 0;
  return count > 0;
}

Result<bool> LineReader::next(Line& line) {
  line = Line{.text = {}, .number = ++number_, .too_long = false};
  std::size_t scanned = 0;  // Bytes behind begin_ known to hold no line end.
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const void* found = scanned < end_ - begin_
                            ? std::memchr(start + scanned, '\n', end_ - begin_ - scanned)
                            : nullptr;
    if (found != nullptr) {
      const std::size_t length = static_cast<std::size_t>(static_cast<const char*>(found) - start);
      begin_ += length + 1;
      if (line.too_long) {
        line.text = std::string_view(start, kShownBytes);
        return true;
      }
      line.too_long = length > kTraceLineBytesMax;
      line.text = std::string_view(start, line.too_long ? kShownBytes : length);
      break;
    }
    scanned = end_ - begin_;
    if (scanned > kTraceLineBytesMax || (line.too_long && scanned > kShownBytes)) {
      line.too_long = true;  // Keep its beginning for the message and drop the rest as it comes.
      end_ = begin_ + kShownBytes;
      scanned = kShownBytes;
    }
    TIERCEL_TRY(const bool more, refill());
    if (more) continue;
    if (end_ == begin_) return false;
    line.text = std::string_view(buffer_.data() + begin_, end_ - begin_);
    begin_ = end_;
    break;
  }
  if (!line.text.empty() && line.text.back() == '\r') line.text.remove_suffix(1);
  return true;
}

}  // namespace tiercel
