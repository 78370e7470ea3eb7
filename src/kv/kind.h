// What a block's state is, and how far back the engine needs it (its reach).
//
//   all        attention: position p needs every block before p
//   window(n)  sliding window: needs the blocks that hold the last n tokens before p
//   last       recurrent state: needs the one record that was taken at exactly p
//
// A model has one or several kinds (hybrid models); each block belongs to one of them.
#pragma once

#include <compare>
#include <cstdint>

namespace tiercel {

enum class Reach : std::uint8_t { all = 0, window = 1, last = 2 };

struct Kind {
  std::uint16_t id = 0;  // Chosen by the engine adapter; part of the key.
  Reach reach = Reach::all;
  std::uint32_t window_tokens = 0;  // Only for Reach::window, then > 0.

  auto operator<=>(const Kind&) const = default;
};

}  // namespace tiercel
