// The cold tier: records in a segment log on a local disk.
//
// Shape   Places are chosen by the caller (tier/segment_format.h has the geometry). Within one life of a segment, stores come
//         with growing offsets, the first at kSegmentHeaderBytes; gaps are allowed, and so is storing into several segments.
// Writes  Adjacent stores become one request of up to request_bytes_max, straight from their scatter lists; only the first page
//         of each head passes through staging, where the place echo is put in. Memory that direct I/O cannot take (alignment,
//         very many pieces) is bounced. A store waits for company while other writes are under way, never beyond them.
// Loads   Adjacent loads are read together. Each record is delivered only after place echo, head, key, fingerprint and every
//         chunk checksum fit. A place that was never written in the segment's present life is a miss or an error, not bytes.
// Commit  Waits for the writes of earlier stores, then syncs every file they touched. Later stores are written meanwhile.
//         Once a sync failed, nobody knows what is durable: every later store and commit fails, loads go on.
// Seal    Closes the segment to stores and completes at once; its footer is written once its records are durable, that is
//         after the next commit, and is itself durable with a later one. Until then the checkpoint lists its records.
// Reclaim Forgets the segment's life. The next store to it starts a new one, in place.
// Cap     StoreDirectory reserves a segment before its first store; no_space then is the outcome of that store, and nothing
//         else is lost.
// Checkpoint  What footers do not tell yet: the durable records of unsealed segments, the quarantined places. Due after every
//         quarter of a segment that was committed, so that a restart walks little more than that; it costs 0.3 % of what was
//         stored with records of 64 KiB, 5 % at the worst (records of 8 KiB). A seal makes none due: the footer that follows
//         it says more. A quarantined place does. A failed one is counted and fails nothing else.
// Restart open() finds every record that a completed commit covered, and perhaps later ones; see Recovered. Headers and footers
//         of all segments are read by several threads; what they do not tell is walked from where the checkpoint's list ends.
// Bad     A record that fails its verification is quarantined: its place is left out by every later restart. The life of its
//         segment ends that too. A sector that cannot be read at a restart costs the record that lies there, not the open.
// Scrub   Sealed segments in turn: every record that the footer lists is read and verified as a load would, a megabyte at a time,
//         at scrub_bytes_per_s by the tier's clock. It goes on inside poll() and wait(), and only while no op waits to be
//         started. What it finds is quarantined, and handed out by take_findings().
// Threads As in tier.h. open() may run on another thread than the one that uses the tier.
// Source  docs/adr/0001-interfaces-that-last.md, docs/adr/0007-checkpoint.md, docs/formats/store.md
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "io/disk.h"
#include "tier/arena.h"
#include "tier/link_meter.h"
#include "tier/quarantine.h"
#include "tier/record_check.h"
#include "tier/segment_scan.h"
#include "tier/staging_pool.h"
#include "tier/store_directory.h"
#include "tier/tier.h"

