// The cold tier as the core sees it: a log of segments, group commit, reclaim of whole segments.
//
// Life    reserve() -> write -> wrote() -> commit -> present. A block is readable from cold only after the commit that made
//         it durable. One commit is under way at a time; it takes what was written before it began.
// Reclaim The oldest sealed segments give up their blocks when fewer free ones than the spares are left. At most 10 % of a
//         segment's bytes move on: blocks hit since they were written, and blocks with children stored in other segments. It
//         is free once its moves are committed. A segment that readers, leases or uncommitted records hold is not waited
//         for: with no free segment reserve() refuses, and the store is skipped.
// Threads one thread.
// Source  docs/adr/0003-cold-space.md
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cache/block_table.h"
#include "cache/outbox.h"
#include "tier/segment_account.h"

namespace tiercel {

class ColdLog {
 public:
  struct Options {
    SegmentGeometry geometry;
    std::uint64_t sync_bytes = 0;       // Physical. 0: by time alone.
    std::int64_t sync_interval_ns = 0;  // 0: by bytes alone.
    std::uint64_t staging_bytes = 0;    // Writes and moves in flight, at most.
  };

  struct Counts {
    std::uint64_t stored = 0, moved = 0, evicted = 0, reclaims = 0, commits = 0;
  };

  ColdLog(Options options, BlockTable& table, Outbox& outbox);

  bool staging_has_room(std::uint64_t bytes) const {
    return in_flight_bytes_ + bytes <= options_.staging_bytes;
  }

  // A place for a new record of the block, which is now `arriving`; nullopt where no segment can be had without waiting.
  std::optional<Place> reserve(BlockId id);

  void wrote(BlockId id);   // The write is over: `written`, until a commit.
  void failed(BlockId id);  // The write failed: absent again, its place stays unused.
  void moved(BlockId id, const Place& source, const Place& target);  // A move's copy is over.
  void move_failed(BlockId id, const Place& source,
                   const Place& target);  // The block is lost with its segment.
  void commit_done();                     // Publishes what the commit covered.
  // Nobody knows what of it is durable: nothing written since the last good commit is published, and no store follows.
  void commit_failed();
  bool writable() const { return writable_; }
  bool commit_if_due();  // By bytes and time; emits the commit. True if it did.
  bool commit_now();     // Whatever is written; false where there is nothing or one is under way.
  bool commit_under_way() const { return commit_under_way_; }
  bool anything_uncommitted() const { return !written_.empty() || commit_under_way_; }
  std::optional<std::int64_t> commit_due_ns() const;

  void hold(const Place& place) { account_.hold(place.segment); }
  void unhold(const Place& place);

  // The block's record proved bad or unwanted: it leaves cold (its space comes back with its segment).
  void forget(BlockId id);

  // Takes over what a restart found, oldest segment first.
  void restore(std::uint32_t segment, std::vector<SegmentAccount::Entry> entries);

  const Counts& counts() const { return counts_; }
  std::uint64_t physical_bytes() const { return account_.physical_bytes(); }
  const SegmentAccount& account() const { return account_; }

 private:
  struct Written {
    BlockId id;
    Place place;
    std::optional<Place> moved_from;
  };

  bool open_segment();
  void reclaim_ahead();
  void empty_segment(std::uint32_t segment);
  std::vector<bool> choose_movers(std::uint32_t segment) const;
  void start_move(BlockId id);
  void become_absent(BlockId id);
  void drop(BlockId id);
  void finish_reclaims();
  bool lives_at(BlockId id, const Place& place) const;

  const Options options_;
  const std::uint32_t
      spares_;  // Free segments to keep: what is written between two commits needs room.
  BlockTable& table_;
  Outbox& outbox_;
  SegmentAccount account_;
  std::uint64_t in_flight_bytes_ = 0;
  std::vector<Written> written_;  // Since the last commit began.
  std::vector<Written> committing_;
  std::uint64_t written_bytes_ = 0;
  std::int64_t first_written_ns_ = 0;
  bool commit_under_way_ = false;
  bool writable_ = true;
  std::vector<std::uint32_t> reclaiming_;  // Emptied, and held by their moves or readers.
  Counts counts_;
};

}  // namespace tiercel
