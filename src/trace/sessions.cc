#include "trace/sessions.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace tiercel {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void derive_sessions(Trace& trace) {
  std::vector<std::uint32_t> ended_by(trace.unique_blocks, kNone);
  std::vector<std::uint32_t> continuations(trace.unique_blocks, 0);
  std::vector<std::uint32_t> continued_block(trace.requests.size(), kNone);
  // Ids are numbered by first appearance: those from here on are still to come. Partial blocks are
  // unique to the prompt that ends in them, so having brought one does not matter.
  std::uint32_t next_new = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const Request& request = trace.requests[i];
    const auto blocks = trace.blocks(request);
    const auto full = blocks.first(
        std::min<std::size_t>(blocks.size(), request.input_tokens / trace.block_tokens));
    for (std::size_t k = full.size(); k-- > 0;) {
      if (ended_by[full[k]] == kNone) continue;
      continued_block[i] = full[k];
      ++continuations[full[k]];
      break;
    }
    if (!full.empty() && full.back() >= next_new)
      ended_by[full.back()] = static_cast<std::uint32_t>(i);
    for (const std::uint32_t id : blocks) next_new = std::max(next_new, id + 1);
  }

  trace.session_count = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    Request& request = trace.requests[i];
    const std::uint32_t block = continued_block[i];
    if (block == kNone || continuations[block] > kTemplateContinuations) {
      request.session = trace.session_count++;
      request.turn = 1;
    } else {
      const Request& earlier = trace.requests[ended_by[block]];
      request.session = earlier.session;
      request.turn = earlier.turn + 1;
    }
  }
}

void number_turns(Trace& trace, std::uint32_t session_count) {
  std::vector<std::uint32_t> turns(session_count, 0);
  for (Request& request : trace.requests) request.turn = ++turns[request.session];
  trace.session_count = session_count;
}

void separate_sessions(Trace& trace) {
  trace.session_count = 0;
  for (Request& request : trace.requests) {
    request.session = trace.session_count++;
    request.turn = 1;
  }
}

}  // namespace tiercel
