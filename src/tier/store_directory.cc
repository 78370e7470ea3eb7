#include "tier/store_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>

#include "base/checksum.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

constexpr std::string_view kMagic = "TIERSTOR";
constexpr const char* kTemporaryName = "store.meta.tmp";
constexpr std::uint32_t kSegmentsMax = 1U << 20;

constexpr std::uint32_t kFlagChecksums = 1;  // Always set.
constexpr std::uint32_t kFlagReplay = 2;     // StorePurpose::replay.
constexpr std::uint32_t kFlagSession = 4;    // StorePurpose::session. Neither: cache; never both.

std::uint32_t purpose_flags(StorePurpose purpose) {
  switch (purpose) {
    case StorePurpose::cache:
      return 0;
    case StorePurpose::replay:
      return kFlagReplay;
    case StorePurpose::session:
      return kFlagSession;
  }
  return 0;
}

std::optional<StorePurpose> parse_purpose(std::uint32_t flags) {
  for (const auto purpose : {StorePurpose::cache, StorePurpose::replay, StorePurpose::session}) {
    if (flags == purpose_flags(purpose)) return purpose;
  }
  return std::nullopt;
}

StoreUuid new_uuid() {
  std::random_device source;
  StoreUuid uuid;
  for (std::uint8_t& byte : uuid) byte = static_cast<std::uint8_t>(source());
  return uuid;
}

// Only what a start of ours that was cut short may leave behind counts as empty.
bool counts_as_empty(const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [](const std::string& name) {
    return name == kStoreLockName || name == kTemporaryName;
  });
}

// A damaged superblock of ours is no reason to refuse a start that throws everything away. But a replay or a store of
// sessions cannot know then whose store it would throw away.
bool may_replace(const Error& error, const StoreGeometry& geometry, StoreStart start) {
  return error.code == Errc::corrupt && start == StoreStart::empty &&
         geometry.purpose == StorePurpose::cache;
}

Result<void> check_purpose(const std::string& path, StorePurpose found, StorePurpose wanted) {
  if (found == wanted) return {};
  return fail(
      Errc::invalid,
      fmt::format("{} holds the store of a {}, and this is a {}: nothing in it was touched; "
                  "give another directory, or remove this one if it is not needed any more",
                  path, store_purpose_name(found), store_purpose_name(wanted)));
}

}  // namespace

const char* store_purpose_name(StorePurpose purpose) {
  switch (purpose) {
    case StorePurpose::cache:
      return "cache";
    case StorePurpose::replay:
      return "replay";
    case StorePurpose::session:
      return "session class";
  }
  return "unknown";
}

std::vector<std::byte> encode_superblock(const Superblock& superblock) {
  std::vector<std::byte> page(kPageBytes);
  const std::span<std::byte> out(page);
  put_magic(out, kMagic);
  put_number<std::uint32_t>(out, 8, kStoreVersion);
  put_number<std::uint32_t>(out, 12, kFlagChecksums | purpose_flags(superblock.purpose));
  put_bytes(out, 16, superblock.store);
  put_number<std::uint64_t>(out, 32, superblock.segment_bytes);
  put_number<std::uint64_t>(out, 40, superblock.record_bytes_max);
  put_number<std::uint64_t>(out, 48, superblock.epoch);
  put_number<std::uint64_t>(out, 56, checksum64(out.first(56)));
  return page;
}

Result<Superblock> parse_superblock(std::span<const std::byte> bytes) {
  if (!has_magic(bytes, kMagic))
    return fail(Errc::invalid, "store.meta is not a superblock of Tiercel");
  if (bytes.size() != kPageBytes) return fail(Errc::corrupt, "store.meta is not one page long");
  const auto version = get_number<std::uint32_t>(bytes, 8);
  if (version > kStoreVersion) {
    return fail(
        Errc::invalid,
        fmt::format("the store has format version {}, this build reads up to {}; use a newer build",
                    version, kStoreVersion));
  }
  const auto rest = bytes.subspan(64);
  if (get_number<std::uint64_t>(bytes, 56) != checksum64(bytes.first(56)) ||
      std::ranges::any_of(rest, [](std::byte byte) { return byte != std::byte{0}; })) {
    return fail(Errc::corrupt,
                "store.meta: checksum does not match; without it nothing in the store can be "
                "trusted, empty it");
  }
  const auto flags = get_number<std::uint32_t>(bytes, 12);
  const auto purpose = parse_purpose(flags & ~kFlagChecksums);
  if ((flags & kFlagChecksums) == 0 || !purpose) {
    return fail(Errc::invalid,
                fmt::format("store.meta has the flags {:#x}, which this build does not know; use a "
                            "newer build",
                            flags));
  }
  const Superblock superblock{.store = get_bytes<16>(bytes, 16),
                              .segment_bytes = get_number<std::uint64_t>(bytes, 32),
                              .record_bytes_max = get_number<std::uint64_t>(bytes, 40),
                              .epoch = get_number<std::uint64_t>(bytes, 48),
                              .purpose = *purpose};
  if (superblock.segment_bytes % kPageBytes != 0 ||
      superblock.record_bytes_max >
          superblock.segment_bytes / kSegmentRecordsMin ||  // Or the next line wraps.
      superblock.segment_bytes < segment_bytes_min(superblock.record_bytes_max)) {
    return fail(Errc::corrupt, "store.meta: its geometry does not hold together");
  }
  return superblock;
}

