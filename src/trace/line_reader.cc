#include "trace/line_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "trace/limits.h"

namespace tiercel {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{64} << 10;  // Doubles up to the longest line.
constexpr std::size_t kShownBytes = 64;  // What a message shows of a line that is too long.

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

Result<void> LineReader::pass_over_rest() {
  for (;;) {
    const char* start = buffer_.data() + begin_;
    if (const void* found = std::memchr(start, '\n', end_ - begin_); found != nullptr) {
      begin_ += static_cast<std::size_t>(static_cast<const char*>(found) - start) + 1;
      return {};
    }
    begin_ = end_ = 0;
    TIERCEL_TRY(const bool more, refill());
    if (!more) return {};
  }
}

Result<bool> LineReader::next(Line& line) {
  if (within_line_) TIERCEL_TRY_VOID(pass_over_rest());
  within_line_ = false;
  if (number_ >= kTraceLinesMax) {
    return fail(Errc::invalid, fmt::format("{}: more than {} lines; split the trace",
                                           source_.name(), kTraceLinesMax));
  }
  line = Line{.number = ++number_};
  std::size_t scanned = 0;  // Bytes behind begin_ known to hold no line end.
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const void* found = std::memchr(start + scanned, '\n', end_ - begin_ - scanned);
    const std::size_t length =
        found != nullptr ? static_cast<std::size_t>(static_cast<const char*>(found) - start)
                         : end_ - begin_;
    if (length > kTraceLineBytesMax) {
      line.too_long = within_line_ = true;
      line.text = std::string_view(start, kShownBytes);
      begin_ += kShownBytes;
      return true;
    }
    if (found == nullptr) {
      scanned = length;
      TIERCEL_TRY(const bool more, refill());
      if (more) continue;
      if (length == 0) return false;
    }
    line.text = std::string_view(buffer_.data() + begin_, length);
    begin_ += length + (found != nullptr ? 1 : 0);
    break;
  }
  if (!line.text.empty() && line.text.back() == '\r') line.text.remove_suffix(1);
  return true;
}

}  // namespace tiercel
