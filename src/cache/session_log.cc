#include "cache/session_log.h"

#include <algorithm>

#include "base/check.h"
#include "tier/segment_format.h"

namespace tiercel {

SessionLog::SessionLog(SegmentGeometry geometry, std::uint64_t record_bytes_max)
    : geometry_(geometry), record_bytes_max_(record_bytes_max), segments_(geometry.segments_max) {
  for (std::uint32_t segment = 0; segment < geometry_.segments_max; ++segment)
    free_.push_back(segment);
}

const SessionLog::Entry* SessionLog::find(const Key& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &found->second;
}

bool SessionLog::holds(const Key& key) const {
  const Entry* const entry = find(key);
  return entry != nullptr && !entry->lost;
}

void SessionLog::put(const Key& key, const Fingerprint& fingerprint, const Place& place) {
  Entry& entry = index_[key];
  TIERCEL_CHECK(entry.references == 0 || entry.lost);
  entry.place = place;
  entry.fingerprint = fingerprint;
  entry.lost = false;
  ++entry.references;
  Segment& segment = segments_[place.segment];
  segment.keys.push_back(key);
  segment.live_bytes += place.bytes;
  live_bytes_ += place.bytes;
}

void SessionLog::retain(const Key& key) {
  const auto [found, fresh] = index_.try_emplace(key);
  if (fresh) found->second.lost = true;
  ++found->second.references;
}

void SessionLog::release(const Key& key) {
  const auto found = index_.find(key);
  TIERCEL_CHECK(found != index_.end() && found->second.references > 0);
  if (--found->second.references > 0) return;
  leave(found->second);
  index_.erase(found);
}

void SessionLog::lose(const Key& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return;
  leave(found->second);
  found->second.lost = true;
  found->second.place = {};
}

void SessionLog::leave(const Entry& entry) {
  if (entry.lost) return;
  segments_[entry.place.segment].live_bytes -= entry.place.bytes;
  live_bytes_ -= entry.place.bytes;
}

bool SessionLog::fits_open(std::uint64_t bytes) const {
  if (!open_) return false;
  const Segment& segment = segments_[*open_];
  return segment_has_room(geometry_.segment_bytes, segment.end, bytes, segment.records + 1);
}

Place SessionLog::append(std::uint64_t bytes) {
  TIERCEL_CHECK(fits_open(bytes));
  Segment& segment = segments_[*open_];
  const Place place{.segment = *open_, .offset = segment.end, .bytes = bytes};
  segment.end += bytes;
  ++segment.records;
  return place;
}

std::uint32_t SessionLog::seal() {
  TIERCEL_CHECK(open_.has_value());
  const std::uint32_t segment = *open_;
  segments_[segment].sealed = true;
  open_.reset();
  return segment;
}

void SessionLog::open_next() {
  TIERCEL_CHECK(!open_ && !free_.empty());
  auto next = std::ranges::find_if(
      free_, [this](std::uint32_t segment) { return segments_[segment].has_file; });
  if (next == free_.end()) next = free_.begin();
  open_ = *next;
  free_.erase(next);
  start(*open_, kSegmentHeaderBytes);
}

void SessionLog::start(std::uint32_t segment, std::uint64_t end) {
  const bool has_file = segments_[segment].has_file;
  segments_[segment] = {.keys = {}, .end = end, .opened = ++opened_, .has_file = has_file};
}

void SessionLog::committed() {
  for (Segment& segment : segments_) segment.has_file = segment.has_file || segment.records > 0;
}

std::uint64_t SessionLog::gain(const Segment& segment) const {
  const std::uint64_t dead = segment.end - kSegmentHeaderBytes - segment.live_bytes;
  const bool unfinished = segment_has_room(geometry_.segment_bytes, segment.end, record_bytes_max_,
                                           segment.records + 1);
  return dead + (unfinished ? geometry_.segment_bytes - segment.end : 0);
}

std::optional<std::uint32_t> SessionLog::victim() const {
  std::optional<std::uint32_t> best;
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    if (!segment.sealed || segment.opened > round_ || gain(segment) <= most) continue;
    best = i;
    most = gain(segment);
  }
  return best;
}

