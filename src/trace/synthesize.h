// Synthetic traces from published statistics: for whoever has no trace at hand, and for tests that need many.
//
//   conversation  chat requests like the Mooncake conversation trace: its rate and bursts, prompt and answer lengths,
//                 sessions, gaps between turns and shared prefixes. No line of that trace is in it, only the figures that
//                 docs/formats/traces.md lists beside what comes out.
//
// Same kind, seed and count give the same trace, byte for byte once written, on every machine.
// Threads pure function.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "trace/request.h"

namespace tiercel {

struct SynthOptions {
  std::string kind = "conversation";
  std::uint64_t seed = 1;
  std::uint32_t requests =
      0;  // 0: as many as the published trace (12,031, about an hour). The rate does not change.
};

// Errors  invalid  an unknown kind (the message names those that exist) or too many requests
Result<Trace> synthesize(const SynthOptions& options);

}  // namespace tiercel