namespace tiercel {

inline constexpr std::uint64_t kScrubRequestBytes = 1 * kMiB;

struct NvmeOptions {
  StoreGeometry geometry;
  StoreStart start = StoreStart::recover;
  const Clock* clock = nullptr;  // Must outlive the tier, as must disk and arena.
  const Arena* arena = nullptr;  // Resolves handles.
  std::span<std::byte> staging =
      {};  // Page-aligned, NvmeTier::staging_bytes() of it; empty: the tier maps its own.
  std::size_t queue_ops_max = 4096;  // Undelivered completions count.
  // Source: docs/performance.md: 1-4 MiB requests with 4-16 MiB under way saturate the disk, more only adds latency.
  std::uint32_t depth = 32;
  std::uint64_t request_bytes_max = 1 * kMiB;
  std::uint64_t bytes_in_flight_max = 8 * kMiB;  // Each way.
  std::uint32_t bounce_slots = 4;
  IoEngine engine = IoEngine::best;
  std::uint64_t scrub_bytes_per_s = 0;  // 0: no scrub.
  std::uint32_t recovery_threads =
      8;  // 1: everything in the caller's thread, in order of segments.
  // When a place was quarantined, for people: seconds since 1970. Empty: the system's.
  std::function<std::int64_t()> unix_time_s = {};
};

struct RecoveredRecord {
  Key key;
  Key parent;  // All zero at the head of a chain.
  PrefixHash prefix;
  Fingerprint fingerprint;
  Kind kind;
  std::uint32_t token_count = 0;
  Place place;
};

// A segment with records (or one of unreadable_segments, perhaps with none), found at open. It is closed to stores until it is reclaimed, whether it was sealed or not.
struct RecoveredSegment {
  std::uint32_t segment = 0;
  std::uint64_t sequence = 0;
  bool sealed = false;  // Had a good footer; else it was walked, and got one now.
  std::uint64_t data_end = 0;
  std::vector<RecoveredRecord> records;
};

struct Recovered {
  std::vector<RecoveredSegment>
      segments;  // In order of sequence: a later record of a key stands for an earlier one.
  std::uint64_t torn = 0;              // Damaged records passed over.
  std::uint64_t dropped_segments = 0;  // Files with a damaged header in which nothing was found.
  std::uint64_t rescued_segments =
      0;  // The same, but records were found, and the header is good again.
  std::uint64_t walked_segments = 0;  // No good footer: read record by record.
  std::uint64_t resized_segments =
      0;  // Files of the wrong length, brought back to their own, and walked.
  // The device refused to read a part of them, or their file was cut and the disk has no room to restore its length. What could be
  // read came back. The files are left as they are for the next open; with or without records, they are closed until reclaimed.
  std::uint64_t unreadable_segments = 0;
  std::uint64_t leftovers_removed = 0;  // Files that a crash had left behind half made.
  std::uint64_t quarantined = 0;        // Places left out.
  bool checkpoint_used = false;
  std::uint32_t checkpoint_damaged = 0;  // Slots passed over.
  std::string checkpoint_note;  // Why it was not used, or what was wrong with a slot; else empty.
  std::uint64_t epoch = 0;
  double open_s = 0;
};

// A record that the scrub has found bad.
struct ScrubFinding {
  Key key;
  Place place;
  Error error;
};

class NvmeTier final : public Tier {
 public:
  struct Opened;
  static Result<Opened> open(Disk& disk, const std::string& directory, const NvmeOptions& options);

  // What `options.staging` must hold for a store of this geometry (segment_bytes and record_bytes_max set), opened with these
  // very options: the scrub has memory of its own.
  static std::uint64_t staging_bytes(const NvmeOptions& options, const StoreGeometry& geometry);

  // Waits for what is under way; a last commit is the caller's business.
  ~NvmeTier() override;

  const TierCapabilities& capabilities() const override { return capabilities_; }
  Result<Ticket> submit(std::span<const Op> ops) override;
  std::size_t poll(std::vector<Completion>& out) override;
  std::size_t wait(std::vector<Completion>& out, std::int64_t timeout_ns) override;
  void cancel(Ticket ticket) override;
  bool checkpoint_due() const override;
  TierStats stats() const override;
  LinkEstimate link() const override;

  // What the scrub has found since the last call; at most kFindingsMax are kept. By the thread that submits, as is the next.
  std::vector<ScrubFinding> take_findings();
  static constexpr std::size_t kFindingsMax = 1024;
  // When poll() should be called at the latest for the scrub to keep its rate; nullopt: there is none.
  std::optional<std::int64_t> scrub_due_ns() const;

  const Superblock& superblock() const { return directory_->superblock(); }
  std::uint32_t segment_count_max() const { return directory_->segment_count_max(); }
  std::uint64_t physical_bytes() const { return directory_->physical_bytes(); }
  const char* engine_name() const { return queue_->engine_name(); }
  std::vector<std::string> notes() const;  // Fallbacks, one sentence each.

