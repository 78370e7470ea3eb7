// NvmeTier, the part that runs at open: takes the directory, finds what is there, and closes it, so that nothing is appended
// behind a torn tail.
#include <fmt/format.h>

#include <algorithm>

#include "tier/nvme_tier.h"
#include "tier/segment_scan.h"

namespace tiercel {
namespace {

constexpr std::uint32_t kStagedPagesMax = 1024;
constexpr std::uint32_t kDepthMin = 4;  // A store and its segment's header, a footer, a load.

StagingPool::Shape staging_shape(const NvmeOptions& options, std::uint64_t record_bytes_max) {
  const std::uint64_t smallest_record = 2 * kPageBytes;
  const auto pages =
      std::clamp<std::uint64_t>(options.bytes_in_flight_max / smallest_record, 16, kStagedPagesMax);
  return {.page_bytes = kPageBytes,
          .page_count = static_cast<std::uint32_t>(pages),
          .slot_bytes = align_up(record_bytes_max, kPageBytes),
          .slot_count = std::max(options.bounce_slots, 1U)};
}

std::uint64_t largest_footer(std::uint64_t segment_bytes) {
  return footer_bytes(segment_bytes / (2 * kPageBytes));  // No record is smaller than two pages.
}

}  // namespace

std::uint64_t NvmeTier::staging_bytes(const NvmeOptions& options, const StoreGeometry& geometry) {
  const std::uint64_t pool =
      StagingPool::bytes_needed(staging_shape(options, geometry.record_bytes_max));
  return std::max(pool + largest_footer(geometry.segment_bytes),
                  scan_buffer_bytes(geometry.record_bytes_max));
}

NvmeTier::NvmeTier(Disk& disk, const NvmeOptions& options) : disk_(disk), options_(options) {
  options_.depth = std::max(options_.depth, kDepthMin);
}

NvmeTier::~NvmeTier() = default;

Result<void> NvmeTier::set_up(const std::string& directory) {
  TIERCEL_TRY(directory_,
              StoreDirectory::open(disk_, directory, options_.geometry, options_.start));
  const Superblock& superblock = directory_->superblock();
  const std::uint64_t bytes = staging_bytes(
      options_,
      {.segment_bytes = superblock.segment_bytes, .record_bytes_max = superblock.record_bytes_max});
  if (options_.staging.empty()) {
    TIERCEL_TRY(own_memory_, Arena::create({.bytes = bytes}));
    TIERCEL_TRY(options_.staging, own_memory_->take(bytes));
  } else if (options_.staging.size() < bytes) {
    return fail(Errc::invalid, fmt::format("the staging memory has {} bytes, {} are needed",
                                           options_.staging.size(), bytes));
  }
  const std::uint64_t pool_bytes =
      StagingPool::bytes_needed(staging_shape(options_, superblock.record_bytes_max));
  footer_buffer_ = options_.staging.subspan(pool_bytes, largest_footer(superblock.segment_bytes));
  TIERCEL_TRY(queue_, disk_.make_queue({.depth = options_.depth, .engine = options_.engine}));
  segments_.resize(directory_->segment_count_max());
  for (std::uint32_t i = options_.depth; i > 0; --i) free_jobs_.push_back(i - 1);
  jobs_.resize(options_.depth);
  capabilities_.name = "cold";
  capabilities_.persistent = true;
  capabilities_.alignment = kPageBytes;
  capabilities_.capacity_bytes = options_.geometry.capacity_bytes;
  return {};
}

Result<NvmeTier::Opened> NvmeTier::open(Disk& disk, const std::string& directory,
                                        const NvmeOptions& options) {
  const std::int64_t start_ns = options.clock->now_ns();
  Opened opened{.tier = std::unique_ptr<NvmeTier>(new NvmeTier(disk, options)), .recovered = {}};
  NvmeTier& tier = *opened.tier;
  TIERCEL_TRY_VOID(tier.set_up(directory));
  TIERCEL_TRY(opened.recovered,
              tier.recover());  // Uses all of the staging memory, so the pool comes after it.
  tier.staging_ = std::make_unique<StagingPool>(
      tier.options_.staging,
      staging_shape(options, tier.directory_->superblock().record_bytes_max));
  {
    const MutexLock lock(tier.mutex_);
    tier.stats_.bytes_format += tier.directory_->format_bytes();
  }
  opened.recovered.open_s = static_cast<double>(options.clock->now_ns() - start_ns) * 1e-9;
  return opened;
}

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
    if (scan.header_damaged)
      ++(scan.records.empty() ? recovered.dropped_segments : recovered.rescued_segments);
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
    if (scan.header_damaged) TIERCEL_TRY_VOID(repair_header(index, scan.life));
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
