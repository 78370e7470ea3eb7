// Reading: what each format becomes, how it is told apart, and the composition of Weka sessions.
#include "trace/read_trace.h"

#include <gtest/gtest.h>

#include "trace/write_trace.h"

namespace tiercel {
namespace {

Trace must_parse(const std::string& text, const TraceOptions& options = {}) {
  auto trace = parse_trace("t.trace", text, options);
  EXPECT_TRUE(trace) << trace.error().what;
  return trace ? *std::move(trace) : Trace{};
}

std::vector<std::uint32_t> ids_of(const Trace& trace, std::size_t index) {
  const auto blocks = trace.blocks(trace.requests[index]);
  return {blocks.begin(), blocks.end()};
}

using Ids = std::vector<std::uint32_t>;

constexpr const char* kMooncake =
    "{\"timestamp\": 0, \"input_length\": 1025, \"output_length\": 7, \"hash_ids\": [46, 9, "
    "4611686018427387904]}\n"
    "\n"
    "{\"timestamp\": 27482, \"input_length\": 1100, \"output_length\": 0, \"hash_ids\": [46, 9, "
    "3], \"extra\": {}}\r\n";

TEST(Mooncake, IdsBecomeDenseInOrderOfFirstAppearance) {
  const Trace trace = must_parse(kMooncake);
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_EQ(trace.block_tokens, 512U);
  EXPECT_TRUE(trace.has_blocks);
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_EQ(ids_of(trace, 0), (Ids{0, 1, 2}));
  EXPECT_EQ(ids_of(trace, 1), (Ids{0, 1, 3}));
  EXPECT_EQ(trace.unique_blocks, 4U);
  EXPECT_EQ(trace.requests[1].arrival_ns, 27'482'000'000);
  EXPECT_EQ(trace.requests[0].input_tokens, 1025U);
  EXPECT_EQ(trace.requests[0].output_tokens, 7U);
  EXPECT_DOUBLE_EQ(trace.duration_s, 27.482);
  // The second extends all full blocks of the first.
  EXPECT_EQ(trace.session_count, 1U);
  EXPECT_EQ(trace.requests[1].turn, 2U);
}

TEST(Mooncake, WallClockTimesStartAtZeroOnACommonMultipleOfGridAndWindow) {
  const Trace trace = must_parse(
      "{\"timestamp\": 1700000001234, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": "
      "[0]}\n"
      "{\"timestamp\": 1700000004234.5, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": "
      "[1]}");
  EXPECT_EQ(trace.requests[0].arrival_ns, 1700000001234 % 30'000 * 1'000'000);
  EXPECT_EQ(trace.requests[1].arrival_ns - trace.requests[0].arrival_ns, 3'000'500'000);
}

TEST(Tiercel, ReadsGivenSessionsAndNumbersTurnsByTheirOrder) {
  const Trace trace = must_parse(
      "{\"schema\":\"tiercel.trace/1\",\"block_tokens\":4,\"source\":\"by hand\"}\n"
      "{\"arrival_ns\":0,\"input_tokens\":9,\"output_tokens\":2,\"blocks\":[70,80,90],\"session\":"
      "500}\n"
      "{\"arrival_ns\":5,\"input_tokens\":4,\"output_tokens\":2,\"blocks\":[70]}\n"
      "{\"arrival_ns\":5,\"input_tokens\":13,\"output_tokens\":1,\"blocks\":[70,80,91],\"session\":"
      "500}\n");
  EXPECT_EQ(trace.format, "tiercel");
  EXPECT_EQ(trace.block_tokens, 4U);
  EXPECT_EQ(trace.session_count, 2U);
  EXPECT_EQ(trace.requests[0].session, trace.requests[2].session);
  EXPECT_NE(trace.requests[0].session, trace.requests[1].session);
  EXPECT_EQ(trace.requests[2].turn, 2U);
  EXPECT_EQ(trace.requests[1].turn, 1U);
  EXPECT_EQ(ids_of(trace, 2), (Ids{0, 1, 3}));
}

TEST(Tiercel, WithoutBlocksThereIsNoReuseInformation) {
  const Trace trace = must_parse(
      "{\"schema\":\"tiercel.trace/"
      "1\",\"block_tokens\":0}\n{\"arrival_ns\":3,\"input_tokens\":9,\"output_tokens\":2}");
  EXPECT_FALSE(trace.has_blocks);
  EXPECT_EQ(trace.requests.size(), 1U);
}

TEST(Tiercel, WhatIsWrittenReadsBackToTheSameTrace) {
  Trace trace = must_parse(kMooncake);
  trace.requests[1].output_tokens = 77;
  std::string text = trace_header_line(trace, "a test");
  for (const Request& request : trace.requests) text += trace_request_line(trace, request);
  const Trace again = must_parse(text);
  ASSERT_EQ(again.requests.size(), trace.requests.size());
  EXPECT_EQ(again.block_ids, trace.block_ids);
  EXPECT_EQ(again.unique_blocks, trace.unique_blocks);
  EXPECT_EQ(again.session_count, trace.session_count);
  EXPECT_EQ(again.duration_s, trace.duration_s);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    EXPECT_EQ(again.requests[i].arrival_ns, trace.requests[i].arrival_ns);
    EXPECT_EQ(again.requests[i].input_tokens, trace.requests[i].input_tokens);
    EXPECT_EQ(again.requests[i].output_tokens, trace.requests[i].output_tokens);
    EXPECT_EQ(again.requests[i].session, trace.requests[i].session);
    EXPECT_EQ(again.requests[i].turn, trace.requests[i].turn);
  }
}

TEST(Tiercel, ARequestCountThatDoesNotAgreeMeansATruncatedFile) {
  const auto trace =
      parse_trace("t.trace",
                  "{\"schema\":\"tiercel.trace/1\",\"block_tokens\":0,\"requests\":2}\n"
                  "{\"arrival_ns\":3,\"input_tokens\":9,\"output_tokens\":2}\n",
                  {.skip_bad = true});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Errc::corrupt);
  EXPECT_NE(trace.error().what.find("holds 1 requests where its header says 2"), std::string::npos);
}

TEST(Tiercel, AnUnusableHeaderIsNeverSkipped) {
  for (const char* header :
       {"{\"schema\":\"tiercel.trace/2\",\"block_tokens\":4}", "{\"schema\":\"tiercel.trace/1\"}",
        "{\"schema\":7,\"block_tokens\":4}", "{\"schema\":\"tiercel.trace/1\",\"block_tokens\":-4}",
        "{\"schema\":\"tiercel.trace/1\",\"block_tokens\":4,\"color\":1}"}) {
    const auto trace =
        parse_trace("t.trace",
                    std::string(header) +
                        "\n{\"arrival_ns\":3,\"input_tokens\":0,\"output_tokens\":2,\"blocks\":[]}",
                    {.skip_bad = true});
    ASSERT_FALSE(trace) << header;
    EXPECT_EQ(trace.error().what.find("t.trace:1: "), 0U) << trace.error().what;
  }
}

TEST(Azure, TimesCountFromTheFirstAndNothingIsKnownAboutReuse) {
  const Trace trace = must_parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-12-31 23:59:59.5000000,374,44\r\n"
      "2024-01-01 00:00:00.2500000,396,109\r\n2024-02-29T00:00:00Z,1,0\r\n");
  EXPECT_EQ(trace.format, "azure");
  EXPECT_FALSE(trace.has_blocks);
  EXPECT_EQ(trace.block_tokens, 0U);
  ASSERT_EQ(trace.requests.size(), 3U);
  EXPECT_EQ(trace.requests[0].arrival_ns, 0);
  EXPECT_EQ(trace.requests[1].arrival_ns, 750'000'000);
  EXPECT_EQ(trace.requests[2].arrival_ns, (59 * std::int64_t{86'400} * 2 + 1) * 500'000'000);
  EXPECT_EQ(trace.requests[1].input_tokens, 396U);
  EXPECT_EQ(trace.session_count, 3U);
}

TEST(Azure, AnotherHeaderIsRefused) {
  const auto trace =
      parse_trace("t.csv", "TIMESTAMP,Tokens\n2023-12-31 23:59:59,374\n", {.skip_bad = true});
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().what.find("t.csv:1: the header is not"), std::string::npos);
}

TEST(Detect, ContentDecidesAndWhatIsUnknownIsNamed) {
  for (const std::string& text : {std::string("\x7f"
                                              "ELF\x02\x01\x01 binary"),
                                  std::string("a,b,c\n1,2,3\n"), std::string("   \n\n")}) {
    const auto trace = parse_trace("t.bin", text, {.skip_bad = true});
    ASSERT_FALSE(trace);
    EXPECT_EQ(trace.error().code, Errc::invalid);
    EXPECT_NE(trace.error().what.find("known are Mooncake JSONL"), std::string::npos)
        << trace.error().what;
  }
  const auto json = parse_trace("t.json", "{\"a\": 1}", {});
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().what.find("t.json:1: field \"timestamp\": is missing"), std::string::npos)
      << json.error().what;
}

TEST(Detect, AByteOrderMarkIsRefusedWithItsRemedy) {
  const auto trace =
      parse_trace("t.jsonl", std::string("\xef\xbb\xbf") + kMooncake, {.skip_bad = true});
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().what.find("t.jsonl:1: starts with a UTF-8 byte order mark; remove it"),
            std::string::npos);
}

TEST(Detect, OneOfEachWhenBadLinesAreSkippedMustStayValid) {
  const auto trace =
      parse_trace("t.jsonl", "{\"timestamp\": 0}\n{\"hash_ids\": 1}\n", {.skip_bad = true});
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().what.find("no valid request (2 malformed entries skipped)"),
            std::string::npos);
}

TEST(Options, ZeroUsersOrStepsAreRefused) {
  EXPECT_FALSE(parse_trace("t.jsonl", kMooncake, {.weka_users = 0}));
  EXPECT_FALSE(parse_trace("t.jsonl", kMooncake, {.every = 0}));
}

}  // namespace
}  // namespace tiercel
