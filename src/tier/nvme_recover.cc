// NvmeTier, what a restart finds: headers and footers of all segments by several threads, then the walks; and what was found
// is closed, so that nothing is appended behind a torn tail.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "tier/nvme_tier.h"

namespace tiercel {

// What one segment says of itself.
struct NvmeTier::IndexRead {
  std::uint32_t segment = 0;
  Result<void> outcome;
  SegmentScan scan;
  std::vector<RecoveredRecord> records;
};

namespace {

std::vector<RecoveredRecord> recovered_records(std::uint32_t segment,
                                               const std::vector<FooterEntry>& entries) {
  std::vector<RecoveredRecord> records;
  records.reserve(entries.size());
  for (const FooterEntry& entry : entries) {
    records.push_back(
        {.key = entry.key,
         .parent = entry.parent,
         .prefix = entry.prefix,
         .fingerprint = entry.fingerprint,
         .kind = entry.kind,
         .token_count = entry.token_count,
         .place = {.segment = segment, .offset = entry.offset, .bytes = entry.bytes}});
  }
  return records;
}

}  // namespace

Result<Recovered> NvmeTier::recover() {
  Recovered recovered;
  recovered.epoch = superblock().epoch;
  recovered.leftovers_removed = directory_->leftovers_removed();
  recovered.resized_segments = directory_->resized_segments();
  const CheckpointRead read = directory_->take_checkpoint();
  recovered.checkpoint_used = read.newest.has_value();
  recovered.checkpoint_damaged = read.damaged;
  if (!read.complaints.empty()) {
    recovered.checkpoint_note = read.complaints.front();
  } else if (!read.newest) {
    recovered.checkpoint_note = read.exists ? "none was written yet" : "there is none";
  }
  checkpoint_slot_ = read.next_slot;
  if (read.newest) checkpoint_sequence_ = read.newest->sequence + 1;

  ScanOptions options{.store = superblock().store,
                      .segment_bytes = superblock().segment_bytes,
                      .record_bytes_max = superblock().record_bytes_max,
                      .checkpoint = read.newest ? &*read.newest : nullptr,
                      .pass_over_unreadable = true};
  TIERCEL_TRY(std::vector<IndexRead> indices, read_indices(options));
  std::vector<SegmentLife> lives(segments_.size());  // Also of those without a record to give.
  for (IndexRead& index : indices) {
    TIERCEL_TRY_VOID(index.outcome);
    std::uint64_t bytes_read = index.scan.bytes_read;
    if (index.scan.needs_walk) {
      ++recovered.walked_segments;
      options.believe_lists = !directory_->was_resized(index.segment);
      TIERCEL_TRY(index.scan, scan_segment(*directory_->segment_file(index.segment), index.segment,
                                           options, options_.staging));
      index.records = recovered_records(index.segment, index.scan.records);
      bytes_read += index.scan.bytes_read;
    }
    {
      const MutexLock lock(mutex_);
      stats_.bytes_read += bytes_read;
    }
    lives[index.segment] = index.scan.life;
    TIERCEL_TRY_VOID(take_over(index, recovered));
  }
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    if (directory_->is_left_out(i)) keep_closed(i, {}, recovered);
  }
  std::ranges::sort(recovered.segments, {}, &RecoveredSegment::sequence);
  if (!read.newest) return recovered;
  for (const QuarantinedPlace& place : read.newest->quarantined) {
    if (place.segment < lives.size() && lives[place.segment].sequence > 0 &&
        same_life(place.life, lives[place.segment]))
      quarantine_->add(place);
  }
  return recovered;
}

// Each thread takes the next segment that nobody has taken yet, and a slice of the staging memory, which nobody else uses yet.
Result<std::vector<NvmeTier::IndexRead>> NvmeTier::read_indices(const ScanOptions& options) {
  std::vector<IndexRead> indices;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    if (directory_->segment_file(i) == nullptr) continue;
    indices.emplace_back();
    indices.back().segment = i;
  }
  ScanOptions index_options = options;
  index_options.index_only = true;
  const std::uint64_t buffer_bytes = index_buffer_bytes(options.segment_bytes);
  const std::size_t workers =
      std::min<std::size_t>({std::max(options_.recovery_threads, 1U), indices.size(),
                             options_.staging.size() / buffer_bytes});
  std::atomic<std::size_t> next = 0;
  const auto work = [&](std::size_t worker) {
    const auto buffer = options_.staging.subspan(worker * buffer_bytes, buffer_bytes);
    for (std::size_t i = next++; i < indices.size(); i = next++) {
      IndexRead& index = indices[i];
      auto scan = scan_segment(*directory_->segment_file(index.segment), index.segment,
                               index_options, buffer);
      if (!scan) {
        index.outcome = scan.error();
        continue;
      }
      index.scan = std::move(*scan);
      index.records = recovered_records(index.segment, index.scan.records);
      index.scan.records = {};  // Nobody asks for them again where the footer was good.
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t worker = 1; worker < workers; ++worker) {
    try {
      threads.emplace_back(work, worker);
    } catch (const std::system_error&) {
      break;  // Fewer threads then; the one that is here is enough.
    }
  }
  if (!indices.empty()) work(0);
  threads.clear();
  return indices;
}

