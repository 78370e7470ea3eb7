// NvmeTier, the part that runs at open: finds what is there and closes it, so that nothing is appended behind a torn tail.
#include <fmt/format.h>

#include <algorithm>

#include "tier/nvme_tier.h"
#include "tier/segment_scan.h"

namespace tiercel {

Result<Recovered> NvmeTier::recover() {
  Recovered recovered;
  recovered.epoch = superblock().epoch;
  const ScanOptions scan_options{.store = superblock().store,
                                 .segment_bytes = superblock().segment_bytes,
                                 .record_bytes_max = superblock().record_bytes_max};
  for (std::uint32_t index = 0; index < segments_.size(); ++index) {
    File* const file = directory_->segment_file(index);
    if (file == nullptr) continue;
    TIERCEL_TRY(SegmentScan scan, scan_segment(*file, index, scan_options, options_.staging));
    {
      const MutexLock lock(mutex_);
      stats_.bytes_read += scan.bytes_read;
    }
    recovered.torn += scan.torn;
    if (scan.state == SegmentState::free && scan.header_damaged) ++recovered.dropped_segments;
    next_sequence_ = std::max(next_sequence_, scan.life.sequence + 1);
    if (scan.records.empty()) continue;
    Segment& segment = segments_[index];
    segment.used = segment.closed = true;
    segment.life = scan.life;
    segment.next_offset = scan.data_end;
    RecoveredSegment found{.segment = index,
                           .sequence = scan.life.sequence,
                           .sealed = scan.state == SegmentState::sealed,
                           .data_end = scan.data_end,
                           .records = {}};
    for (const FooterEntry& entry : scan.records) {
      found.records.push_back(
          {.key = entry.key,
           .parent = entry.parent,
           .prefix = entry.prefix,
           .fingerprint = entry.fingerprint,
           .kind = entry.kind,
           .token_count = entry.token_count,
           .place = {.segment = index, .offset = entry.offset, .bytes = entry.bytes}});
    }
    if (!found.sealed) {
      TIERCEL_TRY_VOID(close_recovered(index, {.store = superblock().store,
                                               .segment = index,
                                               .life = scan.life,
                                               .data_end = scan.data_end,
                                               .entries = std::move(scan.records)}));
    }
    recovered.segments.push_back(std::move(found));
  }
  std::ranges::sort(recovered.segments, {}, &RecoveredSegment::sequence);
  return recovered;
}

// What was found by walking may never have been synced: it is now, and only then gets a footer that says so.
Result<void> NvmeTier::close_recovered(std::uint32_t index, const Footer& footer) {
  File& file = *directory_->segment_file(index);
  TIERCEL_TRY_VOID(file.sync());
  const auto bytes = encode_footer(footer);
  const std::uint64_t segment_bytes = superblock().segment_bytes;
  if (footer.data_end + bytes.size() > segment_bytes) return {};
  const std::span<std::byte> memory = options_.staging.first(bytes.size());
  std::ranges::copy(bytes, memory.begin());
  TIERCEL_TRY_VOID(file.write(segment_bytes - bytes.size(), memory));
  {
    const MutexLock lock(mutex_);
    stats_.bytes_written += bytes.size();
  }
  return file.sync();
}

}  // namespace tiercel
