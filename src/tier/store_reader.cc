#include "tier/store_reader.h"

#include <fmt/format.h>

#include "tier/arena.h"

namespace tiercel {
namespace {

constexpr std::size_t kMissingComplaintsMax =
    1000;  // A stray segment-00999999 must not fill the screen.

Result<void> read_segment(Disk& disk, const std::string& path, const ScanOptions& options,
                          std::uint32_t segment, std::span<std::byte> buffer, StoreReport& report) {
  TIERCEL_TRY(const auto file, disk.open(path, {.direct = true}));
  TIERCEL_TRY(const FileStatus status, file->status());
  report.physical_bytes += status.allocated_bytes;
  report.segment_numbers.push_back(segment);
  if (status.bytes != options.segment_bytes) {
    ++report.damaged;
    report.complaints.push_back(fmt::format("segment {}: its file has {} bytes instead of {}",
                                            segment, status.bytes, options.segment_bytes));
    return {};
  }
  TIERCEL_TRY(SegmentScan scan, scan_segment(*file, segment, options, buffer));
  report.bytes_read += scan.bytes_read;
  report.records += scan.records.size();
  for (const FooterEntry& record : scan.records) report.record_bytes += record.bytes;
  report.damaged +=
      scan.torn + scan.holes + (scan.header_damaged ? 1 : 0) + (scan.footer_damaged ? 1 : 0);
  report.complaints.insert(report.complaints.end(), scan.complaints.begin(), scan.complaints.end());
  if (options.checkpoint != nullptr) {
    for (const QuarantinedPlace& place : options.checkpoint->quarantined) {
      if (place.segment == segment && same_life(place.life, scan.life))
        report.quarantined.push_back(place);
    }
  }
  report.segments.push_back(
      {.segment = segment, .allocated_bytes = status.allocated_bytes, .scan = std::move(scan)});
  return {};
}

// Segments are first used in order of their numbers and keep their files, so a number that is passed over lost its file.
void report_missing_files(StoreReport& report) {
  std::uint32_t expected = 0;
  for (const std::uint32_t segment : report.segment_numbers) {  // In order: names are sorted.
    for (; expected < segment; ++expected) {
      ++report.damaged;
      if (report.complaints.size() < kMissingComplaintsMax)
        report.complaints.push_back(fmt::format("segment {}: its file is missing", expected));
    }
    expected = segment + 1;
  }
}

}  // namespace

Result<StoreReport> read_store(Disk& disk, const std::string& path, StoreReading reading) {
  StoreReport report;
  TIERCEL_TRY(report.superblock, read_superblock(disk, path));
  auto lock = disk.lock_shared(path + "/" + kStoreLockName);
  if (!lock && !is_missing(lock.error())) {
    if (lock.error().code != Errc::busy) return lock.error();
    if (reading == StoreReading::verify) {
      return fail(Errc::busy, fmt::format("{}; stop it, then verify", lock.error().what));
    }
    report.holder = lock.error().what;
  }
  // Only asked whether somebody writes: who starts while inspect reads is not to be turned away.
  if (reading == StoreReading::inspect && lock) lock->reset();
  TIERCEL_TRY(const CheckpointRead checkpoint, read_checkpoint(disk, path, report.superblock.store,
                                                               report.superblock.segment_bytes));
  report.physical_bytes += checkpoint.status.allocated_bytes;
  report.damaged += checkpoint.damaged;
  report.complaints = checkpoint.complaints;
  if (checkpoint.newest) report.checkpoint_sequence = checkpoint.newest->sequence;
  const ScanOptions options{.store = report.superblock.store,
                            .segment_bytes = report.superblock.segment_bytes,
                            .record_bytes_max = report.superblock.record_bytes_max,
                            .walk_always = reading == StoreReading::verify,
                            .checkpoint = checkpoint.newest ? &*checkpoint.newest : nullptr};
  const std::uint64_t buffer_bytes = scan_buffer_bytes(options.record_bytes_max);
  TIERCEL_TRY(const auto memory, Arena::create({.bytes = buffer_bytes}));
  TIERCEL_TRY(const auto buffer, memory->take(buffer_bytes));
  TIERCEL_TRY(const auto names, disk.list(path));
  for (const std::string& name : names) {
    const std::string file_path = path + "/" + name;
    if (const auto segment = parse_segment_file_name(name)) {
      TIERCEL_TRY_VOID(read_segment(disk, file_path, options, *segment, buffer, report));
    } else if (name == kStoreLockName || name == kSuperblockName) {
      TIERCEL_TRY(const auto file, disk.open(file_path, {}));
      TIERCEL_TRY(const FileStatus status, file->status());
      report.physical_bytes += status.allocated_bytes;
    } else if (name != kCheckpointName && name != kSessionsName) {
      report.other_files.push_back(name);
    }
  }
  report_missing_files(report);
  return report;
}

}  // namespace tiercel
