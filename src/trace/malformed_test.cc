// Malformed input, format by format: each case is refused by file, line, field and remedy, and passed over and counted
// with skip_bad, while the good lines around it are kept.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "trace/read_trace.h"

namespace tiercel {
namespace {

struct Case {
  const char* name;
  std::string line;
  const char* field;   // Empty: the line as a whole.
  const char* phrase;  // Part of the message.
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// Checks that `text`, whose line 2 (of a body that begins at line `first`) is bad, gives exactly that error.
void expect_bad_line(const std::string& text, int line, const Case& c,
                     std::uint64_t good_requests) {
  const auto strict = parse_trace("t.trace", text, {});
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, Errc::invalid);
  const std::string& what = strict.error().what;
  EXPECT_EQ(what.find("t.trace:" + std::to_string(line) + ": "), 0U) << what;
  if (*c.field != '\0') {
    EXPECT_NE(what.find(std::string("field \"") + c.field + "\""), std::string::npos) << what;
  }
  EXPECT_NE(what.find(c.phrase), std::string::npos) << what;
  EXPECT_NE(what.find("--skip-bad"), std::string::npos) << what;
  EXPECT_LT(what.size(), 400U) << "outside text must be cut short";

  const auto lenient = parse_trace("t.trace", text, {.skip_bad = true});
  ASSERT_TRUE(lenient) << lenient.error().what;
  EXPECT_EQ(lenient->skipped_lines, 1U);
  EXPECT_EQ(lenient->requests.size(), good_requests);
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// --- Mooncake ---------------------------------------------------------------------------------------------------------

class MooncakeMalformed : public testing::TestWithParam<Case> {};

TEST_P(MooncakeMalformed, IsRefusedByPlaceAndCountedWhenSkipped) {
  const std::string text =
      R"({"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]})"
      "\n" +
      GetParam().line +
      "\n"
      R"({"timestamp": 2000, "input_length": 512, "output_length": 0, "hash_ids": [0]})";
  expect_bad_line(text, 2, GetParam(), 2);
}

