// Sessions derived from blocks: prefix extension, branches, templates.
#include "trace/sessions.h"

#include <gtest/gtest.h>

namespace tiercel {
namespace {

// A trace of 10-token blocks; each prompt a list of dense ids, the last one partial where `partial`.
struct Prompt {
  std::vector<std::uint32_t> ids;
  bool partial = true;
};

Trace trace_of(const std::vector<Prompt>& prompts) {
  Trace trace;
  trace.block_tokens = 10;
  trace.has_blocks = true;
  for (const Prompt& prompt : prompts) {
    const auto count = static_cast<std::uint32_t>(prompt.ids.size());
    trace.requests.push_back({.input_tokens = count * 10 - (prompt.partial ? 3 : 0),
                              .block_first = trace.block_ids.size(),
                              .block_count = count});
    for (const std::uint32_t id : prompt.ids) {
      trace.block_ids.push_back(id);
      trace.unique_blocks = std::max<std::uint64_t>(trace.unique_blocks, id + 1);
    }
  }
  derive_sessions(trace);
  return trace;
}

using Numbers = std::vector<std::uint32_t>;

Numbers sessions(const Trace& trace) {
  Numbers out;
  for (const Request& request : trace.requests) out.push_back(request.session);
  return out;
}

Numbers turns(const Trace& trace) {
  Numbers out;
  for (const Request& request : trace.requests) out.push_back(request.turn);
  return out;
}

TEST(Sessions, APromptContinuesTheOneWhoseFullBlocksItExtends) {
  const Trace trace = trace_of({{{0, 1, 2}}, {{0, 1, 3, 4}}, {{0, 1, 3, 5, 6}}});
  EXPECT_EQ(sessions(trace), (Numbers{0, 0, 0}));
  EXPECT_EQ(turns(trace), (Numbers{1, 2, 3}));
}

TEST(Sessions, SharingOnlyPartOfAPromptIsNoContinuation) {
  // The first ends in block 2 (full), the second leaves it at block 1.
  const Trace trace = trace_of({{{0, 1, 2, 3}}, {{0, 1, 4, 5}}});
  EXPECT_EQ(trace.session_count, 2U);
}

TEST(Sessions, APartialBlockEndsNothing) {
  // Full block of the first: 0. The second continues it from there, not from the partial block 1.
  const Trace trace = trace_of({{{0, 1}}, {{0, 2, 3}}});
  EXPECT_EQ(turns(trace), (Numbers{1, 2}));
  EXPECT_EQ(trace_of({{{0}}, {{1, 2}}}).session_count, 2U);
}

TEST(Sessions, BranchesShareASessionAndTheirTurn) {
  const Trace trace = trace_of({{{0, 1}, false}, {{0, 1, 2}, false}, {{0, 1, 3}, false}});
  EXPECT_EQ(sessions(trace), (Numbers{0, 0, 0}));
  EXPECT_EQ(turns(trace), (Numbers{1, 2, 2}));
}

TEST(Sessions, OnlyWhoBroughtABlockEndsIt) {
  // Block 1 came with the first prompt, which goes on to block 2; the second merely stops there.
  const Trace trace = trace_of({{{0, 1, 2}, false}, {{0, 1}, false}, {{0, 1, 3}, false}});
  EXPECT_EQ(trace.session_count, 3U);
}

TEST(Sessions, ABlockContinuedByMoreThanThirtyRequestsIsATemplate) {
  for (const std::uint32_t continuations : {30U, 31U}) {
    std::vector<Prompt> prompts = {{{0}, false}};
    for (std::uint32_t i = 1; i <= continuations; ++i) prompts.push_back({{0, i}, true});
    const Trace trace = trace_of(prompts);
    EXPECT_EQ(trace.session_count, continuations == 30 ? 1U : 32U);
  }
}

}  // namespace
}  // namespace tiercel
