// What the tests of Cache share: options of a small cache, blocks whose bytes follow from their key, puts and fetches of whole
// chains. Everything a fetch delivers is compared.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.h"
#include "tiercel/tiercel.hpp"

namespace tiercel {

inline constexpr std::uint32_t kTokens = 16;
inline constexpr std::uint16_t kFull = 0, kWindow = 1, kState = 2;

// A clock that a test moves, read by several threads.
class TestClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_.load(); }
  void advance(std::chrono::nanoseconds by) { now_ns_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_ns_ = 1;
};

inline Fingerprint fingerprint_of(const std::string& model) {
  return make_fingerprint(
      {.model_weights_id = model, .layout = Layout::opaque(1), .block_tokens = kTokens});
}

// One kind, reach all, 8,000 bytes a full block: not of whole pages, so that padding is exercised.
inline CacheOptions small_cache(const std::string& directory = "") {
  CacheOptions options;
  options.block_tokens = kTokens;
  options.kinds = {
      {.kind = {.id = kFull}, .fingerprint = fingerprint_of("m"), .bytes_per_token = 500}};
  options.warm_bytes = 4 << 20;
  options.sync_interval = std::chrono::milliseconds(20);
  if (!directory.empty()) {
    options.directory = directory;
    options.cold_bytes = 16 << 20;
    options.segment_bytes = 1 << 20;
  }
  return options;
}

inline CacheOptions hybrid_cache(const std::string& directory = "") {
  CacheOptions options = small_cache(directory);
  options.kinds.push_back({.kind = {.id = kWindow, .reach = Reach::window, .window_tokens = 40},
                           .fingerprint = fingerprint_of("w"),
                           .bytes_per_token = 64});
  options.kinds.push_back({.kind = {.id = kState, .reach = Reach::last},
                           .fingerprint = fingerprint_of("s"),
                           .bytes_per_block = 5000});
  return options;
}

inline Cache open_or_die(const CacheOptions& options) {
  auto cache = Cache::open(options);
  if (!cache) throw std::runtime_error(cache.error().what);
  return std::move(*cache);
}

inline std::vector<std::uint32_t> tokens_of(std::uint64_t prompt, std::size_t count) {
  std::vector<std::uint32_t> tokens(count);
  Rng rng(prompt + 1);
  for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(rng.next());
  return tokens;
}

// The bytes of a block: a stream seeded by its key.
inline std::vector<std::byte> content_of(const Key& key, std::uint64_t bytes) {
  std::vector<std::byte> content(bytes);
  Rng rng(key.low64());
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = rng.next();
    std::memcpy(content.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return content;
}

// A put of blocks [first, position) with the memory it reads from.
struct Prepared {
  Txn transaction;
  std::vector<std::vector<std::byte>> memory;
};

// Every kind that belongs into a transaction at `position`; sources are cut in two pieces.
inline Prepared prepare(const CacheOptions& options, const Chain& chain, std::uint32_t first,
                        std::uint32_t position) {
  Prepared prepared{.transaction = {.position = position}, .memory = {}};
  for (std::size_t k = 0; k < options.kinds.size(); ++k) {
    const CachedKind& cached = options.kinds[k];
    for (std::uint32_t i = first; i < position; ++i) {
      if (cached.kind.reach == Reach::last && i + 1 != position) continue;
      const auto& bytes = prepared.memory.emplace_back(
          content_of(chain.key(k, i), cached.block_bytes(chain.tokens_in(i))));
      const std::span<const std::byte> all(bytes);
      const std::size_t cut = std::min<std::size_t>(100, all.size());
      prepared.transaction.blocks.push_back(
          {.kind = cached.kind.id,
           .index = i,
           .source = {host_piece(all.first(cut)), host_piece(all.subspan(cut))}});
    }
  }
  return prepared;
}

inline PutOutcome put_chain(Cache& cache, const CacheOptions& options, const Chain& chain,
                            std::uint32_t first = 0) {
  const Prepared prepared = prepare(options, chain, first, chain.size());
  const auto ticket = cache.put(chain, prepared.transaction);
  if (!ticket) {
    ADD_FAILURE() << ticket.error().what;
    return PutOutcome::failed;
  }
  const auto finished = cache.wait(*ticket, std::chrono::seconds(30));
  if (!finished) {
    ADD_FAILURE() << finished.error().what;
    return PutOutcome::failed;
  }
  return finished->put;
}

// More than warm holds, of prompts 1000 and on: whatever nobody leases is in cold alone afterwards, or gone.
inline void push_out_of_warm(Cache& cache, const CacheOptions& options,
                             std::uint64_t prompts = 40) {
  for (std::uint64_t n = 1000; n < 1000 + prompts; ++n)
    put_chain(cache, options, cache.chain(tokens_of(n, 10 * kTokens)));
}

struct Fetched {
  std::uint32_t delivered = 0, missed = 0, failed = 0, wrong = 0;
};

// Fetches all blocks of a match and compares what is delivered.
inline Fetched fetch_match(Cache& cache, const Match& match) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Destination> destinations;
  for (std::uint32_t i = 0; i < match.blocks().size(); ++i) {
    const std::span<std::byte> all(memory.emplace_back(match.blocks()[i].bytes));
    destinations.push_back(
        {.block = i, .memory = {host_piece(all.first(33)), host_piece(all.subspan(33))}});
  }
  Fetched fetched;
  const auto ticket = cache.fetch(match, destinations);
  if (!ticket) {
    ADD_FAILURE() << ticket.error().what;
    return fetched;
  }
  const auto finished = cache.wait(*ticket, std::chrono::seconds(30));
  if (!finished) {
    ADD_FAILURE() << finished.error().what;
    return fetched;
  }
  for (std::uint32_t i = 0; i < match.blocks().size(); ++i) {
    const MatchedBlock& block = match.blocks()[i];
    switch (finished->blocks[i].outcome) {
      case Outcome::delivered:
        ++fetched.delivered;
        if (memory[i] != content_of(block.key, block.bytes)) ++fetched.wrong;
        break;
      case Outcome::miss:
        ++fetched.missed;
        break;
      case Outcome::error:
        ++fetched.failed;
        break;
    }
  }
  return fetched;
}

// Matches a chain and fetches what was found; returns the position.
inline std::uint32_t read_chain(Cache& cache, const Chain& chain) {
  auto match = cache.match(chain);
  if (!match) {
    ADD_FAILURE() << match.error().what;
    return 0;
  }
  const Fetched fetched = fetch_match(cache, *match);
  EXPECT_EQ(fetched.delivered, match->blocks().size());
  EXPECT_EQ(fetched.wrong, 0U);
  return match->position();
}

}  // namespace tiercel