std::string mooncake(const char* time, const char* in, const char* out, const char* ids) {
  return std::string(R"({"timestamp": )") + time + R"(, "input_length": )" + in +
         R"(, "output_length": )" + out + R"(, "hash_ids": )" + ids + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Lines, MooncakeMalformed,
    testing::Values(
        Case{"negative_time", mooncake("-5", "512", "1", "[0]"), "timestamp", "negative"},
        Case{"negative_fraction_time", mooncake("-0.5", "512", "1", "[0]"), "timestamp",
             "negative"},
        Case{"nan_time", mooncake("NaN", "512", "1", "[0]"), "timestamp",
             "NaN is not a JSON value"},
        Case{"infinite_time", mooncake("1e999", "512", "1", "[0]"), "timestamp",
             "beyond any finite number"},
        Case{"far_time", mooncake("1e300", "512", "1", "[0]"), "timestamp", "hundred years"},
        Case{"far_whole_time", mooncake("9223372036854775807", "512", "1", "[0]"), "timestamp",
             "is beyond"},
        Case{"time_back", mooncake("999", "512", "1", "[0]"), "timestamp", "goes back"},
        Case{"time_string", mooncake("\"5\"", "512", "1", "[0]"), "timestamp",
             "is a string, not an integer"},
        Case{"time_null", mooncake("null", "512", "1", "[0]"), "timestamp", "is null"},
        Case{"time_bool", mooncake("true", "512", "1", "[0]"), "timestamp", "is a boolean"},
        Case{"input_fraction", mooncake("1000", "512.0", "1", "[0]"), "input_length",
             "is a fraction"},
        Case{"input_negative", mooncake("1000", "-1", "1", "[]"), "input_length", "negative"},
        Case{"input_huge", mooncake("1000", "1073741825", "1", "[0]"), "input_length", "is beyond"},
        Case{"output_object", mooncake("1000", "512", "{}", "[0]"), "output_length",
             "is an object"},
        Case{"output_negative", mooncake("1000", "512", "-1", "[0]"), "output_length", "negative"},
        Case{"ids_number", mooncake("1000", "512", "1", "7"), "hash_ids",
             "is an integer, not an array"},
        Case{"id_negative", mooncake("1000", "512", "1", "[-1]"), "hash_ids", "negative"},
        Case{"id_string", mooncake("1000", "512", "1", "[\"0\"]"), "hash_ids", "is a string"},
        Case{"id_nested", mooncake("1000", "512", "1", "[[0]]"), "hash_ids", "is an array"},
        Case{"id_2_63", mooncake("1000", "512", "1", "[9223372036854775808]"), "hash_ids",
             "is beyond"},
        Case{"id_2_64", mooncake("1000", "512", "1", "[18446744073709551616]"), "hash_ids",
             "does not fit"},
        Case{"id_twice", mooncake("1000", "1024", "1", "[8, 8]"), "hash_ids", "occurs twice"},
        Case{"id_twice_apart", mooncake("1000", "2048", "1", "[8, 9, 3, 8]"), "hash_ids",
             "occurs twice"},
        Case{"ids_too_few", mooncake("1000", "513", "1", "[0]"), "hash_ids", "needs 2"},
        Case{"ids_too_many", mooncake("1000", "512", "1", "[0, 1]"), "hash_ids", "needs 1"},
        Case{"missing_time", R"({"input_length": 512, "output_length": 1, "hash_ids": [0]})",
             "timestamp", "is missing"},
        Case{"missing_input", R"({"timestamp": 1000, "output_length": 1, "hash_ids": [0]})",
             "input_length", "is missing"},
        Case{"missing_output", R"({"timestamp": 1000, "input_length": 512, "hash_ids": [0]})",
             "output_length", "is missing"},
        Case{"missing_ids", R"({"timestamp": 1000, "input_length": 512, "output_length": 1})",
             "hash_ids", "is missing"},
        Case{"twice",
             R"({"timestamp": 1000, "timestamp": 1000, "input_length": 512, "output_length": 1})",
             "timestamp", "given twice"},
        Case{"array", "[1, 2]", "", "is an array, not an object"},
        Case{"word", "hello", "", "not a JSON value"},
        Case{"truncated", R"({"timestamp": 1000, "input_len)", "", "a string that does not end"},
        Case{"unclosed", R"({"timestamp": 1000, "hash_ids": [1, 2)", "hash_ids",
             "before its brackets are closed"},
        Case{"two_documents", mooncake("1000", "512", "1", "[0]") + " {}", "", "not valid JSON"},
        Case{"nested_10000", R"({"timestamp": )" + nested(10'000) + "}", "timestamp",
             "nested deeper"},
        Case{"nested_in_unknown", R"({"extra": )" + nested(10'000) + "}", "extra", "nested deeper"},
        Case{"binary", std::string("\x00\x01\xff\xfe{\x80", 6), "", "not valid JSON"},
        Case{"bad_utf8", R"({"timestamp": 1000, "note": ")" + std::string("\xff\xff") + "\"}", "",
             "not valid JSON"},
        Case{"bom", "\xef\xbb\xbf" + mooncake("1000", "512", "1", "[0]"), "", "not valid JSON"},
        Case{"long_line", mooncake("1000", "512", "1", "[0]") + std::string(17 << 20, ' '), "",
             "longer than 16 MiB"}),
    case_name);

// --- Tiercel ----------------------------------------------------------------------------------------------------------

class TiercelMalformed : public testing::TestWithParam<Case> {};

TEST_P(TiercelMalformed, IsRefusedByPlaceAndCountedWhenSkipped) {
  const std::string text =
      R"({"schema":"tiercel.trace/1","block_tokens":16,"requests":3})"
      "\n"
      R"({"arrival_ns":10,"input_tokens":33,"output_tokens":2,"blocks":[4,5,6]})"
      "\n" +
      GetParam().line +
      "\n"
      R"({"arrival_ns":20,"input_tokens":33,"output_tokens":2,"blocks":[4,5]})";
  expect_bad_line(text, 3, GetParam(), 2);
}

std::string own(const char* time, const char* in, const char* out, const char* blocks,
                const char* more = "") {
  return std::string(R"({"arrival_ns":)") + time + R"(,"input_tokens":)" + in +
         R"(,"output_tokens":)" + out + R"(,"blocks":)" + blocks + more + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Lines, TiercelMalformed,
    testing::Values(
        Case{"negative_time", own("-1", "16", "1", "[4]"), "arrival_ns", "negative"},
        Case{"fraction_time", own("10.5", "16", "1", "[4]"), "arrival_ns", "is a fraction"},
        Case{"nan_time", own("nan", "16", "1", "[4]"), "arrival_ns", "nan is not a JSON value"},
        Case{"infinite_time", own("1e999", "16", "1", "[4]"), "arrival_ns",
             "beyond any finite number"},
        Case{"time_back", own("9", "16", "1", "[4]"), "arrival_ns", "goes back"},
        Case{"input_string", own("10", "\"16\"", "1", "[4]"), "input_tokens", "is a string"},
        Case{"output_huge", own("10", "16", "99999999999", "[4]"), "output_tokens", "is beyond"},
        Case{"blocks_too_few", own("10", "48", "1", "[4,5]"), "blocks", "needs 3"},
        Case{"blocks_too_many", own("10", "16", "1", "[4,5]"), "blocks", "needs 1"},
        Case{"block_twice", own("10", "32", "1", "[4,4]"), "blocks", "occurs twice"},
        Case{"block_2_63", own("10", "16", "1", "[9223372036854775808]"), "blocks", "is beyond"},
        Case{"session_name", own("10", "16", "1", "[4]", ",\"session\":\"a\""), "session",
             "is a string"},
        Case{"session_negative", own("10", "16", "1", "[4]", ",\"session\":-1"), "session",
             "negative"},
        Case{"misspelt", own("10", "16", "1", "[4]", ",\"sesion\":1"), "sesion", "is unknown"},
        Case{"missing_time", R"({"input_tokens":16,"output_tokens":1,"blocks":[4]})", "arrival_ns",
             "is missing"},
        Case{"missing_blocks", R"({"arrival_ns":10,"input_tokens":16,"output_tokens":1})", "blocks",
             "is missing"},
        Case{"nested", R"({"blocks":)" + nested(10'000) + "}", "blocks", "nested deeper"},
        Case{"long_line", std::string(17 << 20, '7'), "", "longer than 16 MiB"},
        Case{"binary", std::string("\x00\x01\x02", 3), "", "not valid JSON"}),
    case_name);

// --- Azure ------------------------------------------------------------------------------------------------------------

class AzureMalformed : public testing::TestWithParam<Case> {};

TEST_P(AzureMalformed, IsRefusedByPlaceAndCountedWhenSkipped) {
  const std::string text =
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n" +
      GetParam().line + "\r\n2023-11-16 18:15:50.9951690,396,109\r\n";
  expect_bad_line(text, 3, GetParam(), 2);
}

INSTANTIATE_TEST_SUITE_P(
    Lines, AzureMalformed,
    testing::Values(
        Case{"two_fields", "2023-11-16 18:15:47,374", "", "three fields"},
        Case{"four_fields", "2023-11-16 18:15:47,374,1,2", "", "three fields"},
        Case{"no_time", "NaN,374,44", "TIMESTAMP", "is not a time"},
        Case{"bad_month", "2023-13-16 18:15:47,374,44", "TIMESTAMP", "is not a time"},
        Case{"bad_day", "2023-02-29 18:15:47,374,44", "TIMESTAMP", "is not a time"},
        Case{"bad_hour", "2023-11-16 24:15:47,374,44", "TIMESTAMP", "is not a time"},
        Case{"ten_digits", "2023-11-16 18:15:47.1234567891,374,44", "TIMESTAMP", "is not a time"},
        Case{"time_back", "2023-11-16 18:15:46.6805899,374,44", "TIMESTAMP", "goes back"},
        Case{"input_negative", "2023-11-16 18:15:47,-374,44", "ContextTokens", "negative"},
        Case{"input_nan", "2023-11-16 18:15:47,nan,44", "ContextTokens", "is not a number"},
        Case{"output_fraction", "2023-11-16 18:15:47,374,4.5", "GeneratedTokens",
             "is not a number"},
        Case{"output_empty", "2023-11-16 18:15:47,374,", "GeneratedTokens", "is not a number"},
        Case{"output_2_63", "2023-11-16 18:15:47,374,9223372036854775808", "GeneratedTokens",
             "is not a number"},
        Case{"output_huge", "2023-11-16 18:15:47,374,9999999999", "GeneratedTokens", "is beyond"},
        Case{"binary", std::string("\x00\xff,\x01,\x02", 6), "TIMESTAMP", "\\x00\\xff"},
        Case{"long_line", std::string(17 << 20, '7'), "", "longer than 16 MiB"}),
    case_name);

// --- Weka: a whole session is the entry -------------------------------------------------------------------------------

class WekaMalformed : public testing::TestWithParam<Case> {};

TEST_P(WekaMalformed, IsRefusedByFieldAndLeavesNothingWhenSkipped) {
  const std::string text = R"({"id":"s","block_size":64,"requests":[)"
                           R"({"t":0,"type":"n","in":64,"out":1,"hash_ids":[1]},)" +
                           GetParam().line + "]}";
  const auto strict = parse_trace("s.json", text, {});
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, Errc::invalid);
  EXPECT_EQ(strict.error().what.find("s.json: "), 0U) << strict.error().what;
  EXPECT_NE(strict.error().what.find(GetParam().field), std::string::npos) << strict.error().what;
  EXPECT_NE(strict.error().what.find(GetParam().phrase), std::string::npos) << strict.error().what;
  const auto lenient = parse_trace("s.json", text, {.skip_bad = true});
  ASSERT_FALSE(lenient);
  EXPECT_NE(lenient.error().what.find("1 malformed entries skipped"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, WekaMalformed,
    testing::Values(
        Case{"negative_time", R"({"t":-1,"in":64,"out":1,"hash_ids":[1]})",
             "requests[1]: field \"t\"", "negative"},
        Case{"nan_time", R"({"t":NaN,"in":64,"out":1,"hash_ids":[1]})", "field \"t\"",
             "not a JSON value"},
        Case{"far_time", R"({"t":1e12,"in":64,"out":1,"hash_ids":[1]})", "requests[1]: field \"t\"",
             "hundred years"},
        Case{"too_few", R"({"t":1,"in":128,"out":1,"hash_ids":[1]})",
             "requests[1]: field \"hash_ids\"", "needs 2"},
        Case{"too_many", R"({"t":1,"in":64,"out":1,"hash_ids":[1,2]})",
             "requests[1]: field \"hash_ids\"", "needs 1"},
        Case{"twice", R"({"t":1,"in":128,"out":1,"hash_ids":[7,7]})", "field \"hash_ids\"",
             "occurs twice"},
        Case{"id_2_63", R"({"t":1,"in":64,"out":1,"hash_ids":[9223372036854775808]})",
             "field \"hash_ids\"", "beyond"},
        Case{"missing", R"({"t":1,"in":64,"hash_ids":[1]})", "requests[1]: field \"out\"",
             "is missing"},
        Case{"not_object", "7", "requests[1]: field \"requests\"", "is an integer, not an object"},
        Case{"type_number", R"({"t":1,"type":3,"in":64,"out":1,"hash_ids":[1]})", "field \"type\"",
             "is an integer"},
        Case{"subagent_empty", R"({"t":1,"type":"subagent"})", "field \"requests\"",
             "is missing in a subagent"},
        Case{"subagent_bad",
             R"({"t":1,"type":"subagent","requests":[{"t":0,"in":64,"out":-1,"hash_ids":[1]}]})",
             "requests[1]: requests[0]: field \"out\"", "negative"},
        Case{
            "subagent_deep",
            R"({"t":1,"type":"subagent","requests":[{"t":1,"type":"subagent","requests":[)"
            R"({"t":1,"type":"subagent","requests":[{"t":1,"type":"subagent","requests":[]}]}]}]})",
            "requests[0]", "nested too deep"},
        Case{"nested", R"({"t":)" + nested(10'000) + "}", "field \"t\"", "nested deeper"}),
    case_name);

}  // namespace
}  // namespace tiercel
