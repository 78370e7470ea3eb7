#include "tier/segment_account.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/check.h"
#include "tier/segment_format.h"

namespace tiercel {
namespace {

constexpr std::uint32_t kSegmentsMin = 4;  // Open, spare, one being emptied, one to hold something.
constexpr std::uint32_t kSegmentsWanted =
    16;  // Reclaim gives up 1/16 of the cache at a time, at most.

}  // namespace

Result<SegmentGeometry> SegmentGeometry::fit(std::uint64_t capacity_bytes,
                                             std::uint64_t wanted_segment_bytes,
                                             std::uint64_t record_bytes_max) {
  const std::uint64_t wanted = std::min(wanted_segment_bytes, capacity_bytes / kSegmentsWanted);
  const std::uint64_t segment_bytes =
      std::max(segment_bytes_min(record_bytes_max), wanted / kPageBytes * kPageBytes);
  const std::uint32_t count = tiercel::segments_max(capacity_bytes, segment_bytes);
  if (count < kSegmentsMin) {
    return fail(Errc::invalid,
                fmt::format("cold.bytes: {} holds {} segments of {} (8 records of {} each); "
                            "at least {} are needed, that is {}",
                            exact_byte_size(capacity_bytes), count, exact_byte_size(segment_bytes),
                            exact_byte_size(record_bytes_max), kSegmentsMin,
                            exact_byte_size(store_bytes(segment_bytes, kSegmentsMin))));
  }
  return SegmentGeometry{.segment_bytes = segment_bytes, .segments_max = count};
}

SegmentAccount::SegmentAccount(SegmentGeometry geometry)
    : geometry_(geometry), segments_(geometry.segments_max) {
  for (std::uint32_t segment = 0; segment < geometry_.segments_max; ++segment) {
    free_.push_back(segment);
  }
}

bool SegmentAccount::fits_open(std::uint64_t bytes) const {
  if (!open_) return false;
  const Segment& segment = segments_[*open_];
  return segment_has_room(geometry_.segment_bytes, segment.end, bytes, segment.entries.size() + 1);
}

std::optional<Place> SegmentAccount::append(std::uint32_t id, std::uint64_t bytes) {
  if (!fits_open(bytes)) return std::nullopt;
  Segment& segment = segments_[*open_];
  const Place place{.segment = *open_, .offset = segment.end, .bytes = bytes};
  segment.end += bytes;
  segment.entries.push_back({.id = id, .place = place});
  return place;
}

std::uint32_t SegmentAccount::seal() {
  TIERCEL_CHECK(open_.has_value());
  const std::uint32_t segment = *open_;
  sealed_.push_back(segment);
  open_.reset();
  return segment;
}

std::uint32_t SegmentAccount::open_next() {
  TIERCEL_CHECK(!open_ && !free_.empty());
  open_ = free_.front();
  free_.pop_front();
  Segment& segment = segments_[*open_];
  segment.end = kSegmentHeaderBytes;
  if (!segment.touched) ++touched_;
  segment.touched = true;
  return *open_;
}

std::optional<std::uint32_t> SegmentAccount::oldest_sealed() const {
  if (sealed_.empty()) return std::nullopt;
  return sealed_.front();
}

std::uint32_t SegmentAccount::begin_reclaim() {
  TIERCEL_CHECK(!sealed_.empty());
  const std::uint32_t segment = sealed_.front();
  sealed_.pop_front();
  return segment;
}

void SegmentAccount::release(std::uint32_t segment) {
  TIERCEL_CHECK(!held(segment));
  segments_[segment].entries.clear();
  free_.push_back(segment);
}

void SegmentAccount::unhold(std::uint32_t segment) {
  TIERCEL_CHECK(held(segment));
  --segments_[segment].holds;
}

void SegmentAccount::restore(std::uint32_t segment, std::vector<Entry> entries) {
  const auto position = std::find(free_.begin(), free_.end(), segment);
  TIERCEL_CHECK(position != free_.end() && !open_);
  free_.erase(position);
  segments_[segment].entries = std::move(entries);
  segments_[segment].touched = true;
  ++touched_;
  sealed_.push_back(segment);
}

}  // namespace tiercel
