// What the options of a Cache come to: sizes and geometry, or one sentence that says what contradicts what.
//
// Threads Pure, apart from a look at the directory.
#pragma once

#include "cache/core.h"
#include "io/disk.h"
#include "tiercel/tiercel.hpp"

namespace tiercel {

struct CachePlan {
  std::uint64_t record_bytes_max = 0;  // Physical, of the largest full block.
  std::uint64_t warm_bytes = 0;        // Whole pages.
  std::uint64_t staging_bytes = 0;
  bool has_cold = false;
  std::uint64_t cold_bytes = 0;  // Of the cache class: without the share of sessions.
  SegmentGeometry geometry;      // Of the store that is there, or of the one to be made.
};

// Errors: invalid  names the option and what would do.
Result<CachePlan> plan_cache(const CacheOptions& options, Disk& disk);

}  // namespace tiercel
