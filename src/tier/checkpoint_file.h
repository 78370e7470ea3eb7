// The file of a store's checkpoint: two slots of equal size, written in turn, so that a torn write costs the newer one alone.
//
// Shape   `index.checkpoint`, checkpoint_file_bytes() long, reserved when the store is made. Slot i starts at i * slot size.
// Damage  A slot that is torn, flipped, of another store or cut off is passed over and counted: the checkpoint only saves
//         time, a rescan finds everything. A newer version is refused, as a newer superblock is.
// Threads Pure, apart from the reading.
// Source  docs/adr/0007-checkpoint.md, docs/formats/checkpoint.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/disk.h"
#include "tier/checkpoint_format.h"

namespace tiercel {

inline constexpr const char* kCheckpointName = "index.checkpoint";

struct CheckpointRead {
  bool exists = false;
  FileStatus status;                         // Of the file, where it exists.
  std::optional<Checkpoint> newest;          // The good one with the highest sequence.
  std::uint32_t next_slot = 0;               // The one to be written next: not that of `newest`.
  std::uint32_t damaged = 0;                 // Slots that are neither good nor never written.
  std::vector<std::string> complaints = {};  // One sentence per damaged slot.
};

// Reads it whole. Errors: invalid  a newer version, or no regular file by that name. What cannot be read counts as damaged.
Result<CheckpointRead> read_checkpoint(Disk& disk, const std::string& directory,
                                       const StoreUuid& store, std::uint64_t segment_bytes);

}  // namespace tiercel