// Nothing to give, but nothing that may be overwritten before its owner says so.
void NvmeTier::keep_closed(std::uint32_t index, const SegmentLife& life, Recovered& recovered) {
  ++recovered.unreadable_segments;
  segments_[index].used = segments_[index].closed = true;
  segments_[index].life = life;
  recovered.segments.push_back({.segment = index,
                                .sequence = life.sequence,
                                .sealed = false,
                                .data_end = kSegmentHeaderBytes,
                                .records = {}});
}

Result<void> NvmeTier::take_over(IndexRead& read, Recovered& recovered) {
  SegmentScan& scan = read.scan;
  recovered.torn += scan.torn;
  recovered.quarantined += scan.quarantined;
  const bool unreadable = scan.unreadable_pages > 0;
  if (scan.header_damaged && !unreadable)
    ++(read.records.empty() ? recovered.dropped_segments : recovered.rescued_segments);
  next_sequence_ = std::max(next_sequence_, scan.life.sequence + 1);
  if (read.records.empty()) {
    if (unreadable) keep_closed(read.segment, scan.life, recovered);
    return {};
  }
  Segment& segment = segments_[read.segment];
  segment.used = segment.closed = true;
  segment.life = scan.life;
  segment.next_offset = scan.data_end;
  const bool sealed = scan.state == SegmentState::sealed;
  segment.footer_durable = sealed;
  segment.footer_entries = sealed ? scan.footer_entries : scan.records.size();
  recovered.segments.push_back({.segment = read.segment,
                                .sequence = scan.life.sequence,
                                .sealed = sealed,
                                .data_end = scan.data_end,
                                .records = std::move(read.records)});
  // The device may be well again at the next open: what lies there is left for it as it is, without a list of what was read now.
  if (unreadable) {
    ++recovered.unreadable_segments;
    return {};
  }
  if (scan.header_damaged) TIERCEL_TRY_VOID(repair_header(read.segment, scan.life));
  if (sealed) return {};
  TIERCEL_TRY(segment.footer_durable,
              close_recovered(read.segment, {.store = superblock().store,
                                             .segment = read.segment,
                                             .life = scan.life,
                                             .data_end = scan.data_end,
                                             .entries = std::move(scan.records)}));
  return {};
}

// So that the next open need not look for the life in the records again.
Result<void> NvmeTier::repair_header(std::uint32_t index, const SegmentLife& life) {
  File& file = *directory_->segment_file(index);
  const std::span<std::byte> page = options_.staging.first(kPageBytes);
  encode_segment_header({.store = superblock().store,
                         .segment = index,
                         .life = life,
                         .segment_bytes = superblock().segment_bytes},
                        page);
  TIERCEL_TRY_VOID(file.write(0, page));
  {
    const MutexLock lock(mutex_);
    stats_.bytes_format += page.size();
  }
  return file.sync();
}

// What was found by walking may never have been synced: it is now, and only then gets a footer that says so. False where there
// is no room for one: the segment is walked again.
Result<bool> NvmeTier::close_recovered(std::uint32_t index, const Footer& footer) {
  File& file = *directory_->segment_file(index);
  TIERCEL_TRY_VOID(file.sync());
  const auto bytes = encode_footer(footer);
  const std::uint64_t segment_bytes = superblock().segment_bytes;
  if (footer.data_end + bytes.size() > segment_bytes) return false;
  const std::span<std::byte> memory = options_.staging.first(bytes.size());
  std::ranges::copy(bytes, memory.begin());
  TIERCEL_TRY_VOID(file.write(segment_bytes - bytes.size(), memory));
  {
    const MutexLock lock(mutex_);
    stats_.bytes_written += bytes.size();
  }
  TIERCEL_TRY_VOID(file.sync());
  return true;
}

}  // namespace tiercel
