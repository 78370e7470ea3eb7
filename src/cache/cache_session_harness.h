// What the tests of sessions through the library door share: suspensions from the caller's memory, loads that look at every byte.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/cache_harness.h"

namespace tiercel {

inline CacheOptions with_sessions(CacheOptions options) {
  options.cold_bytes = 24 << 20;
  options.session_bytes = 8 << 20;
  return options;
}

// A suspension of all that `position` needs, from the caller's own memory.
struct Bedtime {
  Prepared prepared;
  std::vector<std::uint32_t> tokens;
  std::vector<std::byte> state;
  Suspension suspension;
};

inline Bedtime bedtime(const CacheOptions& options, const Chain& chain, bool with_blocks = true) {
  Bedtime bed;
  bed.tokens = tokens_of(77, 100);
  bed.state = content_of(chain.key(0, 0), 70'000);
  if (with_blocks) bed.prepared = prepare(options, chain, 0, chain.size());
  bed.suspension = {.position = chain.size(),
                    .blocks = bed.prepared.transaction.blocks,
                    .tokens = bed.tokens,
                    .state = bed.state};
  return bed;
}

struct Loaded {
  std::size_t delivered = 0, missed = 0, failed = 0, wrong = 0;
  std::vector<std::uint32_t> failed_blocks;
  Errc error = Errc::invalid;
};

// Loads the whole plan, destinations in reverse order; looks at the order of the calls and at every byte.
inline Loaded load_all(Cache& cache, const Resumption& resumption) {
  const std::size_t count = resumption.plan.size();
  std::vector<std::vector<std::byte>> memory;
  std::vector<Destination> destinations;
  for (std::size_t n = 0; n < count; ++n) {
    const auto block = static_cast<std::uint32_t>(count - 1 - n);
    const std::span<std::byte> all(memory.emplace_back(resumption.plan[block].bytes));
    destinations.push_back(
        {.block = block, .memory = {host_piece(all.first(33)), host_piece(all.subspan(33))}});
  }
  Loaded loaded;
  std::uint32_t next = 0;
  const auto finished = cache.load(
      resumption, destinations, [&](std::uint32_t block, Outcome outcome, const Error& error) {
        EXPECT_EQ(block, next++) << "in prefix order";
        if (outcome == Outcome::miss) ++loaded.missed;
        if (outcome == Outcome::error) {
          ++loaded.failed;
          loaded.failed_blocks.push_back(block);
          loaded.error = error.code;
        }
        if (outcome != Outcome::delivered) return;
        ++loaded.delivered;
        const PlannedBlock& planned = resumption.plan[block];
        if (memory[count - 1 - block] != content_of(planned.key, planned.bytes)) ++loaded.wrong;
      });
  EXPECT_TRUE(finished) << finished.error().what;
  EXPECT_EQ(next, count);
  return loaded;
}

inline void expect_resumes(Cache& cache, const std::string& name, const Bedtime& bed,
                           std::size_t blocks) {
  const auto resumption = cache.resume(name);
  ASSERT_TRUE(resumption) << resumption.error().what;
  EXPECT_EQ(resumption->tokens, bed.tokens);
  EXPECT_EQ(resumption->state, bed.state);
  EXPECT_EQ(resumption->info.missing, 0U);
  ASSERT_EQ(resumption->plan.size(), blocks);
  const Loaded loaded = load_all(cache, *resumption);
  EXPECT_EQ(loaded.delivered, blocks);
  EXPECT_EQ(loaded.wrong, 0U);
}

}  // namespace tiercel
