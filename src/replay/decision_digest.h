// The hash of what an executor did: SHA-256 over one line per action as executed.
//
// Line    "time_ns action key from to segment offset\n": key in hex ("-" where the action has no block), tiers by name, and
//         the place on the far side: where a store, move or compute went, where a load, drop, seal or reclaim came from.
// Order   An action without a completion when it is carried out, one with a completion when that is over.
// Threads one thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/sha256.h"
#include "cache/action.h"

namespace tiercel {

class DecisionDigest {
 public:
  DecisionDigest() = default;
  void add(const Action& executed);
  std::string finish();  // Hex. Ends it.

 private:
  Sha256 hash_;
  // Lines are put together by hand and hashed in batches: a general formatter and a call of the hash per line took a third of
  // a whole simulation.
  std::array<char, 64 * 1024> buffer_;
  std::size_t used_ = 0;
};

}  // namespace tiercel
