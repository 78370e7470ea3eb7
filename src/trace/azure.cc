// Azure LLM inference traces: CSV of wall-clock time, prompt and answer length. No blocks, no
// sessions.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "trace/formats.h"
#include "trace/json_locate.h"
#include "trace/limits.h"
#include "trace/sessions.h"
#include "trace/trace_builder.h"

namespace tiercel {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::int64_t kNsPerS = 1'000'000'000;

// A fixed number of digits at the front of `text`, which is shortened by them.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// Days from 1970-01-01 in the Gregorian calendar: years start in March, so the leap day is the last
// of its year.
std::int64_t civil_days(int year, int month, int day) {
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t month_from_march = (month + 9) % 12;
  const std::int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
  return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

bool is_date(int year, int month, int day) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year < 1970 || month < 1 || month > 12 || day < 1) return false;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return day <= kDays[month - 1] + (month == 2 && leap ? 1 : 0);
}

// "2023-11-16 18:17:03.9799600", to nanoseconds since 1970; up to 9 digits of fraction, a zone of
// zero may follow.
std::optional<std::int64_t> parse_time_ns(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !is_date(*year, *month, *day) || (!take(text, ' ') && !take(text, 'T')))
    return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59 || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 60) return std::nullopt;
  std::int64_t fraction_ns = 0;
  if (take(text, '.')) {
    std::int64_t unit = kNsPerS / 10;
    for (; unit > 0 && !text.empty() && text.front() >= '0' && text.front() <= '9'; unit /= 10) {
      fraction_ns += unit * (text.front() - '0');
      text.remove_prefix(1);
    }
  }
  if (!text.empty() && text != "Z" && text != "+00:00") return std::nullopt;
  // Years up to 2200 stay within 63 bits of nanoseconds.
  if (*year > 2200) return std::nullopt;
  const std::int64_t seconds =
      civil_days(*year, *month, *day) * 86'400 + *hour * 3600 + *minute * 60 + *second;
  return seconds * kNsPerS + fraction_ns;
}

Result<std::uint32_t> parse_tokens(const char* field, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(Errc::invalid, fmt::format("field \"{}\": \"{}\" is not a number of tokens", field,
                                           printable(text)));
  }
  if (value < 0)
    return fail(Errc::invalid, fmt::format("field \"{}\": {} is negative", field, value));
  if (value > kTraceTokensMax) {
    return fail(Errc::invalid,
                fmt::format("field \"{}\": {} is beyond {}", field, value, kTraceTokensMax));
  }
  return static_cast<std::uint32_t>(value);
}

Result<NewRequest> parse_line(std::string_view line) {
  const std::size_t first = line.find(',');
  const std::size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
  if (second == std::string_view::npos || line.find(',', second + 1) != std::string_view::npos) {
    return fail(Errc::invalid, fmt::format("not three fields {}", kHeader));
  }
  const std::string_view time = line.substr(0, first);
  const auto arrival_ns = parse_time_ns(time);
  if (!arrival_ns) {
    return fail(
        Errc::invalid,
        fmt::format("field \"TIMESTAMP\": \"{}\" is not a time like 2023-11-16 18:17:03.9799600",
                    printable(time)));
  }
  NewRequest request{.arrival_ns = *arrival_ns};
  TIERCEL_TRY(request.input_tokens,
              parse_tokens("ContextTokens", line.substr(first + 1, second - first - 1)));
  TIERCEL_TRY(request.output_tokens, parse_tokens("GeneratedTokens", line.substr(second + 1)));
  return request;
}

}  // namespace

Result<Trace> read_azure(ByteSource& source, BadEntries& bad) {
  TraceBuilder builder;
  EntryLines lines(source, bad);
  LineReader::Line line;
  TIERCEL_TRY(const bool any, lines.next(line));
  if (!any || line.text != kHeader) {
    return fail(
        Errc::invalid,
        fmt::format("{}:{}: the header is not {}; only the 2023 and 2024 LLM traces are known",
                    source.name(), line.number, kHeader));
  }
  std::int64_t origin_ns = 0;
  for (;;) {
    TIERCEL_TRY(const bool more, lines.next(line));
    if (!more) break;
    auto request = parse_line(line.text);
    if (!request) {
      TIERCEL_TRY_VOID(bad.add(source.name(), line.number, request.error().what));
      continue;
    }
    if (builder.trace().requests.empty()) origin_ns = request->arrival_ns;
    request->arrival_ns -= origin_ns;
    if (const auto fits = builder.check(*request, "TIMESTAMP", ""); !fits) {
      TIERCEL_TRY_VOID(bad.add(source.name(), line.number, fits.error().what));
      continue;
    }
    TIERCEL_TRY_VOID(builder.add(*request));
  }
  Trace trace = builder.finish();
  trace.format = "azure";
  separate_sessions(trace);
  return trace;
}

}  // namespace tiercel
