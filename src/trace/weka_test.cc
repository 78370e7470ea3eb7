// Weka sessions: merging, sub-agents, gaps, and how sessions are composed into one stream.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "trace/read_trace.h"

namespace tiercel {
namespace {

using Ids = std::vector<std::uint32_t>;

Trace must_parse(const std::string& text, const TraceOptions& options = {}) {
  auto trace = parse_trace("t.tar", text, options);
  EXPECT_TRUE(trace) << trace.error().what;
  return trace ? *std::move(trace) : Trace{};
}

Ids ids_of(const Trace& trace, std::size_t index) {
  const auto blocks = trace.blocks(trace.requests[index]);
  return {blocks.begin(), blocks.end()};
}

std::vector<double> arrivals_s(const Trace& trace) {
  std::vector<double> at_s;
  for (const Request& request : trace.requests)
    at_s.push_back(static_cast<double>(request.arrival_ns) / 1e9);
  return at_s;
}

std::vector<std::uint32_t> sessions_of(const Trace& trace) {
  std::vector<std::uint32_t> sessions;
  for (const Request& request : trace.requests) sessions.push_back(request.session);
  return sessions;
}

// A Weka request: ids first, first + 1, ...; one per full 64 tokens.
std::string weka_request(double t, int tokens, int first_id) {
  std::string ids;
  for (int i = 0; i < tokens / 64; ++i) ids += fmt::format("{}{}", i > 0 ? "," : "", first_id + i);
  return fmt::format(R"({{"t":{},"type":"s","in":{},"out":3,"hash_ids":[{}],"stop":""}})", t,
                     tokens, ids);
}

std::string weka_session(const std::string& requests) {
  return fmt::format(
      R"({{"id":"x","block_size":64,"hash_id_scope":"local","requests":[{}],"totals":{{}}}})",
      requests);
}

TEST(Weka, MergesEightIdsToABlockNamedByTheLastAndDropsTheRest) {
  // 1,100 tokens: 17 ids, two full groups. The second request's first group ends in another id.
  const Trace trace =
      must_parse(weka_session(weka_request(0, 1100, 1) + "," + weka_request(1, 600, 1) + "," +
                              weka_request(2, 512, 2) + "," + weka_request(3, 500, 1)));
  EXPECT_EQ(trace.format, "weka");
  EXPECT_EQ(trace.block_tokens, 512U);
  EXPECT_EQ(ids_of(trace, 0), (Ids{0, 1}));
  EXPECT_EQ(ids_of(trace, 1), (Ids{0}));
  EXPECT_EQ(ids_of(trace, 2), (Ids{2}));
  EXPECT_EQ(ids_of(trace, 3), Ids{});
  EXPECT_EQ(trace.requests[0].input_tokens, 1100U);
  EXPECT_EQ(trace.session_count, 1U);
  EXPECT_EQ(trace.requests[3].turn, 4U);
}

TEST(Weka, SubAgentsCountFromTheirMarkerAndLongGapsAreCut) {
  const std::string subagent = "{\"t\":10,\"type\":\"subagent\",\"requests\":[" +
                               weka_request(5, 512, 1) + "," + weka_request(2000, 512, 1) + "]}";
  const Trace trace = must_parse(
      weka_session(weka_request(0, 512, 1) + "," + subagent + "," + weka_request(12, 512, 1)));
  ASSERT_EQ(trace.requests.size(), 4U);
  EXPECT_EQ(arrivals_s(trace),
            (std::vector<double>{0, 12, 15, 615}));  // 2010 is 1995 s after 15: cut to 600.
}

// One regular file in a tar: header, content, padding to 512 bytes.
std::string tar_entry(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  const auto put = [&header](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  char size[12];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  put(0, name);
  put(100, "0000644");
  put(124, size);
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  put(148, std::string(checksum, 7) + " ");
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string tar_of(const std::vector<std::string>& sessions) {
  std::string tar = tar_entry("traces/README.txt", "not a session");
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    tar += tar_entry("traces/trace_" + std::to_string(i) + ".json", sessions[i]);
  }
  return tar + std::string(1024, '\0');
}

// A session of two requests `length` seconds apart.
std::string two_requests(double length) {
  return weka_session(weka_request(0, 512, 1) + "," + weka_request(length, 1024, 1));
}

TEST(WekaTar, SessionsGoToTheUserWhoIsFreeFirstFiveSecondsLater) {
  // Two users. User 0: 0-100, user 1: 7-27 (free first: 27 + 5 = 32, to 62), then user 1 again (62 + 5 = 67).
  const Trace trace =
      must_parse(tar_of({two_requests(100), two_requests(20), two_requests(30), two_requests(1)}),
                 {.weka_users = 2});
  EXPECT_EQ(arrivals_s(trace), (std::vector<double>{0, 7, 27, 32, 62, 67, 68, 100}));
  EXPECT_EQ(sessions_of(trace), (std::vector<std::uint32_t>{0, 1, 1, 2, 2, 3, 3, 0}));
  EXPECT_EQ(trace.session_count, 4U);
  EXPECT_EQ(trace.unique_blocks, 8U);
  EXPECT_EQ(ids_of(trace, 0), (Ids{0}));
  EXPECT_EQ(ids_of(trace, 1), (Ids{1})) << "ids are local to a session";
  EXPECT_EQ(ids_of(trace, 2), (Ids{1, 2}));
  EXPECT_EQ(ids_of(trace, 7), (Ids{0, 7}))
      << "numbered by first appearance in time, not by session";
}

TEST(WekaTar, AFirstSessionWaitsForItsUserEvenWhereAnotherIsFree) {
  const Trace trace =
      must_parse(tar_of({two_requests(1), two_requests(1), two_requests(1)}), {.weka_users = 64});
  EXPECT_EQ(arrivals_s(trace), (std::vector<double>{0, 1, 7, 8, 14, 15}));
}

TEST(WekaTar, TiesGoToTheLowerUserAndEqualTimesKeepTheOrderOfSessions) {
  // Both users end at 17; session 2 goes to user 0 and session 3 to user 1, at the same times.
  const Trace trace =
      must_parse(tar_of({two_requests(17), two_requests(10), two_requests(2), two_requests(2)}),
                 {.weka_users = 2});
  EXPECT_EQ(arrivals_s(trace), (std::vector<double>{0, 7, 17, 17, 22, 22, 24, 24}));
  EXPECT_EQ(sessions_of(trace), (std::vector<std::uint32_t>{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(WekaTar, EveryTakesPositionsOfTheArchive) {
  const Trace trace =
      must_parse(tar_of({two_requests(1), two_requests(2), two_requests(3), two_requests(4)}),
                 {.weka_users = 1, .every = 3});
  EXPECT_EQ(arrivals_s(trace), (std::vector<double>{0, 1, 6, 10}));
}

TEST(WekaTar, ABadSessionIsNamedOrCountedAndTheOthersStay) {
  const std::string tar = tar_of({two_requests(1), weka_session("{\"t\":-1}"), two_requests(3)});
  const auto strict = parse_trace("w.tar", tar, {});
  ASSERT_FALSE(strict);
  EXPECT_NE(strict.error().what.find(
                "w.tar(traces/trace_1.json): requests[0]: field \"t\": -1 is negative"),
            std::string::npos)
      << strict.error().what;
  const Trace trace = must_parse(tar, {.skip_bad = true, .weka_users = 1});
  EXPECT_EQ(trace.skipped_lines, 1U);
  EXPECT_EQ(arrivals_s(trace), (std::vector<double>{0, 1, 6, 9}));
}

TEST(WekaTar, ATruncatedOrDamagedTarIsCorruptEvenWhenSkipping) {
  const std::string tar = tar_of({two_requests(1), two_requests(2)});
  const auto truncated = parse_trace("w.tar", tar.substr(0, 512 * 5 + 100), {.skip_bad = true});
  ASSERT_FALSE(truncated);
  EXPECT_EQ(truncated.error().code, Errc::corrupt);
  EXPECT_EQ(truncated.error().what.find("w.tar: tar is damaged"), 0U) << truncated.error().what;
  std::string damaged = tar;
  damaged[1024 + 130] ^= 1;  // The size in the second header: its checksum no longer agrees.
  const auto flipped = parse_trace("w.tar", damaged, {.skip_bad = true});
  ASSERT_FALSE(flipped);
  EXPECT_EQ(flipped.error().code, Errc::corrupt);
}

TEST(WekaTar, ASessionBeyondTheLimitIsPassedOverInBoundedMemory) {
  const std::string tar =
      tar_of({two_requests(1), std::string((64 << 20) + 1, ' '), two_requests(3)});
  const auto strict = parse_trace("w.tar", tar, {});
  ASSERT_FALSE(strict);
  EXPECT_NE(strict.error().what.find("is larger than 64 MiB"), std::string::npos)
      << strict.error().what;
  EXPECT_EQ(must_parse(tar, {.skip_bad = true}).requests.size(), 4U);
}

TEST(WekaTar, WithoutSessionsHoldsNoRequest) {
  const auto trace = parse_trace("w.tar", tar_of({}), {});
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().what.find("holds no valid request"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
