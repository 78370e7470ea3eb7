// Sessions of a Cache: what suspend() writes and resume() restores. Cache (tiercel/tiercel.hpp) has the calls.
//
//     options.session_bytes = 8ULL << 30;                                  // Of cold_bytes.
//     cache->suspend("evening", chain, {.position = chain.size(), .blocks = blocks, .tokens = tokens, .state = state});
//     auto session = cache->resume("evening", 5s);                         // Next morning, in another process.
//     cache->load(*session, destinations, on_block);                       // Blocks in prefix order.
//
// Durable  suspend() returns once the session is durable, whole: blocks of every kind that a match at `position` needs, the
//          partial tail included, tokens, state. On any error the session is as it was before. A suspend of the same name
//          supersedes the session; blocks that it or others have already are not written again.
// Kept     Until forget() or the end of its ttl, whatever the cache traffic: sessions have a share of the disk of their own
//          (CacheOptions::session_bytes). Beyond it suspend() fails with no_space.
// Verified Whenever it is read, and all at once by `tiercel verify`; the scrub in the background does not read sessions.
// Yours    A session belongs to the model that made it: block_tokens, kinds and fingerprints must be those of the cache.
// Threads  Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tiercel/names.hpp"
#include "tiercel/result.hpp"
#include "tiercel/transfer.hpp"

namespace tiercel {

struct Suspension {
  std::uint32_t position = 0;  // Blocks of the chain that it covers.
  // Where their bytes lie. Blocks that some session or the cache holds may be left out; what position does not need is.
  std::vector<PutBlock> blocks = {};
  std::span<const std::uint32_t> tokens = {};    // Come back as they are.
  std::span<const std::byte> state = {};         // The engine's own, any bytes.
  std::optional<std::chrono::seconds> ttl = {};  // By wall time; > 0. None: until forget().
};

struct SessionInfo {
  std::string name;
  std::uint64_t version = 0;  // How often it was suspended.
  std::int64_t created_unix_s = 0, updated_unix_s = 0;
  std::optional<std::int64_t> expires_unix_s;
  std::uint32_t block_tokens = 0;
  std::uint32_t position = 0;
  std::uint64_t token_count = 0;  // In the blocks before position.
  std::uint64_t blocks = 0;       // Records of all kinds.
  std::uint64_t bytes = 0;        // Payload of blocks, tokens and state.
  std::uint64_t missing =
      0;  // Blocks and pieces that proved bad: 0 = whole, as far as anybody knows.
};

enum class SessionTier : std::uint8_t { session, warm };

struct PlannedBlock {
  std::uint16_t kind = 0;   // Kind::id.
  std::uint32_t index = 0;  // Block of the chain.
  std::uint32_t token_count = 0;
  std::uint64_t bytes = 0;  // What its destination must hold.
  SessionTier tier =
      SessionTier::session;  // Where it lay; one that leaves warm meanwhile comes from the session.
  Key key;
};

// What a session brings back, and the plan of its loads.
struct Resumption {
  SessionInfo info;
  std::vector<PlannedBlock> plan;  // In prefix order.
  std::vector<std::uint32_t> tokens;
  std::vector<std::byte> state;
  // Of loading the whole plan; nullopt while nothing is known of the disk.
  std::optional<double> estimate_s;
  std::string
      basis;  // "measured": from the link that the session's disk had so far; else why there is none.
  std::int64_t deadline_ns = 0;  // Of the loads too, on a clock of the cache's.
};

// Tells of one block of the plan, in prefix order, on the thread that called load(). Must not call the cache.
using OnBlock = std::function<void(std::uint32_t block, Outcome outcome, const Error& error)>;

}  // namespace tiercel
