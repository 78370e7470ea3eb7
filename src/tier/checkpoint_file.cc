#include "tier/checkpoint_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace tiercel {
namespace {

// nullopt: never written.
Result<std::optional<Checkpoint>> read_slot(File& file, std::uint64_t offset,
                                            const StoreUuid& store, std::uint64_t segment_bytes) {
  std::vector<std::byte> bytes(kPageBytes);
  TIERCEL_TRY_VOID(file.read(offset, bytes));
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }))
    return std::optional<Checkpoint>();
  TIERCEL_TRY(const std::uint64_t length,
              peek_checkpoint_bytes(bytes, checkpoint_slot_bytes(segment_bytes)));
  bytes.resize(length);
  TIERCEL_TRY_VOID(file.read(offset, bytes));
  TIERCEL_TRY(Checkpoint checkpoint, parse_checkpoint(bytes, segment_bytes));
  if (checkpoint.store != store)
    return fail(Errc::corrupt, "checkpoint: it is that of another store");
  return std::optional<Checkpoint>(std::move(checkpoint));
}

}  // namespace

Result<CheckpointRead> read_checkpoint(Disk& disk, const std::string& directory,
                                       const StoreUuid& store, std::uint64_t segment_bytes) {
  CheckpointRead found;
  const std::string path = directory + "/" + kCheckpointName;
  const auto file = disk.open(path, {});
  if (!file && is_missing(file.error())) return found;
  if (!file && file.error().code == Errc::invalid) return file.error();
  found.exists = true;
  const auto status = file ? (*file)->status() : Result<FileStatus>(file.error());
  if (!status) {
    found.damaged = 1;
    found.complaints.push_back(fmt::format("{}: {}", kCheckpointName, status.error().what));
    return found;
  }
  found.status = *status;
  if (found.status.bytes == 0) return found;  // Left by a crash before it was reserved.
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    const std::uint64_t offset = slot * checkpoint_slot_bytes(segment_bytes);
    auto checkpoint = read_slot(**file, offset, store, segment_bytes);
    if (!checkpoint && checkpoint.error().code == Errc::invalid)
      return fail(Errc::invalid, fmt::format("{}: {}", directory, checkpoint.error().what));
    if (!checkpoint) {
      ++found.damaged;
      found.complaints.push_back(
          fmt::format("{}, slot {}: {}", kCheckpointName, slot, checkpoint.error().what));
      continue;
    }
    if (!*checkpoint || (found.newest && found.newest->sequence >= (*checkpoint)->sequence))
      continue;
    found.newest = std::move(*checkpoint);
    found.next_slot = 1 - slot;
  }
  return found;
}

}  // namespace tiercel
