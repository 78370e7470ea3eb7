#include "trace/read_trace.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tiercel {
namespace {
std::string shared(const std::string& name) {
  const char* root = std::getenv("TIERCEL_SHARED");
  return (root != nullptr ? std::string(root) : std::string(TIERCEL_SOURCE_DIR "/../shared")) +
         "/traces/" + name;
}
TEST(ReadTrace, Mooncake) {
  const auto trace = read_trace(shared("mooncake_conversation_trace.jsonl.gz"), {});
  ASSERT_TRUE(trace) << trace.error().what;
  EXPECT_EQ(trace->requests.size(), 12031U);
  EXPECT_EQ(trace->block_ids.size(), 288500U);
  EXPECT_EQ(trace->unique_blocks, 182790U);
  EXPECT_EQ(trace->session_count, 8067U);
}
TEST(ReadTrace, Weka) {
  const auto trace = read_trace(shared("weka_claude_code.tar.zst"), {.every = 3});
  ASSERT_TRUE(trace) << trace.error().what;
  EXPECT_EQ(trace->requests.size(), 17274U);
  EXPECT_EQ(trace->block_ids.size(), 4122718U);
  EXPECT_EQ(trace->unique_blocks, 148855U);
  EXPECT_EQ(trace->session_count, 237U);
}
}  // namespace
}  // namespace tiercel
