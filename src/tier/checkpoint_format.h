// The checkpoint of a store's index: what a restart cannot read from the footers of sealed segments. docs/formats/checkpoint.md
// has bytes.
//
// Shape   A table of segments, the entries of those that have no durable footer yet, and the quarantined places. It lies in a
//         slot of fixed size; what does not fit is left out and gets walked at a restart.
// Law     Only records that a completed commit covers are listed. Below a segment's `data_end` nothing durable is missing from
//         its list, so a walk may begin there. A segment's row counts only while the segment lives the very life it names.
// Sums    The header has a sum of its own, at the same place in every version: so a newer version is told from a flipped one.
// Threads Pure functions.
// Source  docs/adr/0007-checkpoint.md, docs/formats/checkpoint.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tier/segment_format.h"

namespace tiercel {

inline constexpr std::uint32_t kCheckpointVersion = 1;
inline constexpr std::size_t kQuarantineReasonBytes = 48;

struct CheckpointSegment {
  std::uint32_t segment = 0;
  SegmentLife life;
  bool sealed = false;  // Has a durable footer: no entries here.
  std::uint64_t data_end = kSegmentHeaderBytes;
  std::vector<FooterEntry> entries = {};  // By offset, all before data_end.

  bool operator==(const CheckpointSegment&) const = default;
};

// A record that failed its verification: never to be given out again in this life of its segment.
struct QuarantinedPlace {
  std::uint32_t segment = 0;
  SegmentLife life;
  std::uint64_t offset = 0;
  Key key;
  std::int64_t unix_s = 0;  // When it was found.
  std::string reason;       // Printable ASCII, at most kQuarantineReasonBytes of it are kept.

  bool operator==(const QuarantinedPlace&) const = default;
};

struct Checkpoint {
  StoreUuid store{};
  std::uint64_t sequence =
      0;  // Grows with every checkpoint of the store; the highest good one counts.
  std::uint64_t epoch = 0;
  std::int64_t unix_s = 0;
  std::vector<CheckpointSegment> segments;  // By number, each once.
  std::vector<QuarantinedPlace> quarantined;

  bool operator==(const Checkpoint&) const = default;
};

// Bytes of its encoding, whole pages.
std::uint64_t checkpoint_bytes(const Checkpoint& checkpoint);

// Leaves out what does not fit into `slot_bytes`: first rows of sealed segments, then whole unsealed ones, last quarantined
// places.
void fit_checkpoint(Checkpoint& checkpoint, std::uint64_t slot_bytes);

// Requires out.size() == checkpoint_bytes(checkpoint). Reasons are cut, and made printable.
void encode_checkpoint(const Checkpoint& checkpoint, std::span<std::byte> out);

// How many bytes of its slot a checkpoint takes, from its first page. Errors: corrupt  not a good header; invalid  a good one
// of a newer version.
Result<std::uint64_t> peek_checkpoint_bytes(std::span<const std::byte> first_page,
                                            std::uint64_t slot_bytes);

// `bytes`: as many as peek_checkpoint_bytes() says. Errors as there, and corrupt for anything that does not hold together.
Result<Checkpoint> parse_checkpoint(std::span<const std::byte> bytes, std::uint64_t segment_bytes);

}  // namespace tiercel
