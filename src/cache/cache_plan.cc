#include "cache/cache_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/byte_size.h"
#include "io/existing_path.h"
#include "kv/record.h"
#include "tier/arena.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kWarmRecordsMin = 2;  // One that is read while another is stored.
constexpr std::uint32_t kColdSegmentsMin =
    4;  // Open, spare, one being emptied, one to hold something.
constexpr std::uint64_t kStagingDivisor = 4;  // Of warm, where nothing is said.

Error refuse(std::string what) { return fail(Errc::invalid, std::move(what)); }

Result<void> check_kind(const CachedKind& cached, std::uint32_t block_tokens,
                        std::set<std::uint16_t>& ids) {
  const Kind& kind = cached.kind;
  if (!ids.insert(kind.id).second)
    return refuse(fmt::format("kinds: two of them have id {}", kind.id));
  if ((kind.reach == Reach::window) != (kind.window_tokens > 0)) {
    return refuse(fmt::format("kinds: kind {}: window_tokens = {} {}", kind.id, kind.window_tokens,
                              kind.reach == Reach::window
                                  ? "with reach window: give the tokens it reaches back"
                                  : "without reach window: leave it at 0"));
  }
  if (cached.bytes_per_token > kChunkBytesMax / block_tokens ||
      cached.bytes_per_block > kChunkBytesMax ||
      cached.block_bytes(block_tokens) > kChunkBytesMax) {
    return refuse(
        fmt::format("kinds: kind {}: a block of more than {} bytes", kind.id, kChunkBytesMax));
  }
  if (cached.block_bytes(block_tokens) == 0) {
    return refuse(fmt::format(
        "kinds: kind {} has empty blocks: set bytes_per_token or bytes_per_block", kind.id));
  }
  if (cached.fingerprint == Fingerprint{}) {
    return refuse(fmt::format(
        "kinds: kind {} has no fingerprint: make_fingerprint() says who may share its blocks",
        kind.id));
  }
  return {};
}

Result<SegmentGeometry> cold_geometry(const CacheOptions& options, std::uint64_t cold_bytes,
                                      std::uint64_t record_bytes_max, Disk& disk) {
  TIERCEL_TRY(const DiskSpace space, disk.space(existing_part(options.directory)));
  if (options.cold_bytes > space.total_bytes) {
    return refuse(fmt::format("cold_bytes: {} is more than the disk of {} has ({})",
                              pretty_byte_size(options.cold_bytes), options.directory,
                              pretty_byte_size(space.total_bytes)));
  }
  // A store keeps the geometry it was made with.
  if (const auto found = read_superblock(disk, options.directory)) {
    const std::uint32_t count = segments_max(cold_bytes, found->segment_bytes);
    if (count < kColdSegmentsMin) {
      return refuse(fmt::format(
          "cold_bytes: {} less session_bytes holds {} segments of {}, which {} was made with; give "
          "at least {}, or another directory",
          pretty_byte_size(cold_bytes), count, pretty_byte_size(found->segment_bytes),
          options.directory, exact_byte_size(store_bytes(found->segment_bytes, kColdSegmentsMin))));
    }
    return SegmentGeometry{.segment_bytes = found->segment_bytes, .segments_max = count};
  }
  auto geometry = SegmentGeometry::fit(cold_bytes, options.segment_bytes, record_bytes_max);
  if (!geometry) return refuse("cold_bytes: " + geometry.error().what);
  return geometry;
}

}  // namespace

Result<CachePlan> plan_cache(const CacheOptions& options, Disk& disk) {
  if (options.block_tokens == 0)
    return refuse("block_tokens: 0; give the tokens of a full block, e.g. 256");
  if (options.kinds.empty())
    return refuse("kinds: none; a plain attention model has one, of reach all");
  std::set<std::uint16_t> ids;
  CachePlan plan;
  for (const CachedKind& cached : options.kinds) {
    TIERCEL_TRY_VOID(check_kind(cached, options.block_tokens, ids));
    plan.record_bytes_max =
        std::max(plan.record_bytes_max, record_bytes(cached.block_bytes(options.block_tokens)));
  }
  plan.warm_bytes = align_up(options.warm_bytes, kArenaAlignment);
  if (plan.warm_bytes < kWarmRecordsMin * plan.record_bytes_max) {
    return refuse(fmt::format(
        "warm_bytes: {} holds not even {} records of {}; every block comes and goes through warm",
        pretty_byte_size(options.warm_bytes), kWarmRecordsMin,
        pretty_byte_size(plan.record_bytes_max)));
  }
  plan.staging_bytes = options.staging_bytes;
  if (plan.staging_bytes == 0)
    plan.staging_bytes = std::max(plan.warm_bytes / kStagingDivisor, plan.record_bytes_max);
  if (plan.staging_bytes < plan.record_bytes_max || plan.staging_bytes > plan.warm_bytes) {
    return refuse(
        fmt::format("staging_bytes: {} is {}", pretty_byte_size(plan.staging_bytes),
                    plan.staging_bytes > plan.warm_bytes
                        ? fmt::format("more than warm_bytes ({}), where it leads",
                                      pretty_byte_size(plan.warm_bytes))
                        : fmt::format("less than one record of {}: nothing could be stored",
                                      pretty_byte_size(plan.record_bytes_max))));
  }
  if (options.lease_time.count() <= 0)
    return refuse("lease_time: there is no lease without a time; give e.g. 10 s");
  if (options.sync_interval.count() < 0) return refuse("sync_interval: less than 0");
  if (options.directory.empty() != (options.cold_bytes == 0)) {
    return refuse(
        options.directory.empty()
            ? fmt::format("cold_bytes: {} without a directory to hold them",
                          pretty_byte_size(options.cold_bytes))
            : fmt::format("directory: {} without cold_bytes: say how much of the disk it may take",
                          options.directory));
  }
  if (options.session_bytes >= options.cold_bytes && options.session_bytes > 0) {
    return refuse(fmt::format("session_bytes: {} of cold_bytes ({}) leave nothing for the cache",
                              pretty_byte_size(options.session_bytes),
                              pretty_byte_size(options.cold_bytes)));
  }
  plan.has_cold = !options.directory.empty();
  if (!plan.has_cold) return plan;
  plan.cold_bytes = options.cold_bytes - options.session_bytes;
  if (options.sync_bytes == 0 && options.sync_interval.count() == 0) {
    return refuse("sync_bytes, sync_interval: both 0, so nothing would ever be committed to cold");
  }
  TIERCEL_TRY(plan.geometry, cold_geometry(options, plan.cold_bytes, plan.record_bytes_max, disk));
  return plan;
}

}  // namespace tiercel
