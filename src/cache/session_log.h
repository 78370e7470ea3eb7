// The account of a session store's segments: where each record lies, who refers to it, which segment is worth emptying.
//
// Shape   A record is alive while it has references: one per manifest entry that lists it, and one per suspend under way. The
//         last reference takes it out of the index; its bytes are dead until their segment starts a new life.
// Segments  free -> open -> sealed -> (emptied) -> free; at most one is open. One free segment is the spare: only what is moved out
//         of another segment may take it, so that there is always somewhere to move to.
// Lost    A record that is referred to and proved bad, or was not found at open: it has no place, until it is written anew.
// Pure    No I/O: a place is promised, and the store carries it out.
// Cost    find, put, release O(1); victim O(segments). About 100 bytes per record alive.
// Threads one thread.
// Source  docs/adr/0006-sessions.md
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/key.h"
#include "tier/segment_account.h"

namespace tiercel {

class SessionLog {
 public:
  struct Entry {
    Place place;
    Fingerprint fingerprint;
    std::uint32_t references = 0;
    bool lost = false;
  };

  SessionLog(SegmentGeometry geometry, std::uint64_t record_bytes_max);

  const SegmentGeometry& geometry() const { return geometry_; }

  // Null where nobody refers to it.
  const Entry* find(const Key& key) const;
  // True where its bytes can be read.
  bool holds(const Key& key) const;

  // --- References ---

  // A record that was written: its first reference is the caller's. One that was lost keeps its references and gets one more.
  void put(const Key& key, const Fingerprint& fingerprint, const Place& place);
  // One more; where it is not known it is lost from the start. For manifests found at open, and for what is held already.
  void retain(const Key& key);
  void release(const Key& key);
  void lose(const Key& key);

  // --- Places ---

  bool fits_open(std::uint64_t bytes) const;
  // In the open segment. Requires fits_open(bytes).
  Place append(std::uint64_t bytes);
  std::optional<std::uint32_t> open_segment() const { return open_; }
  std::uint32_t seal();  // Requires an open segment; returns it.
  // True where a segment can be opened; `move`: the spare included.
  bool can_open(bool move) const { return free_.size() > (move ? 0U : 1U); }
  // Requires that, and no open segment. Takes one that was used before, where there is one: its file exists, also on a full disk.
  void open_next();
  void
  committed();  // What has been given a place so far was written: the files of its segments exist.

  // --- Compaction ---

  // What was opened before this call may be emptied, what is opened later may not: of its own records a suspend moves at most
  // those that came into the segment which was open when it began, once that is sealed; and never one twice.
  void begin_round() { round_ = opened_; }
  // The sealed segment of earlier rounds that gives most back: dead records, and an end that was left free though the largest
  // record would have fitted. nullopt where none gives anything.
  std::optional<std::uint32_t> victim() const;
  // What emptying all that may be emptied in this round can give at most, the end of the open segment included.
  std::uint64_t gain_bytes() const;
  void pass_over(std::uint32_t segment);  // No victim in this round.
  // A sealed segment in which nothing lives.
  std::optional<std::uint32_t> dead() const;
  // What lives in the segment, in order of offset.
  std::vector<std::pair<Key, Place>> alive_in(std::uint32_t segment) const;
  void moved(const Key& key, const Place& to);
  // Requires that nothing lives in it.
  void reclaim(std::uint32_t segment);

  // --- Start ---

  // A segment found at open: sealed, with these records, of which later ones stand for earlier. Call in order of sequence, then
  // retain() what manifests list, then end_restore().
  void restore(std::uint32_t segment, std::uint64_t end,
               std::vector<std::pair<Key, Entry>> records);
  // Drops what nobody refers to. Where no segment is free or can be freed at once, a crash cut a move short that had taken the
  // spare: returns the records of the last segment as they lay before, to be moved() back if they are still good there; empty
  // where there is nothing to do or not all of them lay elsewhere.
  std::vector<std::pair<Key, Place>> end_restore();

  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t records() const { return index_.size(); }
  // Room for records in all segments but the spare: what could live at most, were they packed without a gap.
  std::uint64_t usable_bytes() const;

 private:
  struct Segment {
    std::vector<Key> keys;               // Of this life, dead ones included.
    std::uint64_t end = 0, records = 0;  // Of all that were given a place, written or not.
    std::uint64_t live_bytes = 0;
    std::uint64_t opened = 0;  // A number that grows.
    bool sealed = false;
    bool has_file = false;
  };

  void start(std::uint32_t segment, std::uint64_t end);
  void leave(const Entry& entry);
  std::uint64_t gain(const Segment& segment) const;

  const SegmentGeometry geometry_;
  const std::uint64_t record_bytes_max_;
  std::vector<Segment> segments_;
  std::deque<std::uint32_t> free_;
  std::optional<std::uint32_t> open_;
  std::unordered_map<Key, Entry> index_;
  std::unordered_map<Key, Place> earlier_;  // While restoring: where a record lay before.
  std::uint64_t live_bytes_ = 0;
  std::uint64_t opened_ = 0, round_ = 0;
};

}  // namespace tiercel
