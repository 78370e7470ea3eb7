#include "placement/toml_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tiercel {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Bytes of the UTF-8 sequence at the head of `text`, 0 where there is none.
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return 0;
  std::uint32_t code = byte(0) & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return overlong || surrogate || code > 0x10ffff ? 0 : bytes;
}

// The sequence at the head of `text` as TOML escapes it in double quotes.
std::string escaped(std::string_view text) {
  const std::size_t bytes = sequence_bytes(text);
  std::uint32_t code = static_cast<unsigned char>(text[0]) & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  return code < 0x10000 ? fmt::format("\\u{:04X}", code) : fmt::format("\\U{:08X}", code);
}

// One line of UTF-8 without its end; what is wrong with it, or nullptr. Strings end where the line does: TOML's own parser
// reports those that are left open.
const char* guard_line(std::string_view line, std::string& out) {
  char quote = 0;  // The one that opened the string we are in.
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && c == '#') {
      for (const char comment : line.substr(i)) out += is_ascii(comment) ? comment : '?';
      return nullptr;
    }
    if (!is_ascii(c)) {
      if (quote == 0)
        return "a character that is not ASCII stands outside quotes; put the value or key into "
               "quotes";
      if (quote == '\'')
        return "a character that is not ASCII stands in single quotes; use double quotes";
      out += escaped(line.substr(i));
      i += sequence_bytes(line.substr(i)) - 1;
      continue;
    }
    out += c;
    if (quote != 0) {
      if (c == quote) quote = 0;
      if (c == '\\' && quote == '"' && i + 1 < line.size()) {
        ++i;
        out += is_ascii(line[i]) ? line[i] : '?';  // No escape either way: the parser says so.
        if (!is_ascii(line[i])) i += sequence_bytes(line.substr(i)) - 1;
      }
    } else if (c == '"' || c == '\'') {
      if (line.substr(i, 3) == std::string(3, c)) {
        return "a multi-line text (three quotes) has no use in a placement; write the text on one "
               "line";
      }
      quote = c;
    }
  }
  return nullptr;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = sequence_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

Result<std::string> guard_toml(std::string_view text, const std::string& file_name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string out;
  out.reserve(text.size());
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto refuse = [&](std::string_view what) {
      return fail(Errc::invalid, fmt::format("{}:{}: {}", file_name, number, what));
    };
    if (end > kTomlLineBytesMax) {
      return refuse(
          fmt::format("the line has {} bytes; at most {} are read", end, kTomlLineBytesMax));
    }
    if (!is_utf8(line)) return refuse("not UTF-8; save the file as UTF-8");
    if (const char* problem = guard_line(line, out)) return refuse(problem);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace tiercel
