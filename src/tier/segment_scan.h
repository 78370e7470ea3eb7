// Reads a segment back: from its footer where that is good, else record by record. For restart, inspect and verify.
//
// Law     Only records of the segment's present life that verify are found. Where a record is damaged (a torn write, a flipped
//         bit) the walk goes on page by page until the next good head: one lost record never hides those behind it.
//         A good footer is trusted without reading records: it is written only after they are durable. So is what the
//         checkpoint lists of this very life; the walk then begins where its list ends.
//         A blank or damaged header hides nothing either: the segment's life is then the highest that a place echo, valid at
//         its own offset, or the footer tells of.
//         A quarantined place of the present life holds no record, whatever lies there.
// Cost    Footer: three reads. Walk: the whole segment once. Without a header: all of it once more.
// Threads One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/disk.h"
#include "tier/checkpoint_format.h"
#include "tier/segment_format.h"

namespace tiercel {

struct ScanOptions {
  StoreUuid store{};
  std::uint64_t segment_bytes = 0;
  std::uint64_t record_bytes_max = 0;
  bool walk_always = false;  // Verify: read every record although the footer is good, and compare.
  bool index_only = false;   // Where header and footer do not tell it all, say so and stop.
  const Checkpoint* checkpoint = nullptr;  // Its lists and its quarantined places; may be stale.
  bool believe_lists = true;  // False: the file was cut or grown, so what is listed may be gone.
  // Recovery: what the device refuses to read counts as damage, page by page, and is passed over.
  bool pass_over_unreadable = false;
};

enum class SegmentState : std::uint8_t {
  free,    // Preallocated, never used, or of no store of ours.
  open,    // Records, but no good footer.
  sealed,  // A good footer.
};

struct SegmentScan {
  SegmentState state = SegmentState::free;
  SegmentLife life;
  std::uint64_t data_end = kSegmentHeaderBytes;
  std::vector<FooterEntry> records;  // By offset.
  std::uint64_t torn = 0;            // Damaged records of this life.
  std::uint64_t footer_entries = 0;  // Of a good footer, quarantined ones included.
  std::uint64_t quarantined = 0;     // Places of this life under quarantine: left out of all else.
  std::uint64_t unreadable_pages = 0;  // Refused by the device, or given up after many refusals.
  bool needs_walk = false;  // Only with index_only: nothing else but bytes_read counts then.
  std::uint64_t holes =
      0;  // Of a walk without footer: places before a record where one is missing untold.
  bool header_damaged = false;  // Not good, and not blank in a segment without records.
  bool footer_damaged = false;  // There is one of this life, but not as it was written.
  // What verify tells of it, one sentence each; at most kComplaintsMax.
  std::vector<std::string> complaints;
  std::uint64_t bytes_read = 0;
};

inline constexpr std::size_t kComplaintsMax = 20;

// What scan_segment() needs as scratch memory, aligned to a page; and with index_only.
std::uint64_t scan_buffer_bytes(std::uint64_t record_bytes_max);
std::uint64_t index_buffer_bytes(std::uint64_t segment_bytes);

// Errors: io  the device refused, and pass_over_unreadable is not set; damage is not an error but a finding.
Result<SegmentScan> scan_segment(File& file, std::uint32_t segment, const ScanOptions& options,
                                 std::span<std::byte> buffer);

}  // namespace tiercel
