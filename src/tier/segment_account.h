// The account of a segment log: which segment a record goes to, which is sealed, which is reclaimed next. Pure: the cache
// core holds it and decides with it, the cold tier executes; so a simulation and a driven run agree to the byte.
//
// Shape   `segments_max` segments of `segment_bytes`: one header page, records from there on, and at the end room for an
//         index of all its records. At most one segment is open. A record never spans two.
// States  free -> open -> sealed -> (emptied) -> free. Sealed segments are reclaimed oldest first. One free segment is
//         kept as a spare while there is one, so that what a reclaim moves always has somewhere to go.
// Records Named by the caller's dense id. An entry stays in its segment's list when the block is dropped; the caller knows
//         by the block's current place whether it still lives there.
// Holds   Readers, writes in flight and uncommitted records hold a segment: it must not be emptied under them.
// Threads one thread.
// Source  docs/formats/segment.md (the geometry), docs/adr/0003-cold-space.md (the rules)
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tier/tier.h"

namespace tiercel {

struct SegmentGeometry {
  std::uint64_t segment_bytes = 0;  // A multiple of 4096.
  std::uint32_t segments_max = 0;

  // The geometry that fits `capacity_bytes`: `wanted_segment_bytes`, made smaller where the capacity would hold fewer than
  // 16 of them, never below 8 of the largest records; metadata pages and one page of file-system slack per segment stay
  // inside the cap. Errors: invalid where fewer than 4 segments fit; the text says what would.
  static Result<SegmentGeometry> fit(std::uint64_t capacity_bytes,
                                     std::uint64_t wanted_segment_bytes,
                                     std::uint64_t record_bytes_max);

  bool operator==(const SegmentGeometry&) const = default;
};

class SegmentAccount {
 public:
  struct Entry {
    std::uint32_t id = 0;
    Place place;
  };

  explicit SegmentAccount(SegmentGeometry geometry);

  const SegmentGeometry& geometry() const { return geometry_; }

  // Appends a record to the open segment; nullopt where none is open or the record does not fit in what is left of it.
  std::optional<Place> append(std::uint32_t id, std::uint64_t bytes);

  // True where append(bytes) would succeed.
  bool fits_open(std::uint64_t bytes) const;

  std::optional<std::uint32_t> open_segment() const { return open_; }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }

  // The open segment is full: no record will follow. Requires an open segment; returns it.
  std::uint32_t seal();

  // Opens the free segment that was freed first. Requires free_count() > 0 and no open segment.
  std::uint32_t open_next();

  // The oldest sealed segment, the next to be reclaimed; nullopt where none is sealed.
  std::optional<std::uint32_t> oldest_sealed() const;

  // The records of a segment in order of offset, dropped ones included.
  const std::vector<Entry>& entries(std::uint32_t segment) const {
    return segments_[segment].entries;
  }

  // Takes the oldest sealed segment out of the queue; it stays occupied until release().
  std::uint32_t begin_reclaim();
  // An emptied segment becomes free. Requires that nothing holds it.
  void release(std::uint32_t segment);

  void hold(std::uint32_t segment) { ++segments_[segment].holds; }
  void unhold(std::uint32_t segment);
  bool held(std::uint32_t segment) const { return segments_[segment].holds > 0; }

  // Physical bytes of the segments that exist as files: a segment once opened keeps its file.
  std::uint64_t physical_bytes() const { return touched_ * geometry_.segment_bytes; }

  // Rebuilds from what a restart found on disk, in order of sequence; segments not named are free. Call before any append.
  // A segment that was open at the crash comes back sealed: appending behind an unknown tail is not worth its risk.
  void restore(std::uint32_t segment, std::vector<Entry> entries);

 private:
  struct Segment {
    std::vector<Entry> entries;
    std::uint64_t end = 0;  // Where the next record goes.
    std::uint32_t holds = 0;
    bool touched = false;
  };

  const SegmentGeometry geometry_;
  std::vector<Segment> segments_;
  std::deque<std::uint32_t> free_;
  std::deque<std::uint32_t> sealed_;  // Oldest first.
  std::optional<std::uint32_t> open_;
  std::uint64_t touched_ = 0;
};

}  // namespace tiercel
