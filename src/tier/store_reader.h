// A cold store as a reader sees it, for inspect and verify: nothing is written, no lock is taken from its owner.
//
// inspect reads superblock, headers and footers, and walks segments without one. A store in use may be inspected: what is
//         being written at the time may look torn, and `holder` says who writes.
// verify  reads every byte of every record, header and footer, and compares footers with what lies on the disk; in a segment
//         without footer it tells of holes between records, in the store of gaps in the numbers of its segments. It keeps
//         writers out meanwhile, so a store in use is refused (busy). What is quarantined is known to be bad: it is listed with
//         its reason and is no new damage.
// Threads One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/disk.h"
#include "tier/segment_scan.h"
#include "tier/store_directory.h"

namespace tiercel {

struct SegmentReport {
  std::uint32_t segment = 0;
  std::uint64_t allocated_bytes = 0;
  SegmentScan scan;
};

struct StoreReport {
  Superblock superblock;
  std::string holder;  // Why the lock was not to be had; empty where nobody writes.
  std::uint64_t physical_bytes = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t records = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t damaged =
      0;  // Records, headers, footers, checkpoints and files that are not as they were written, or missing.
  // Places of present lives, with the reason and the time; no record there counts, whatever it looks like now.
  std::vector<QuarantinedPlace> quarantined;
  std::uint64_t checkpoint_sequence = 0;  // Of the newest good checkpoint; 0: there is none.
  std::vector<std::string>
      complaints;  // One sentence per damage, as far as kComplaintsMax per segment goes.
  std::vector<std::string> other_files;  // Neither ours nor touched.
  std::vector<std::uint32_t>
      segment_numbers;  // Of all segment files, those of a wrong length included.
  std::vector<SegmentReport> segments;
};

enum class StoreReading : std::uint8_t { inspect, verify };

// Errors: invalid  no store of ours there, or of a newer version
//         corrupt  the superblock is damaged
//         busy     verify of a store in use
Result<StoreReport> read_store(Disk& disk, const std::string& path, StoreReading reading);

}  // namespace tiercel
