#include "tier/store_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>

namespace tiercel {
namespace {

constexpr const char* kTemporaryName = "store.meta.tmp";
constexpr std::uint32_t kSegmentsMax = 1U << 20;

StoreUuid new_uuid() {
  std::random_device source;
  StoreUuid uuid;
  for (std::uint8_t& byte : uuid) byte = static_cast<std::uint8_t>(source());
  return uuid;
}

// Only what a start of ours that was cut short may leave behind counts as empty.
bool counts_as_empty(const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [](const std::string& name) {
    return name == kStoreLockName || name == kTemporaryName || name == kSelfTestName;
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
    if (superblock) {
      TIERCEL_TRY_VOID(check_purpose(path, superblock->purpose, geometry.purpose));
      const auto checkpoint =
          read_checkpoint(disk, path, superblock->store, superblock->segment_bytes);
      if (!checkpoint) return checkpoint.error();
    }
  }
  TIERCEL_TRY_VOID(disk.make_directory(path));
  TIERCEL_TRY(store->lock_,
              disk.lock(path + "/" + kStoreLockName, fmt::format("tiercel pid {}\n", ::getpid())));
  store->format_bytes_ += kPageBytes;
  TIERCEL_TRY(store->directory_, disk.open_directory(path));
  TIERCEL_TRY_VOID(store->load_or_create(geometry, start));
  TIERCEL_TRY_VOID(store->open_files(start));
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

struct StoreDirectory::FoundSegment {
  std::uint32_t segment = 0;
  std::unique_ptr<File> file;
  FileStatus status;
};

Result<void> StoreDirectory::open_files(StoreStart start) {
  files_.resize(segment_count_max_);
  physical_bytes_ = 2 * kPageBytes;  // Superblock and lock.
  TIERCEL_TRY(const auto names, disk_.list(path_));
  std::vector<FoundSegment> found;
  if (start == StoreStart::recover) {
    TIERCEL_TRY(checkpoint_,
                read_checkpoint(disk_, path_, superblock_.store, superblock_.segment_bytes));
    TIERCEL_TRY_VOID(survey(names, found));
  }
  // Everything that could be refused has been: from here on files change.
  bool removed = false;
  for (const std::string& name : names) {
    const bool leftover = name == kTemporaryName || name == kSelfTestName;
    const bool emptied =
        start == StoreStart::empty && (parse_segment_file_name(name) || name == kCheckpointName);
    if (!leftover && !emptied) continue;  // Perhaps somebody else's: neither used nor touched.
    TIERCEL_TRY_VOID(disk_.remove(path_ + "/" + name));
    if (leftover) ++leftovers_removed_;
    removed = true;
  }
  for (FoundSegment& one : found) {
    if (one.status.bytes == 0) {  // Made, and its process died before it was reserved.
      TIERCEL_TRY_VOID(disk_.remove(one.file->path()));
      ++leftovers_removed_;
      removed = true;
      continue;
    }
    if (one.status.bytes != superblock_.segment_bytes) {
      if (const auto whole = bring_to_length(one); !whole) {
        if (whole.error().code != Errc::no_space) return whole.error();
        notes_.push_back(whole.error().what);
        left_out_[one.segment] = one.status.allocated_bytes;
        one.file.reset();
      } else {
        resized_.insert(one.segment);
      }
    }
    physical_bytes_ += one.status.allocated_bytes;
    files_[one.segment] = std::move(one.file);
  }
  if (removed) TIERCEL_TRY_VOID(directory_->sync());
  ++superblock_.epoch;
  TIERCEL_TRY_VOID(write_superblock());
  // After the superblock: a directory that holds a checkpoint and no superblock would look like somebody else's.
  if (const auto made = make_checkpoint_file(); !made) {
    checkpoint_file_.reset();
    notes_.push_back(fmt::format("no checkpoints: {}", made.error().what));
  }
  return {};
}

// Opens the segment files and decides whether the store, as it will be, stays inside its capacity. Changes nothing.
Result<void> StoreDirectory::survey(const std::vector<std::string>& names,
                                    std::vector<FoundSegment>& found) {
  std::uint64_t physical_bytes = physical_bytes_ + checkpoint_.status.allocated_bytes;
  for (const std::string& name : names) {
    const auto segment = parse_segment_file_name(name);
    if (!segment) continue;
    if (*segment >= segment_count_max_) {
      return fail(Errc::invalid, fmt::format("{}: {} lies beyond the capacity of {} bytes ({} "
                                             "segments); give more or empty the store",
                                             path_, name, capacity_bytes_, segment_count_max_));
    }
    TIERCEL_TRY(auto file, disk_.open(path_ + "/" + name, {.write = true, .direct = true}));
    TIERCEL_TRY(const FileStatus status, file->status());
    if (status.bytes == superblock_.segment_bytes) {
      physical_bytes += status.allocated_bytes;
    } else if (status.bytes > 0) {
      physical_bytes += superblock_.segment_bytes;
    }
    found.push_back({.segment = *segment, .file = std::move(file), .status = status});
  }
  if (physical_bytes > capacity_bytes_) {
    return fail(Errc::invalid,
                fmt::format("{}: takes {} bytes of the disk, more than its capacity of {}", path_,
                            physical_bytes, capacity_bytes_));
  }
  return {};
}

// Shorter: somebody cut it off, or the reservation was. Longer: what lies behind its end was never ours.
Result<void> StoreDirectory::bring_to_length(FoundSegment& found) {
  File& file = *found.file;
  if (found.status.bytes > superblock_.segment_bytes)
    TIERCEL_TRY_VOID(file.truncate(superblock_.segment_bytes));
  if (auto reserved = file.allocate(superblock_.segment_bytes); !reserved) {
    Error error = reserved.error();
    error.what = fmt::format(
        "{}: it has {} bytes instead of {}, and the rest cannot be had, so its records stay out of "
        "use; make room and open again: {}",
        file.path(), found.status.bytes, superblock_.segment_bytes, error.what);
    TIERCEL_TRY(found.status, file.status());  // The reservation may have begun.
    return error;
  }
  TIERCEL_TRY_VOID(file.sync());
  TIERCEL_TRY(found.status, file.status());
  return {};
}

Result<void> StoreDirectory::make_checkpoint_file() {
  const std::uint64_t bytes = checkpoint_file_bytes(superblock_.segment_bytes);
  TIERCEL_TRY(checkpoint_file_, disk_.open(path_ + "/" + kCheckpointName,
                                           {.write = true, .create = true, .direct = true}));
  TIERCEL_TRY(FileStatus status, checkpoint_file_->status());
  const bool whole = status.bytes == bytes;
  if (status.bytes > bytes) TIERCEL_TRY_VOID(checkpoint_file_->truncate(bytes));
  if (!whole) {
    if (physical_bytes_ + bytes > capacity_bytes_) {
      return fail(Errc::no_space, fmt::format("{}: {} bytes more would pass the cap of {}",
                                              checkpoint_file_->path(), bytes, capacity_bytes_));
    }
    TIERCEL_TRY_VOID(checkpoint_file_->allocate(bytes));
    TIERCEL_TRY_VOID(checkpoint_file_->sync());
    TIERCEL_TRY_VOID(directory_->sync());
    TIERCEL_TRY(status, checkpoint_file_->status());
  }
  physical_bytes_ += status.allocated_bytes;
  return {};
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
  const auto left_out = left_out_.find(segment);
  const std::uint64_t had = left_out == left_out_.end() ? 0 : left_out->second;
  const std::uint64_t others = physical_bytes_ - had;
  if (others + superblock_.segment_bytes + kSegmentSlackBytes > capacity_bytes_) {
    return fail(Errc::no_space,
                fmt::format("{}: segment {} of {} bytes would pass the cap of {}", path_, segment,
                            superblock_.segment_bytes, capacity_bytes_));
  }
  TIERCEL_TRY(auto file,
              disk_.open(segment_path(segment), {.write = true, .create = true, .direct = true}));
  auto outcome = left_out == left_out_.end() ? Result<void>() : file->truncate(0);
  if (outcome) outcome = file->allocate(superblock_.segment_bytes);
  std::uint64_t taken = 0;
  if (outcome) {
    const auto status = file->status();
    if (!status) {
      outcome = status.error();
    } else if (taken = status->allocated_bytes; others + taken > capacity_bytes_) {
      outcome = fail(Errc::no_space,
                     fmt::format("{}: segment {} takes {} bytes, which would pass the cap of {}",
                                 path_, segment, taken, capacity_bytes_));
    }
  }
  if (!outcome) {
    const auto removed = disk_.remove(segment_path(segment));
    // The first error is the one to tell. What stays has no header: empty, it is removed at the next open; else it is free.
    static_cast<void>(removed);
    if (removed && had > 0) {
      physical_bytes_ = others;
      left_out_.erase(left_out);
    }
    return outcome.error();
  }
  physical_bytes_ = others + taken;
  left_out_.erase(segment);
  slot = std::move(file);
  return slot.get();
}

Result<std::uint64_t> roomy_capacity(Disk& disk, const std::string& path) {
  constexpr std::uint64_t least = 4 * kMiB;  // Whatever a user of the store keeps beside it.
  TIERCEL_TRY(const Superblock superblock, read_superblock(disk, path));
  TIERCEL_TRY(const auto names, disk.list(path));
  std::uint64_t count = 4;
  for (const std::string& name : names) {
    if (const auto segment = parse_segment_file_name(name))
      count = std::max<std::uint64_t>(count, *segment + 1);
  }
  return least + store_bytes(superblock.segment_bytes, 2 * count);
}

}  // namespace tiercel
