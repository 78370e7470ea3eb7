// The search for the longest position, against the definition itself.
#include "cache/match.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tiercel {
namespace {

// The definition, word for word, token by token.
bool can_serve(const std::vector<Kind>& kinds, const ChainShape& shape,
               const std::vector<std::vector<bool>>& resident, std::uint32_t position) {
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    for (std::uint32_t block = 0; block < position; ++block) {
      bool needed = true;
      if (kinds[k].reach == Reach::last) needed = block + 1 == position;
      if (kinds[k].reach == Reach::window) {
        needed = false;
        for (std::uint64_t token = shape.tokens_before(block);
             token < shape.tokens_before(block + 1); ++token) {
          needed = needed || token + kinds[k].window_tokens >= shape.tokens_before(position);
        }
      }
      if (needed && !resident[k][block]) return false;
    }
  }
  return true;
}

TEST(Match, FindsTheLongestPositionThatTheDefinitionAllows) {
  std::uint64_t inside = 0, with_last = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    ChainShape shape;
    shape.block_count = static_cast<std::uint32_t>(rng.below(14));
    shape.block_tokens = static_cast<std::uint32_t>(1 + rng.below(5));
    shape.last_tokens = static_cast<std::uint32_t>(1 + rng.below(shape.block_tokens));
    std::vector<Kind> kinds;
    for (std::uint16_t id = 0, n = static_cast<std::uint16_t>(1 + rng.below(4)); id < n; ++id) {
      const auto reach = static_cast<Reach>(rng.below(3));
      kinds.push_back({.id = id,
                       .reach = reach,
                       .window_tokens = reach == Reach::window
                                            ? static_cast<std::uint32_t>(1 + rng.below(20))
                                            : 0});
    }
    const double density = rng.chance(0.5) ? 0.95 : 0.6;
    std::vector<std::vector<bool>> resident(kinds.size());
    for (auto& row : resident) {
      for (std::uint32_t b = 0; b < shape.block_count; ++b) row.push_back(rng.chance(density));
    }
    std::vector<std::vector<int>> asked(kinds.size(), std::vector<int>(shape.block_count, 0));
    const std::uint32_t found =
        match_position(kinds, shape, [&](std::size_t k, std::uint32_t block) {
          ++asked[k][block];
          return static_cast<bool>(resident[k][block]);
        });
    std::uint32_t expected = shape.block_count;
    while (!can_serve(kinds, shape, resident, expected)) --expected;
    ASSERT_EQ(found, expected);
    for (const auto& row : asked) {
      for (const int times : row) ASSERT_LE(times, 1);
    }
    // What a match lists is what it needs: nothing of it is missing, and without any one of it the position would not stand.
    for (std::size_t k = 0; k < kinds.size() && found > 0; ++k) {
      for (std::uint32_t block = first_needed(kinds[k], shape, found); block < found; ++block) {
        auto less = resident;
        ASSERT_TRUE(less[k][block]);
        less[k][block] = false;
        ASSERT_FALSE(can_serve(kinds, shape, less, found));
      }
    }
    inside += found > 0 && found < shape.block_count ? 1 : 0;
    for (const Kind& kind : kinds) with_last += kind.reach == Reach::last && found > 0 ? 1 : 0;
  }
  EXPECT_GT(inside, 300U) << "the cases are too easy";
  EXPECT_GT(with_last, 300U);
}

TEST(Match, WithoutALastRecordAPositionIsNoCandidate) {
  const std::vector<Kind> kinds = {{.id = 0}, {.id = 1, .reach = Reach::last}};
  const ChainShape shape{.block_count = 6, .block_tokens = 4, .last_tokens = 2};
  // Attention up to 5, states after blocks 1 and 5.
  const auto resident = [](std::size_t kind, std::uint32_t block) {
    return kind == 0 ? block < 5 : block == 1 || block == 5;
  };
  EXPECT_EQ(match_position(kinds, shape, resident), 2U);
  EXPECT_EQ(match_position(std::span(kinds).first(1), shape, resident), 5U);
}

}  // namespace
}  // namespace tiercel
