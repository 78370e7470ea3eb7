// Bad placements one by one, each with the exact place its message names; good ones with their
// values.
#include "placement/read_placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "placement/canonical.h"
#include "placement/good_placement.h"
#include "placement/toml_guard.h"

namespace tiercel {
namespace {

std::string with(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  if (place != std::string::npos) text.replace(place, from.size(), to);
  return text;
}

TEST(ReadPlacement, ReadsEveryValueInItsUnit) {
  const auto placement = parse_placement(kGood, "p.toml");
  ASSERT_TRUE(placement) << placement.error().what;
  EXPECT_EQ(placement->wait_limit_ns, 1'000'000'000);
  EXPECT_EQ(placement->model.bytes_per_token, 128 * kKiB);
  EXPECT_EQ(placement->block_bytes(), 64 * kMiB);
  EXPECT_EQ(placement->hot.bytes, 100 * kGiB);
  EXPECT_EQ(placement->warm.link.read_bytes_per_s, 20'000'000'000U);
  EXPECT_EQ(placement->cold.segment_bytes, 64 * kMiB);
  EXPECT_EQ(placement->payload_bytes(), 64 * kKiB);
  EXPECT_DOUBLE_EQ(placement->targets.refill_p95_s_max, 1.0);
  EXPECT_TRUE(placement->prefix_sharing);
  EXPECT_EQ(placement->origin.place_of("hot.bytes"), "p.toml:9");
  EXPECT_EQ(placement->origin.place_of("cold.latency"), "p.toml (default)");
}

struct BadFile {
  const char* name;
  std::string_view from, to;           // One replacement in kGood.
  std::vector<std::string_view> says;  // The first is how the message begins.
};

void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.name; }

class BadPlacement : public testing::TestWithParam<BadFile> {};

TEST_P(BadPlacement, IsRefusedWithPlaceAndRemedy) {
  const BadFile& bad = GetParam();
  const auto placement = parse_placement(with(bad.from, bad.to), "p.toml");
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().code, Errc::invalid);
  const std::string& what = placement.error().what;
  EXPECT_TRUE(what.starts_with(bad.says[0])) << what;
  for (const std::string_view words : bad.says)
    EXPECT_NE(what.find(words), std::string::npos) << what;
}

// clang-format off: one case a line.
INSTANTIATE_TEST_SUITE_P(
    Matrix, BadPlacement,
    testing::Values(
        BadFile{"unfinished_text", "\"100 GiB\"", "\"100 GiB", {"p.toml:9: not valid TOML"}},
        BadFile{"not_utf8", "\"100 GiB\"", "\"\xff\xfe\"", {"p.toml:9: not UTF-8"}},
        BadFile{"table_name_of_no_letter", "[staging]", "[`ot]", {"p.toml:20: not valid TOML"}},
        BadFile{"letter_outside_quotes",
                "block_tokens = 512",
                "block_tokens = \xc3\xa9",
                {"p.toml:5: a character that is not ASCII stands outside quotes"}},
        BadFile{"letter_in_single_quotes",
                "\"100 GiB\"",
                "'\xc3\xa9'",
                {"p.toml:9: a character that is not ASCII stands in single quotes"}},
        BadFile{"escaped_letter", "\"100 GiB\"", "\"\\\xc3\xa9\"", {"p.toml:9: not valid TOML"}},
        BadFile{"multi_line_text",
                "\"nominal\"",
                "\"\"\"\nnominal\"\"\"",
                {"p.toml:7: a multi-line text"}},
        BadFile{"duplicate_key",
                "block_tokens = 512",
                "block_tokens = 512\nblock_tokens = 256",
                {"p.toml:6: not valid TOML"}},
        BadFile{"duplicate_table", "[staging]", "[hot]", {"p.toml:20: not valid TOML"}},
        BadFile{"unknown_key",
                "[hot]\nbytes",
                "[hot]\nbyte",
                {"p.toml:9: unknown key \"hot.byte\"", "did you mean \"hot.bytes\"?"}},
        BadFile{"swapped_letters",
                "wait_limit",
                "wait_limti",
                {"p.toml:2: unknown key \"wait_limti\"", "did you mean \"wait_limit\"?"}},
        BadFile{"unknown_table",
                "[staging]",
                "[stagging]",
                {"p.toml:20: unknown key \"stagging\"", "did you mean \"staging\"?"}},
        BadFile{"key_in_wrong_table",
                "[engine]",
                "[engine]\nwait_limit = \"1 s\"",
                {"p.toml:7: unknown key \"engine.wait_limit\"", "did you mean \"wait_limit\"?"}},
        BadFile{"unknown_far_from_all",
                "[staging]",
                "[staging]\nzzzzzzzz = 1",
                {"p.toml:21: unknown key \"staging.zzzzzzzz\"", "[staging] has: bytes"}},
        BadFile{
            "nested_too_deep", "[staging]", "[hot.gpu]", {"p.toml:20: unknown key \"hot.gpu\""}},
        BadFile{"table_as_value", "wait_limit = \"1 s\"", "hot = 1", {"p.toml:"}},
        BadFile{"value_as_table",
                "wait_limit = \"1 s\"",
                "wait_limit = {ms = 1}",
                {"p.toml:2: wait_limit is a duration", "a table", "\"1 s\""}},
        BadFile{"array_of_tables",
                "[staging]\nbytes = \"16 GiB\"",
                "[[staging]]\nbytes = \"16 GiB\"",
                {"p.toml:20: staging is a table"}},
        BadFile{"bare_bytes",
                "\"100 GiB\"",
                "107374182400",
                {"p.toml:9: hot.bytes = 107374182400 has no unit", "\"110 GiB\"",
                 "\"107374182400 B\""}},
        BadFile{"bare_rate",
                "\"20 GB/s\"",
                "2e10",
                {"p.toml:12: warm.read_bandwidth = 20000000000 has no unit", "\"20 GB/s\""}},
        BadFile{"bare_duration",
                "wait_limit = \"1 s\"",
                "wait_limit = 1",
                {"p.toml:2: wait_limit = 1 has no unit", "\"1 s\""}},
        BadFile{"number_in_quotes_without_unit",
                "\"100 GiB\"",
                "\"100\"",
                {"p.toml:9: hot.bytes: \"100\"", "GiB"}},
        BadFile{
            "wrong_unit", "\"100 GiB\"", "\"100 s\"", {"p.toml:9: hot.bytes: \"100 s\"", "GiB"}},
        BadFile{"size_for_rate",
                "\"20 GB/s\"",
                "\"20 GB\"",
                {"p.toml:12: warm.read_bandwidth: \"20 GB\"", "\"3 GB/s\""}},
        BadFile{
            "negative_size", "\"100 GiB\"", "\"-100 GiB\"", {"p.toml:9: hot.bytes: \"-100 GiB\""}},
        BadFile{"size_beyond_all", "\"100 GiB\"", "\"100000000 TiB\"", {"p.toml:9: hot.bytes"}},
        BadFile{"size_beyond_8_pib",
                "\"100 GiB\"",
                "\"9000 TiB\"",
                {"p.toml:9: hot.bytes must be from 0 B to 8192 TiB, not 9000 TiB"}},
        BadFile{"date",
                "\"100 GiB\"",
                "1979-05-27",
                {"p.toml:9: hot.bytes is a byte size", "a date or time"}},
        BadFile{"bool_for_integer",
                "block_tokens = 512",
                "block_tokens = true",
                {"p.toml:5: model.block_tokens is a whole number", "not true"}},
        BadFile{"fraction_for_integer",
                "block_tokens = 512",
                "block_tokens = 512.5",
                {"p.toml:5: model.block_tokens is a whole number", "512.5"}},
        BadFile{"text_for_flag",
                "wait_limit = \"1 s\"",
                "prefix_sharing = \"yes\"",
                {"p.toml:2: prefix_sharing is true or false"}},
        BadFile{"zero_block_tokens",
                "block_tokens = 512",
                "block_tokens = 0",
                {"p.toml:5: model.block_tokens must be from 1 to"}},
        BadFile{"negative_block_tokens",
                "block_tokens = 512",
                "block_tokens = -4",
                {"p.toml:5: model.block_tokens must be from 1 to 1048576, not -4"}},
        BadFile{"not_a_number",
                "rejection_ratio = 0.01",
                "rejection_ratio = nan",
                {"p.toml:25: targets.rejection_ratio must be from 0 to 1, not nan"}},
        BadFile{"infinite",
                "rejection_ratio = 0.01",
                "turn_drift = inf",
                {"p.toml:25: targets.turn_drift must be from"}},
        BadFile{"ratio_above_one",
                "rejection_ratio = 0.01",
                "rejection_ratio = 5",
                {"p.toml:25: targets.rejection_ratio must be from 0 to 1, not 5"}},
        BadFile{"other_prefill",
                "\"nominal\"",
                "\"magic\"",
                {"p.toml:7: engine.prefill is \"nominal\" or \"flops\", not \"magic\""}},
        BadFile{"flops_without_figures",
                "\"nominal\"",
                "\"flops\"",
                {"p.toml (default): engine.flops must be stated"}},
        BadFile{"flops_without_layers",
                "\"nominal\"",
                "\"flops\"\nflops = 1e15\n[model.x]",
                {"p.toml:9: unknown key \"model.x\""}},
        BadFile{"missing_bytes_per_token",
                "bytes_per_token = \"128 KiB\"\n",
                "",
                {"p.toml: model.bytes_per_token is missing", "under [model]"}},
        BadFile{"missing_hot",
                "[hot]\nbytes = \"100 GiB\"\n",
                "",
                {"p.toml: hot.bytes is missing", "under [hot]"}},
        BadFile{"schema_missing",
                "schema = \"tiercel.placement/1\"\n",
                "\n",
                {"p.toml:1: schema is missing", "tiercel.placement/1"}},
        BadFile{"schema_newer",
                "tiercel.placement/1",
                "tiercel.placement/2",
                {"p.toml:1: schema \"tiercel.placement/2\" is of another version"}},
        BadFile{"schema_foreign",
                "tiercel.placement/1",
                "tiercel.deployment/1",
                {"p.toml:1: schema \"tiercel.deployment/1\" is not a placement"}},
        BadFile{
            "schema_number", "\"tiercel.placement/1\"", "1", {"p.toml:1: schema must be the text"}},
        BadFile{"hot_zero",
                "\"100 GiB\"",
                "\"0 B\"",
                {"p.toml:9: hot.bytes is 0 B, less than one block", "64 MiB"}},
        BadFile{"hot_below_a_block",
                "\"100 GiB\"",
                "\"63 MiB\"",
                {"p.toml:9: hot.bytes is 63 MiB, less than one block"}},
        BadFile{"warm_below_hot",
                "\"200 GiB\"",
                "\"99 GiB\"",
                {"p.toml:11: warm.bytes is 99 GiB, smaller than hot.bytes (100 GiB)",
                 "set warm.bytes to 100 GiB or more"}},
        BadFile{"cold_without_warm",
                "\"200 GiB\"",
                "\"0 B\"",
                {"p.toml:11: there is a cold tier (1 TiB) but no warm one", "cold.bytes=0"}},
        BadFile{"staging_zero",
                "\"16 GiB\"",
                "\"0 B\"",
                {"p.toml:21: staging.bytes is 0 B, less than one block", "\"16 GiB\""}},
        BadFile{"warm_link_missing",
                "read_bandwidth = \"20 GB/s\"\n",
                "",
                {"p.toml (default): warm.read_bandwidth is 0", "under [warm]"}},
        BadFile{"warm_link_zero",
                "write_bandwidth = \"20 GB/s\"",
                "write_bandwidth = \"0 B/s\"",
                {"p.toml:13: warm.write_bandwidth is 0"}},
        BadFile{"cold_link_zero",
                "read_bandwidth = \"3 GB/s\"",
                "read_bandwidth = \"0 B/s\"",
                {"p.toml:17: cold.read_bandwidth is 0", "cold.bytes = \"0 B\""}},
        BadFile{"segment_zero",
                "\"64 MiB\"",
                "\"0 B\"",
                {"p.toml:16: cold.segment_bytes is 0 B, not a multiple of 4 KiB"}},
        BadFile{"segment_odd",
                "\"64 MiB\"",
                "\"5000 B\"",
                {"p.toml:16: cold.segment_bytes is 5000 B, not a multiple of 4 KiB"}},
        BadFile{"never_synced",
                "sync_interval = \"1 s\"",
                "sync_interval = \"0 s\"",
                {"p.toml:19: cold.sync_bytes and cold.sync_interval are both 0"}},
        BadFile{"payload_odd",
                "\"64 KiB\"",
                "\"65000 B\"",
                {"p.toml:23: a payload of 65000 B is not a multiple of 4 KiB", "60 KiB"}},
        BadFile{"payload_above_block",
                "\"64 KiB\"",
                "\"65 MiB\"",
                {"p.toml:23: a payload of 65 MiB is more than the block it stands for (64 MiB)"}}),
    [](const auto& row) { return std::string(row.param.name); });
// clang-format on

TEST(ReadPlacement, TheFirstErrorByLineIsTheOneReported) {
  std::string text = with("rejection_ratio = 0.01", "rejection_ratio = 7");
  text.replace(text.find("wait_limit"), 10, "wait_limix");
  EXPECT_TRUE(parse_placement(text, "p.toml").error().what.starts_with("p.toml:2:"));
}

TEST(ReadPlacement, WindowsLineEndsAndAByteOrderMarkAreFine) {
  std::string text = "\xef\xbb\xbf";
  for (const char c : kGood) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(parse_placement(text, "p.toml")) << parse_placement(text, "p.toml").error().what;
}

TEST(ReadPlacement, CommentsAndQuotedTextsMayUseAnyLetter) {
  const auto placement = parse_placement(
      with("wait_limit = \"1 s\"",
           "name = \"R\xc3\xa4nd \\\"#\xe2\x80\x93\\\" \\u00E9\" # \xe2\x80\x93 \"\"\""),
      "p.toml");
  ASSERT_TRUE(placement) << placement.error().what;
  EXPECT_EQ(placement->name, "R\xc3\xa4nd \"#\xe2\x80\x93\" \xc3\xa9");
}

TEST(ReadPlacement, OnlyWellFormedUtf8IsUtf8) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x80\x93", "\xf0\x9f\x98\x80", "\xed\x9f\xbf",
                           "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x80", "\xc3x", "\xff"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST(ReadPlacement, HugeLinesAndDeepNestingAreRefusedInBoundedStack) {
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "a.";
  const auto dotted = parse_placement(std::string(kGood) + deep + "a = 1\n", "p.toml");
  ASSERT_FALSE(dotted);
  EXPECT_TRUE(dotted.error().what.starts_with("p.toml:26: the line has 400005 bytes"))
      << dotted.error().what;
  for (const std::string& nested :
       {"x = " + std::string(4000, '['), "x = " + std::string(2000, '[') + std::string(2000, ']'),
        "[" + deep.substr(0, 4000) + "a]"}) {
    EXPECT_FALSE(parse_placement(std::string(kGood) + nested + "\n", "p.toml"));
  }
  std::string lines(kGood);  // Nesting over many lines is bounded by the parser.
  for (int i = 0; i < 10'000; ++i) lines += i == 0 ? "x = [\n" : "[\n";
  EXPECT_FALSE(parse_placement(lines, "p.toml"));
}

TEST(ReadPlacement, LongNamesAreShortenedInMessages) {
  const std::string name(3000, 'k');
  const auto placement = parse_placement(std::string(kGood) + name + " = 1\n", "p.toml");
  ASSERT_FALSE(placement);
  EXPECT_LT(placement.error().what.size(), 300U) << placement.error().what;
}

class PlacementFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tiercel_placement_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string write(const std::string& text) const {
    const std::string path = dir_ + "/p.toml";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string dir_;
};

TEST_F(PlacementFile, IsReadFromDisk) {
  const std::string path = write(std::string(kGood));
  const auto placement = read_placement(path);
  ASSERT_TRUE(placement) << placement.error().what;
  EXPECT_EQ(placement->origin.place_of("hot.bytes"), path + ":9");
}

TEST_F(PlacementFile, MissingDirectoryFifoAndHugeFilesAreRefusedByName) {
  EXPECT_NE(read_placement(dir_ + "/none.toml").error().what.find("none.toml: no such file"),
            std::string::npos);
  EXPECT_NE(read_placement(dir_).error().what.find(dir_ + ": is a directory"), std::string::npos);
  const std::string fifo = dir_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(read_placement(fifo).error().what.find("fifo: is not a regular file"),
            std::string::npos);
  const std::string huge = write(std::string(kGood) + std::string(kMiB, '\n'));
  EXPECT_NE(read_placement(huge).error().what.find("p.toml: larger than 1 MiB"), std::string::npos);
  EXPECT_NE(read_placement(write("")).error().what.find("p.toml:1: schema is missing"),
            std::string::npos);
  EXPECT_NE(read_placement(write("\x7f"
                                 "ELF\x02\x01\x01"))
                .error()
                .what.find("p.toml:1: not valid TOML"),
            std::string::npos);
}

}  // namespace
}  // namespace tiercel