std::uint64_t SessionLog::gain_bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    // Not its gain alone: an end too short for the largest record adds up as well once what lives is packed anew.
    const bool gives = open_ == i || (segment.sealed && gain(segment) > 0);
    if (gives && segment.opened <= round_) {
      bytes += geometry_.segment_bytes - kSegmentHeaderBytes - segment.live_bytes;
    } else if (open_ == i) {
      bytes += geometry_.segment_bytes - segment.end;
    }
  }
  return bytes;
}

void SessionLog::pass_over(std::uint32_t segment) { segments_[segment].opened = ++opened_; }

std::optional<std::uint32_t> SessionLog::dead() const {
  const auto found = std::ranges::find_if(
      segments_, [](const Segment& segment) { return segment.sealed && segment.live_bytes == 0; });
  if (found == segments_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - segments_.begin());
}

std::vector<std::pair<Key, Place>> SessionLog::alive_in(std::uint32_t segment) const {
  std::vector<std::pair<Key, Place>> alive;
  for (const Key& key : segments_[segment].keys) {
    const Entry* const entry = find(key);
    if (entry != nullptr && !entry->lost && entry->place.segment == segment)
      alive.emplace_back(key, entry->place);
  }
  std::ranges::sort(alive, {}, [](const auto& one) { return one.second.offset; });
  // A key that was written twice into the segment stands in its list twice, and lives once.
  const auto twice =
      std::ranges::unique(alive, {}, [](const auto& one) { return one.second.offset; });
  alive.erase(twice.begin(), twice.end());
  return alive;
}

void SessionLog::moved(const Key& key, const Place& to) {
  Entry& entry = index_.at(key);
  TIERCEL_CHECK(!entry.lost);
  leave(entry);
  entry.place = to;
  segments_[to.segment].keys.push_back(key);
  segments_[to.segment].live_bytes += to.bytes;
  live_bytes_ += to.bytes;
}

void SessionLog::reclaim(std::uint32_t segment) {
  TIERCEL_CHECK(segments_[segment].sealed && segments_[segment].live_bytes == 0);
  const bool has_file = segments_[segment].has_file;
  segments_[segment] = {.keys = {}, .has_file = has_file};
  free_.push_back(segment);
}

void SessionLog::restore(std::uint32_t segment, std::uint64_t end,
                         std::vector<std::pair<Key, Entry>> records) {
  const auto at = std::ranges::find(free_, segment);
  TIERCEL_CHECK(at != free_.end() && !open_);
  free_.erase(at);
  start(segment, end);
  segments_[segment].records = records.size();
  segments_[segment].sealed = segments_[segment].has_file = true;
  for (auto& [key, entry] : records) {
    const auto [found, fresh] = index_.try_emplace(key, entry);
    if (!fresh) {
      earlier_[key] = found->second.place;
      leave(found->second);
      found->second = entry;
    }
    segments_[segment].keys.push_back(key);
    segments_[segment].live_bytes += entry.place.bytes;
    live_bytes_ += entry.place.bytes;
  }
}

std::vector<std::pair<Key, Place>> SessionLog::end_restore() {
  std::erase_if(index_, [this](const auto& one) {
    if (one.second.references > 0) return false;
    leave(one.second);
    return true;
  });
  const auto earlier = std::move(earlier_);
  if (!free_.empty() || dead()) return {};
  std::vector<std::pair<Key, Place>> back;
  const auto last = std::ranges::max_element(segments_, {}, &Segment::opened);
  for (const auto& [key, place] : alive_in(static_cast<std::uint32_t>(last - segments_.begin()))) {
    const auto found = earlier.find(key);
    if (found == earlier.end() || found->second.segment == place.segment) return {};
    back.emplace_back(key, found->second);
  }
  return back;
}

std::uint64_t SessionLog::usable_bytes() const {
  return (geometry_.segments_max - 1) *
         (geometry_.segment_bytes - kSegmentHeaderBytes - footer_bytes(1));
}

}  // namespace tiercel
