#include "trace/json_locate.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace tiercel {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.' || c == '_';
}

// What is wrong with a bare word (number or literal), if anything.
std::optional<std::string> word_problem(std::string_view word) {
  if (word == "true" || word == "false" || word == "null") return std::nullopt;
  const std::string_view unsigned_word = word.starts_with('-') ? word.substr(1) : word;
  const bool digit_first =
      !unsigned_word.empty() && unsigned_word.front() >= '0' && unsigned_word.front() <= '9';
  if (!digit_first || word.starts_with('+')) return printable(word) + " is not a JSON value";
  if (unsigned_word.find_first_not_of("0123456789") == std::string_view::npos) {
    if (unsigned_word.size() > 1 && unsigned_word.front() == '0')
      return printable(word) + " has a leading zero";
    std::int64_t value = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc{}) {
      return printable(word) + " does not fit into 63 bits";
    }
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size()) return printable(word) + " is not a JSON number";
  if (error != std::errc{} || !std::isfinite(value))
    return printable(word) + " is beyond any finite number";
  return std::nullopt;
}

}  // namespace

std::string printable(std::string_view text, std::size_t length_max) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= length_max) return out + "...";
    if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string describe_json_error(std::string_view text, std::size_t depth_max,
                                std::string_view fallback) {
  std::string field;
  const auto at = [&field](std::size_t index, std::string_view what) {
    return field.empty() ? fmt::format("column {}: {}", index + 1, what)
                         : fmt::format("column {}, field \"{}\": {}", index + 1, field, what);
  };
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (is_space(c) || c == ':' || c == ',') {
      ++i;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return at(i, fmt::format("nested deeper than {} levels", depth_max));
      ++i;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at(i, fmt::format("a '{}' that nothing opened", c));
      --depth;
      ++i;
    } else if (c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') {
        if (static_cast<unsigned char>(text[end]) < 0x20)
          return at(end, "a control character within a string");
        end += text[end] == '\\' ? 2 : 1;
      }
      if (end >= text.size()) return at(i, "a string that does not end");
      const std::string_view content = text.substr(i + 1, end - i - 1);
      i = end + 1;
      std::size_t next = i;
      while (next < text.size() && is_space(text[next])) ++next;
      if (next < text.size() && text[next] == ':') field = printable(content);
    } else if (is_word(c)) {
      const std::size_t start = i;
      while (i < text.size() && is_word(text[i])) ++i;
      if (const auto problem = word_problem(text.substr(start, i - start)))
        return at(start, *problem);
    } else {
      return at(i, printable(text.substr(i, 1)) + " does not belong here");
    }
  }
  if (depth > 0) return at(text.size(), "the text ends before its brackets are closed");
  return std::string(fallback);
}

}  // namespace tiercel
