// SessionStore, the part that runs at open: the geometry, what the log still holds, what the manifests say of it.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "cache/session_listing.h"
#include "cache/session_store_impl.h"

namespace tiercel {
namespace {

// One constant, for the store says whose it is (tier/store_directory.h).
constexpr StorePurpose kPurpose = StorePurpose::session;

constexpr const char* kTemporarySuffix = ".tmp";
constexpr const char* kDamagedSuffix = ".damaged";

// Manifests have a share of their own, or segments would take all of the cap and no session could be written down: 1/64 of it.
// An entry is 40 bytes and the smallest record 8 KiB, so even the smallest blocks may each be listed by three sessions; of
// blocks of 128 KiB, by fifty. At least so much that small stores hold some dozen sessions.
constexpr std::uint64_t kManifestShareMin = 512 * kKiB;

// Tokens and state are cut into records as large as this where the segments allow it: a record of its own page-sized head for
// every 4 KiB, as the blocks of a tiny model have them, would double what they take.
constexpr std::uint64_t kPieceRecordBytes = 1 * kMiB;

std::uint64_t largest_record(std::uint64_t segment_bytes) {
  const std::uint64_t room = segment_bytes - kSegmentHeaderBytes - footer_bytes(kSegmentRecordsMin);
  return room / kSegmentRecordsMin / kPageBytes * kPageBytes;
}

}  // namespace

struct SessionStore::Impl::Shape {
  SegmentGeometry geometry;
  std::uint64_t record_bytes_max = 0;
  std::uint64_t manifest_share = 0;
};

Result<SessionStore::Impl::Shape> SessionStore::Impl::plan(Disk& disk, const Options& options) {
  Shape shape;
  shape.manifest_share =
      std::max(options.capacity_bytes / kManifestShareDivisor, kManifestShareMin) / kPageBytes *
      kPageBytes;
  const std::uint64_t log_bytes =
      options.capacity_bytes - std::min(options.capacity_bytes, shape.manifest_share);
  // A store keeps what it was made with.
  if (const auto found = read_superblock(disk, options.directory)) {
    shape.geometry = {.segment_bytes = found->segment_bytes,
                      .segments_max = segments_max(log_bytes, found->segment_bytes)};
    shape.record_bytes_max = options.record_bytes_max;
    constexpr std::uint32_t kSegmentsMin =
        4;  // Open, spare, one being emptied, one to hold something.
    if (shape.geometry.segments_max < kSegmentsMin) {
      return fail(Errc::invalid,
                  fmt::format("sessions: a share of {} holds {} segments of {}, which {} was made "
                              "with; give at least {}",
                              pretty_byte_size(options.capacity_bytes), shape.geometry.segments_max,
                              pretty_byte_size(found->segment_bytes), options.directory,
                              exact_byte_size(store_bytes(found->segment_bytes, kSegmentsMin) +
                                              shape.manifest_share)));
    }
    return shape;
  }
  const auto geometry =
      SegmentGeometry::fit(log_bytes, options.segment_bytes, options.record_bytes_max);
  if (!geometry) {
    return fail(
        Errc::invalid,
        fmt::format("sessions: a share of {} is too small: less the {} for manifests it does not "
                    "hold four segments of eight records of {}; give more",
                    pretty_byte_size(options.capacity_bytes),
                    pretty_byte_size(shape.manifest_share),
                    pretty_byte_size(options.record_bytes_max)));
  }
  shape.geometry = *geometry;
  shape.record_bytes_max =
      std::max(options.record_bytes_max,
               std::min(kPieceRecordBytes, largest_record(geometry->segment_bytes)));
  return shape;
}

Result<std::unique_ptr<SessionStore::Impl>> SessionStore::Impl::open(Disk& disk,
                                                                     const Options& options) {
  const std::int64_t start_ns = options.clock->now_ns();
  TIERCEL_TRY(const Shape shape, plan(disk, options));
  NvmeOptions nvme;
  nvme.geometry = {.capacity_bytes = options.capacity_bytes - shape.manifest_share,
                   .segment_bytes = shape.geometry.segment_bytes,
                   .record_bytes_max = shape.record_bytes_max,
                   .purpose = kPurpose};
  nvme.clock = options.clock;
  nvme.engine = options.engine;
  nvme.recovery_threads = options.recovery_threads;
  nvme.queue_ops_max = options.queue_ops_max;
  TIERCEL_TRY(auto opened, NvmeTier::open(disk, options.directory, nvme));
  SegmentGeometry geometry = shape.geometry;
  geometry.segments_max = std::min(geometry.segments_max, opened.tier->segment_count_max());
  std::unique_ptr<Impl> store(
      new Impl(disk, options, std::move(opened.tier), geometry, shape.manifest_share));
  TIERCEL_TRY(store->io_, SessionIo::make(*store->tier_, *options.clock));
  TIERCEL_TRY_VOID(store->restore(opened.recovered));
  store->count_disk();
  const MutexLock lock(store->mutex_);
  store->stats_.capacity_bytes = options.capacity_bytes;
  store->stats_.open_s = static_cast<double>(options.clock->now_ns() - start_ns) * 1e-9;
  return store;
}

Result<std::uint64_t> SessionStore::Impl::memory_bytes(Disk& disk, const Options& options) {
  TIERCEL_TRY(const Shape shape, plan(disk, options));
  std::uint64_t record_bytes_max = shape.record_bytes_max;
  if (const auto found = read_superblock(disk, options.directory))
    record_bytes_max = std::max(record_bytes_max, found->record_bytes_max);
  return NvmeTier::staging_bytes({}, {.segment_bytes = shape.geometry.segment_bytes,
                                      .record_bytes_max = record_bytes_max}) +
         SessionIo::memory_bytes(record_bytes_max);
}

Result<void> SessionStore::Impl::restore(const Recovered& recovered) {
  {
    const MutexLock lock(mutex_);
    stats_.torn_records = recovered.torn;
    for (const RecoveredSegment& segment : recovered.segments) {
      std::vector<std::pair<Key, SessionLog::Entry>> records;
      for (const RecoveredRecord& record : segment.records) {
        records.emplace_back(record.key, SessionLog::Entry{.place = record.place,
                                                           .fingerprint = record.fingerprint});
      }
      log_.restore(segment.segment, segment.data_end, std::move(records));
    }
  }
  TIERCEL_TRY(const auto names, disk_.list(options_.directory));
  bool changed = false;
  for (const std::string& name : names) {
    if (is_manifest_file_name(name)) {
      TIERCEL_TRY_VOID(read_manifest(name));
      continue;
    }
    const std::string base = name.substr(0, name.find_last_of('.'));
    if (!is_manifest_file_name(base)) continue;  // Somebody else's, or the log's.
    if (name.ends_with(kTemporarySuffix)) {
      TIERCEL_TRY_VOID(disk_.remove(path_of(name)));
      changed = true;
      const MutexLock lock(mutex_);
      ++stats_.leftovers_removed;
    } else if (name.ends_with(kDamagedSuffix)) {
      const std::uint64_t charge = charge_of(name, 0);
      note(fmt::format("{} was set aside because it is damaged; remove it when it is not needed",
                       path_of(name)));
      const MutexLock lock(mutex_);
      manifest_bytes_ += charge;
    }
  }
  if (changed) {
    TIERCEL_TRY(const auto directory, disk_.open_directory(options_.directory));
    TIERCEL_TRY_VOID(directory->sync());
  }
  std::vector<std::pair<Key, Place>> earlier;
  {
    const MutexLock lock(mutex_);
    earlier = log_.end_restore();
  }
  take_back(earlier);
  sweep();
  const MutexLock lock(mutex_);
  if (manifest_bytes_ > manifest_share_) {
    return fail(
        Errc::invalid,
        fmt::format("sessions: the manifests in {} take {}, and a share of {} has {} for "
                    "them; give more",
                    options_.directory, pretty_byte_size(manifest_bytes_),
                    pretty_byte_size(options_.capacity_bytes), pretty_byte_size(manifest_share_)));
  }
  return {};
}

// A move that a crash cut short, undone, so that there is a spare again: the records still lie where they lay, if they are good.
void SessionStore::Impl::take_back(const std::vector<std::pair<Key, Place>>& earlier) {
  for (std::size_t first = 0; first < earlier.size(); first += io_->buffers()) {
    std::vector<SessionIo::Record> records;
    for (std::size_t i = first; i < std::min(earlier.size(), first + io_->buffers()); ++i) {
      const MutexLock lock(mutex_);
      records.push_back({.key = earlier[i].first,
                         .fingerprint = log_.find(earlier[i].first)->fingerprint,
                         .place = earlier[i].second});
    }
    io_->load(records);
    for (const SessionIo::Record& record : records) {
      const MutexLock lock(mutex_);
      if (record.completion.outcome == Outcome::delivered) log_.moved(record.key, record.place);
    }
  }
}

Result<void> SessionStore::Impl::read_manifest(const std::string& file_name) {
  const auto bytes = read_file(disk_, path_of(file_name), kManifestBytesMax);
  if (!bytes && bytes.error().code != Errc::invalid) return bytes.error();
  Result<SessionManifest> manifest =
      bytes ? parse_manifest(*bytes) : fail(Errc::corrupt, bytes.error().what);
  if (!manifest && manifest.error().code == Errc::invalid) {
    return fail(Errc::invalid, fmt::format("{}: {}; nothing was touched", path_of(file_name),
                                           manifest.error().what));
  }
  if (manifest && manifest_file_name(manifest->name) != file_name) {
    manifest = fail(Errc::corrupt, fmt::format("session: this is the manifest of \"{}\", which "
                                               "belongs into another file",
                                               manifest->name));
  }
  if (!manifest) return set_aside(file_name, manifest.error());
  const std::uint64_t charge = charge_of(file_name, bytes->size());
  const MutexLock lock(mutex_);
  const auto refer = [&](const Key& key, std::uint64_t payload_bytes) REQUIRES(mutex_) {
    const SessionLog::Entry* const entry = log_.find(key);
    if (entry != nullptr && !entry->lost && entry->place.bytes != record_bytes(payload_bytes))
      log_.lose(key);  // Not what the manifest means.
    log_.retain(key);
  };
  for (const SessionBlock& block : manifest->blocks) refer(block.key, block.bytes);
  for (const SessionPiece& piece : manifest->tokens) refer(piece.key, piece.bytes);
  for (const SessionPiece& piece : manifest->state) refer(piece.key, piece.bytes);
  manifest_bytes_ += charge;
  Session& session = sessions_[manifest->name];
  session = {.manifest = std::move(*manifest), .disk_bytes = charge};
  return {};
}

// Its session alone is lost. The file stays, under another name, for whoever wants to look at it.
Result<void> SessionStore::Impl::set_aside(const std::string& file_name, const Error& why) {
  const std::string aside = file_name + kDamagedSuffix;
  TIERCEL_TRY_VOID(disk_.rename(path_of(file_name), path_of(aside)));
  TIERCEL_TRY(const auto directory, disk_.open_directory(options_.directory));
  TIERCEL_TRY_VOID(directory->sync());
  const std::uint64_t charge = charge_of(aside, 0);
  note(fmt::format("{}: {}; its session is lost, the file is set aside as {}", path_of(file_name),
                   why.what, aside));
  const MutexLock lock(mutex_);
  manifest_bytes_ += charge;
  ++stats_.damaged_manifests;
  return {};
}

}  // namespace tiercel