std::string segment_file_name(std::uint32_t segment) {
  return fmt::format("segment-{:08}", segment);
}

std::optional<std::uint32_t> parse_segment_file_name(const std::string& name) {
  constexpr std::string_view prefix = "segment-";
  if (!name.starts_with(prefix) || name.size() != prefix.size() + 8) return std::nullopt;
  const std::string digits = name.substr(prefix.size());
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const unsigned long number = std::stoul(digits);
  if (number >= kSegmentsMax) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

Result<Superblock> read_superblock(Disk& disk, const std::string& path) {
  const std::string file = path + "/" + kSuperblockName;
  const auto bytes = read_file(disk, file, 16 * kPageBytes);
  if (!bytes && is_missing(bytes.error()))
    return fail(Errc::invalid, fmt::format("{} is no store of Tiercel (no store.meta)", path));
  if (!bytes) return bytes.error();
  auto superblock = parse_superblock(*bytes);
  if (!superblock)
    return fail(superblock.error().code, fmt::format("{}: {}", path, superblock.error().what));
  return superblock;
}

Result<std::unique_ptr<StoreDirectory>> StoreDirectory::open(Disk& disk, const std::string& path,
                                                             const StoreGeometry& geometry,
                                                             StoreStart start) {
  // Looked at before anything is made, so that a foreign directory stays as it is.
  const auto names = disk.list(path);
  if (!names && !is_missing(names.error())) return names.error();
  if (names && !counts_as_empty(*names) &&
      std::ranges::find(*names, kSuperblockName) == names->end()) {
    return fail(
        Errc::invalid,
        fmt::format(
            "{} is not empty and is no store of Tiercel (it holds {}); give an empty directory",
            path, names->front()));
  }
  std::unique_ptr<StoreDirectory> store(new StoreDirectory(disk, path, geometry.capacity_bytes));
  if (names && std::ranges::find(*names, kSuperblockName) != names->end()) {
    const auto superblock = read_superblock(disk, path);
    if (!superblock && !may_replace(superblock.error(), geometry, start)) return superblock.error();
    if (superblock) TIERCEL_TRY_VOID(check_purpose(path, superblock->purpose, geometry.purpose));
  }
  TIERCEL_TRY_VOID(disk.make_directory(path));
  TIERCEL_TRY(store->lock_,
              disk.lock(path + "/" + kStoreLockName, fmt::format("tiercel pid {}\n", ::getpid())));
  store->format_bytes_ += kPageBytes;
  TIERCEL_TRY(store->directory_, disk.open_directory(path));
  TIERCEL_TRY_VOID(store->load_or_create(geometry, start));
  TIERCEL_TRY_VOID(store->open_segments(start));
  return store;
}

Result<void> StoreDirectory::load_or_create(const StoreGeometry& geometry, StoreStart start) {
  // Read again under the lock: the epoch may have moved since.
  const auto found = read_superblock(disk_, path_);
  if (!found && !may_replace(found.error(), geometry, start)) {
    const auto names = disk_.list(path_);
    if (!names || !counts_as_empty(*names)) return found.error();
  }
  if (found) {
    TIERCEL_TRY_VOID(check_purpose(path_, found->purpose, geometry.purpose));
    superblock_ = *found;
  }
  superblock_.purpose = geometry.purpose;
  const bool fresh = !found || start == StoreStart::empty;
  if (fresh) {
    if (!found) superblock_.store = new_uuid();
    if (geometry.segment_bytes != 0) superblock_.segment_bytes = geometry.segment_bytes;
    if (geometry.record_bytes_max != 0) superblock_.record_bytes_max = geometry.record_bytes_max;
  }
  const Superblock& s = superblock_;
  if (s.segment_bytes % kPageBytes != 0 || s.record_bytes_max == 0 ||
      s.segment_bytes < segment_bytes_min(s.record_bytes_max) || s.segment_bytes >= (1ULL << 43)) {
    return fail(Errc::invalid, fmt::format("{}: segments of {} bytes do not suit records of up to "
                                           "{}: give whole pages, at least {}",
                                           path_, s.segment_bytes, s.record_bytes_max,
                                           segment_bytes_min(s.record_bytes_max)));
  }
  if ((geometry.segment_bytes != 0 && geometry.segment_bytes != s.segment_bytes) ||
      geometry.record_bytes_max > s.record_bytes_max) {
    return fail(Errc::invalid, fmt::format("{}: this store was made for segments of {} and records "
                                           "of up to {} bytes, not {} and {}; "
                                           "use those or empty it",
                                           path_, s.segment_bytes, s.record_bytes_max,
                                           geometry.segment_bytes, geometry.record_bytes_max));
  }
  segment_count_max_ = std::min(segments_max(capacity_bytes_, s.segment_bytes), kSegmentsMax);
  if (segment_count_max_ < 2) {
    return fail(Errc::invalid,
                fmt::format("{}: a capacity of {} bytes holds {} segments of {}; two are the least",
                            path_, capacity_bytes_, segment_count_max_, s.segment_bytes));
  }
  return {};
}

Result<void> StoreDirectory::open_segments(StoreStart start) {
  files_.resize(segment_count_max_);
  TIERCEL_TRY(const auto names, disk_.list(path_));
  physical_bytes_ = 2 * kPageBytes;  // Superblock and lock.
  bool removed = false;
  for (const std::string& name : names) {
    const auto segment = parse_segment_file_name(name);
    const std::string file_path = path_ + "/" + name;
    if (name == kTemporaryName || (segment && start == StoreStart::empty)) {
      TIERCEL_TRY_VOID(disk_.remove(file_path));
      removed = true;
      continue;
    }
    if (!segment) continue;  // Somebody else's: neither used nor touched.
    if (*segment >= segment_count_max_) {
      return fail(Errc::invalid, fmt::format("{}: {} lies beyond the capacity of {} bytes ({} "
                                             "segments); give more or empty the store",
                                             path_, name, capacity_bytes_, segment_count_max_));
    }
    TIERCEL_TRY(auto file, disk_.open(file_path, {.write = true, .direct = true}));
    TIERCEL_TRY(const FileStatus status, file->status());
    if (status.bytes != superblock_.segment_bytes) {  // Half made when a process died.
      TIERCEL_TRY_VOID(disk_.remove(file_path));
      removed = true;
      continue;
    }
    physical_bytes_ += status.allocated_bytes;
    files_[*segment] = std::move(file);
  }
  if (physical_bytes_ > capacity_bytes_) {
    return fail(Errc::invalid,
                fmt::format("{}: takes {} bytes of the disk, more than its capacity of {}", path_,
                            physical_bytes_, capacity_bytes_));
  }
  if (removed) TIERCEL_TRY_VOID(directory_->sync());
  ++superblock_.epoch;
  return write_superblock();
}

Result<void> StoreDirectory::write_superblock() {
  format_bytes_ += kPageBytes;
  return replace_file(disk_, path_, kSuperblockName, encode_superblock(superblock_));
}

std::string StoreDirectory::segment_path(std::uint32_t segment) const {
  return path_ + "/" + segment_file_name(segment);
}

Result<File*> StoreDirectory::make_segment_file(std::uint32_t segment) {
  std::unique_ptr<File>& slot = files_[segment];
  if (slot) return slot.get();
  TIERCEL_TRY(auto file,
              disk_.open(segment_path(segment), {.write = true, .create = true, .direct = true}));
  auto outcome = file->allocate(superblock_.segment_bytes);
  std::uint64_t taken = 0;
  if (outcome) {
    const auto status = file->status();
    if (!status) {
      outcome = status.error();
    } else if (taken = status->allocated_bytes; physical_bytes_ + taken > capacity_bytes_) {
      outcome = fail(Errc::no_space,
                     fmt::format("{}: segment {} takes {} bytes, which would pass the cap of {}",
                                 path_, segment, taken, capacity_bytes_));
    }
  }
  if (!outcome) {
    const auto removed = disk_.remove(segment_path(segment));
    static_cast<void>(
        removed);  // The first error is the one to tell; what stays is removed at the next open.
    return outcome.error();
  }
  physical_bytes_ += taken;
  slot = std::move(file);
  return slot.get();
}

}  // namespace tiercel
