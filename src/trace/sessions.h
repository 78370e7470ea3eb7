// Sessions: who continues whom. Given by some formats, derived from the blocks for the others.
//
// Rule    A block is *ended* by the request that first brought it, where it is the last full block of that request. A
//         request continues the one that ended the deepest of its own full blocks. A block that more than 30 requests
//         continue is a template (a system prompt sent alone, say): those start sessions of their own. A session is a
//         tree: turn = turn of the request continued + 1, so two branches of one session share turns.
// Source  docs/formats/traces.md, section "mooncake"; shared_traces_test.cc holds the counts on the published trace.
#pragma once

#include <cstdint>

#include "trace/request.h"

namespace tiercel {

inline constexpr std::uint32_t kTemplateContinuations = 30;

// Sets session and turn of every request and session_count. Needs blocks.
void derive_sessions(Trace& trace);

// Sets turn = 1-based position within the session as given, and session_count = sessions in use (dense already).
void number_turns(Trace& trace, std::uint32_t session_count);

// One session per request: the format says nothing.
void separate_sessions(Trace& trace);

}  // namespace tiercel