 private:
  struct Segment {
    bool used = false;  // Has a life.
    bool header_due = false;
    bool header_in_flight = false;  // On its own, without a record.
    bool closed = false;            // Sealed or recovered: no stores.
    bool footer_due = false;        // Sealed, footer not written yet.
    bool footer_in_flight = false;
    bool footer_written = false, footer_durable = false;  // Of this life.
    std::uint64_t footer_entries = 0;                     // Of that footer.
    bool dirty = false;  // Written since its last sync was started.
    bool syncing = false;
    SegmentLife life;
    std::uint64_t next_offset = kSegmentHeaderBytes;
    std::uint32_t stores = 0, loads = 0;  // Ops under way.
    // Of this life, in the order in which they were written, until the footer is durable. A commit under way covers the first
    // `entries_syncing` of them (and the footer, if `footer_syncing`), one that is over covered the first `entries_durable`.
    std::vector<FooterEntry> entries;
    std::size_t entries_syncing = 0, entries_durable = 0;
    bool footer_syncing = false;
  };

  // An op between submit and completion.
  struct Active {
    Op op;
    Ticket ticket = 0;
    std::uint64_t group = 0;  // Of a store or a commit.
    Spans spans;
    FooterEntry entry;          // Of a store.
    std::span<std::byte> page;  // Staged first page of a store.
    std::span<std::byte> slot;  // Bounce memory.
  };

  enum class JobType : std::uint8_t {
    read,
    write,
    sync_segment,
    sync_directory,
    footer,
    checkpoint,
    sync_checkpoint,
    scrub,
  };

  // A request on the queue.
  struct Job {
    JobType type = JobType::read;
    std::uint32_t segment = 0;
    std::uint64_t bytes = 0;
    std::uint64_t format_bytes = 0;
    std::int64_t started_ns = 0;
    std::vector<std::uint32_t> ops = {};
    std::span<std::byte> header_page = {};  // Of a write that starts a life.
    SegmentLife life = {};                  // Of a footer: whose.
  };

  NvmeTier(Disk& disk, const NvmeOptions& options);
  Result<void> set_up(const std::string& directory);

  // nvme_recover.cc: what a restart finds.
  struct IndexRead;
  Result<Recovered> recover();
  Result<std::vector<IndexRead>> read_indices(const ScanOptions& options);
  Result<void> take_over(IndexRead& read, Recovered& recovered);
  void keep_closed(std::uint32_t index, const SegmentLife& life, Recovered& recovered);
  Result<void> repair_header(std::uint32_t index, const SegmentLife& life);
  Result<bool> close_recovered(std::uint32_t index, const Footer& footer);

  // nvme_tier.cc: what is asked, and in which order it may happen.
  struct SegmentPlan;
  Result<void> check(const Op& op, std::vector<SegmentPlan>& plans, Active& active) const;
  SegmentPlan& plan_of(std::vector<SegmentPlan>& plans, std::uint32_t segment) const;
  void accept(Active active);
  void pump(bool patient);
  void start_commits();
  void mark_durable(Segment& segment);
  void start_footer(std::uint32_t segment);
  void finish(std::uint32_t id, Outcome outcome, Error error = {});
  void drop_empty_groups();
  bool end_early(std::uint32_t id);
  std::size_t deliver(std::vector<Completion>& out);

  // nvme_transfer.cc: how it is carried out.
  void start_loads();
  void start_stores(bool patient);
  bool prepare_store(Active& active, std::vector<IoPiece>& pieces);
  bool prepare_load(Active& active, std::vector<IoPiece>& pieces);
  PlaceEcho echo_of(const Place& place) const;
  bool reachable(const Active& active) const;
  void start_run(std::uint32_t index, std::vector<std::uint32_t> ops, std::vector<IoPiece> pieces,
                 bool fresh_file);
  std::uint32_t take_job(JobType type, std::uint32_t segment);
  void submit_job(std::uint32_t job, File& file, IoType type, std::uint64_t offset,
                  std::vector<IoPiece> pieces);
  void reap(std::int64_t timeout_ns);
  void complete(const IoCompletion& completion);
  void complete_read(Job& job, const Result<void>& result);
  void complete_write(Job& job, const Result<void>& result);
  void complete_sync(Job& job, const Result<void>& result);
  void complete_footer(Job& job, const Result<void>& result);
  Result<bool> verify(Active& active);

  // nvme_background.cc: what nobody waits for.
  void start_checkpoint();
  Checkpoint take_checkpoint() const;
  void complete_checkpoint(Job& job, const Result<void>& result);
  void end_checkpoint(const Result<void>& result);
  void quarantine(const Place& place, const Key& key, const Error& error);
  std::int64_t unix_time_s() const;

