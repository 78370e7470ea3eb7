// What of this machine a store would use, what not, and why: the self-test behind `tiercel doctor` (R11).
//
// Shape   One finding per thing asked. `used`: found and taken by default. `unavailable`: not there or not usable here; the
//         detail says why and what happens instead. `warning`: usable, but not as one would wish. `failed`: this placement
//         cannot run here.
// Touches The directory gets one file of a few pages, which is removed again; nothing else is written.
// Threads Pure, apart from what it asks the system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/disk.h"

namespace tiercel {

enum class FindingStatus : std::uint8_t { used, unavailable, warning, failed };
const char* finding_status_name(FindingStatus status);

struct Finding {
  std::string name;  // "direct I/O", "ring", ...
  FindingStatus status = FindingStatus::used;
  std::string detail;
};

struct SelfTestOptions {
  std::string
      directory;  // Of the cold tier; need not exist, then its nearest existing parent is asked.
  std::string filesystem;        // As the caller names it: "ext4", "tmpfs", "nfs", ...
  std::uint64_t cold_bytes = 0;  // 0: no cold tier; then nothing about the disk is asked.
  std::uint64_t segment_bytes = 0;
  std::uint64_t reusable_bytes =
      0;  // What a store that lies there already takes: it is free to this placement.
  std::uint64_t memory_bytes = 0;  // Of all tiers and staging.
  std::string root;                // Before /sys, /proc and /dev: for tests.
};

std::vector<Finding> self_test(Disk& disk, const SelfTestOptions& options);

}  // namespace tiercel
