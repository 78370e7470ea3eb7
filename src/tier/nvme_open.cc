// NvmeTier, the part that runs at open: takes directory and memory; nvme_recover.cc finds what is there.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "tier/nvme_tier.h"

namespace tiercel {
namespace {

constexpr std::uint32_t kStagedPagesMax = 1024;
// A store and its segment's header, a footer, a checkpoint, and one for a load or the scrub, which waits for free ones.
constexpr std::uint32_t kDepthMin = 5;

StagingPool::Shape staging_shape(const NvmeOptions& options, std::uint64_t record_bytes_max) {
  const auto pages =
      std::clamp<std::uint64_t>(options.bytes_in_flight_max / kRecordBytesMin, 16, kStagedPagesMax);
  return {.page_bytes = kPageBytes,
          .page_count = static_cast<std::uint32_t>(pages),
          .slot_bytes = align_up(record_bytes_max, kPageBytes),
          .slot_count = std::max(options.bounce_slots, 1U)};
}

std::uint64_t largest_footer(std::uint64_t segment_bytes) {
  return footer_bytes(segment_bytes / kRecordBytesMin);
}

// One request of the scrub: about a megabyte and the record that crosses its end, or a footer.
std::uint64_t scrub_bytes(const NvmeOptions& options, const StoreGeometry& geometry) {
  if (options.scrub_bytes_per_s == 0) return 0;
  return std::max(kScrubRequestBytes + align_up(geometry.record_bytes_max, kPageBytes),
                  largest_footer(geometry.segment_bytes));
}

}  // namespace

std::uint64_t NvmeTier::staging_bytes(const NvmeOptions& options, const StoreGeometry& geometry) {
  const std::uint64_t pool =
      StagingPool::bytes_needed(staging_shape(options, geometry.record_bytes_max));
  return std::max(pool + largest_footer(geometry.segment_bytes) +
                      checkpoint_slot_bytes(geometry.segment_bytes) +
                      scrub_bytes(options, geometry),
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
  const StoreGeometry geometry{.segment_bytes = superblock.segment_bytes,
                               .record_bytes_max = superblock.record_bytes_max};
  const std::uint64_t bytes = staging_bytes(options_, geometry);
  if (options_.staging.empty()) {
    TIERCEL_TRY(own_memory_, Arena::create({.bytes = bytes}));
    TIERCEL_TRY(options_.staging, own_memory_->take(bytes));
  } else if (options_.staging.size() < bytes) {
    return fail(Errc::invalid, fmt::format("the staging memory has {} bytes, {} are needed",
                                           options_.staging.size(), bytes));
  }
  // The pool lies before these; see open().
  std::uint64_t used =
      StagingPool::bytes_needed(staging_shape(options_, geometry.record_bytes_max));
  const auto take = [&](std::uint64_t part) {
    TIERCEL_CHECK(used + part <= options_.staging.size());
    used += part;
    return options_.staging.subspan(used - part, part);
  };
  footer_buffer_ = take(largest_footer(geometry.segment_bytes));
  checkpoint_buffer_ = take(checkpoint_slot_bytes(geometry.segment_bytes));
  scrub_buffer_ = take(scrub_bytes(options_, geometry));
  quarantine_.emplace(quarantine_max(superblock.segment_bytes));
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

}  // namespace tiercel