  // nvme_scrub.cc
  struct Scrub {
    std::uint32_t segment = 0;  // Under way, or where the next one is looked for.
    bool began = false;         // The segment is under way; else all but the next lines is unset.
    SegmentLife life;
    std::vector<FooterEntry> entries;  // Empty until the footer was read.
    std::size_t next = 0,
                asked = 0;  // Of entries: the first not read yet; those of the request under way.
    std::uint64_t segments_in_round = 0;
    bool in_flight = false;
    std::int64_t due_ns = 0;
  };
  bool scrubs() const { return options_.scrub_bytes_per_s > 0; }
  void start_scrub();
  bool find_scrub_segment();
  bool scrub_segment_alive() const;
  void end_scrub_segment();
  void complete_scrub(Job& job, const Result<void>& result);
  void take_scrub_footer(std::uint64_t bytes);
  void verify_scrubbed();

  Disk& disk_;
  NvmeOptions options_;
  TierCapabilities capabilities_;
  std::unique_ptr<Arena> own_memory_;  // Where no staging was given.
  std::unique_ptr<StoreDirectory> directory_;
  std::unique_ptr<StagingPool> staging_;
  std::span<std::byte> footer_buffer_;
  bool footer_buffer_busy_ = false;  // One footer at a time.

  std::span<std::byte> checkpoint_buffer_;
  std::deque<std::uint32_t> waiting_checkpoints_;
  std::vector<std::uint32_t> checkpointing_;  // The ops that the one under way ends.
  std::uint32_t checkpoint_slot_ = 0;         // The next to be written.
  std::uint64_t checkpoint_sequence_ = 1;
  std::uint64_t committed_bytes_ = 0;  // Since the last checkpoint was taken.
  bool quarantine_changed_ = false;    // Since then.
  // What the checkpoint under way has taken of the two: given back where it fails, and due again only after the next commit.
  std::uint64_t checkpointing_bytes_ = 0;
  bool checkpointing_quarantine_ = false;
  bool checkpoint_held_ = false;
  std::optional<Quarantine> quarantine_;
  Scrub scrub_;
  std::span<std::byte> scrub_buffer_;
  std::vector<ScrubFinding> findings_;

  std::vector<Segment> segments_;
  std::uint64_t next_sequence_ = 1;
  bool directory_dirty_ = false;
  std::optional<Error> failed_;  // Set by a failed sync or header: no more stores.

  std::vector<Active> active_;
  std::vector<std::uint32_t> free_active_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> free_jobs_;
  std::vector<Completion> done_;
  Ticket next_ticket_ = 1;

  std::deque<std::uint32_t> waiting_loads_;  // By priority, then in order of submit.
  std::deque<std::uint32_t> waiting_stores_;
  std::uint64_t read_bytes_ = 0, write_bytes_ = 0;  // Under way.
  std::uint32_t write_jobs_ = 0;
  std::uint32_t header_jobs_ = 0;  // Segment headers on their way without a record.

  // Stores belong to groups; a commit closes one. groups_[i] counts the stores under way of group first_group_ + i.
  std::deque<std::uint32_t> groups_{0};
  std::uint64_t first_group_ = 0;
  std::deque<std::uint32_t> waiting_commits_;
  std::vector<std::uint32_t> committing_;
  static constexpr std::uint32_t kDirectory = 0xffffffff;
  std::deque<std::uint32_t> waiting_syncs_;  // Segments, or kDirectory.
  std::uint32_t syncs_left_ = 0;
  std::optional<Error> sync_error_;

  std::unique_ptr<IoQueue> queue_;  // Destroyed first: it waits for what uses the memory above.
  std::vector<IoCompletion> reaped_;

  mutable Mutex mutex_;
  TierStats stats_ GUARDED_BY(mutex_);
  LinkMeter meter_ GUARDED_BY(mutex_);
};

struct NvmeTier::Opened {
  std::unique_ptr<NvmeTier> tier;
  Recovered recovered;
};

}  // namespace tiercel
