// Sessions put to bed: named, durable lists of blocks with their tokens and the engine's opaque state, in a log of their own
// that cache traffic never reclaims.
//
// Shape   DIRECTORY is a cold store of purpose `session` (tier/nvme_tier.h), beside or inside the cache's: segments hold the
//         blocks, and pieces of tokens and state as records of two reserved kinds, all by key and each once, however many
//         sessions refer to it. A session is one manifest file, NAME's hash + ".session" (docs/formats/session.md), which lists
//         keys. A block is alive while a manifest lists it.
// Order   suspend() stores what the class does not hold yet, commits it, then replaces the manifest (written, synced, renamed,
//         directory synced). So a manifest that is there names only what is durable; a crash before leaves the session as it
//         was. A session that grows supersedes its earlier version with the same rename: no moment has neither or half.
// Space   capacity_bytes is hard for segments and manifests together. Segments whose blocks are mostly dead are compacted: what
//         is alive moves, is committed, and only then the segment starts a new life. Where even that makes no room, suspend()
//         fails with no_space, names both figures, and everything is as before.
// End     A session stays until forget(), or until expire() finds its ttl over.
// Damage  A manifest that does not hold together costs its session alone: it is set aside (".damaged") and reported. A block
//         that proves bad is an error for the reader; the session says that it is not whole, and is whole again once a suspend
//         brings the block anew. After a sync that failed nobody knows what is durable: no call changes the store any more,
//         reads go on.
// Waits   Calls that touch the disk take the store for themselves; one that cannot have it within its deadline (or kTurnWithin,
//         where it has none) ends with busy. list, find, holds, missing, notes and stats never wait for the disk.
// Threads Any. Callbacks run on the caller's thread and must not call the store.
// Source  docs/adr/0006-sessions.md, docs/formats/session.md
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/session_manifest.h"
#include "io/disk.h"
#include "kv/record.h"
#include "tier/nvme_tier.h"

namespace tiercel {

// A block as suspend() is offered it. head.chunks is empty: the store fills it in.
struct SessionSource {
  RecordHead head;
  std::uint32_t index = 0;  // Block of the chain.
  std::uint64_t bytes = 0;  // Payload.
};

struct SessionDraft {
  std::string name;  // 1 to kSessionNameMax bytes of UTF-8 without control characters.
  std::uint32_t block_tokens = 0;
  std::uint32_t position = 0;  // Blocks of the chain that the session covers.
  std::uint64_t token_count = 0;
  std::vector<SessionSource> blocks;  // In prefix order; every kind that position needs.
  std::span<const std::uint32_t> tokens = {};
  std::span<const std::byte> state = {};
  std::int64_t expires_unix_s = 0;  // 0: never.
  std::int64_t now_unix_s = 0;      // Stands in the manifest; 0: the system's time.
  // Asked for every block that the store does not hold, in order, and again where one proves bad meanwhile: fills the payload, all
  // of it. An error with os_errno ETIMEDOUT says that the payload may still be written to: the store leaves it alone for good, and
  // reads and writes no more until it is opened anew.
  std::function<Result<void>(std::size_t block, std::span<std::byte> payload)> read;
};

struct SessionStoreStats {
  std::uint64_t sessions = 0, blocks = 0;  // Alive; pieces of tokens and state count as blocks.
  std::uint64_t live_bytes = 0;            // Records alive, physical.
  std::uint64_t physical_bytes = 0;  // Segments, manifests, metadata: as the disk counts them.
  std::uint64_t capacity_bytes = 0;
  std::uint64_t compactions = 0, moved_bytes = 0;
  std::uint64_t forgotten = 0, expired = 0;
  std::uint64_t damaged_manifests = 0, leftovers_removed = 0, torn_records = 0;
  double open_s = 0;
};

class SessionStore {
 public:
  static constexpr std::int64_t kTurnWithin_ns = 60'000'000'000;

  struct Options {
    std::string directory;
    std::uint64_t capacity_bytes = 0;
    std::uint64_t segment_bytes = 64ULL << 20;  // Made smaller where the capacity would hold few.
    std::uint64_t record_bytes_max = 0;  // Of blocks; larger tokens and state are cut into pieces.
    const Clock* clock = nullptr;        // For deadlines; outlives the store, as does the disk.
    IoEngine engine = IoEngine::best;
    std::uint32_t recovery_threads = 8;  // As NvmeOptions, as is the next.
    std::size_t queue_ops_max = 4096;
  };

  // Errors: as NvmeTier::open, and invalid where the capacity holds too few segments.
  static Result<std::unique_ptr<SessionStore>> open(Disk& disk, const Options& options);
  // What it will take of memory, index apart. Errors: as open, as far as the options go.
  static Result<std::uint64_t> memory_bytes(Disk& disk, const Options& options);
  ~SessionStore();

  // Returns once the session is durable. Errors: no_space  its share is full; invalid  name or draft; io  the disk; busy  not
  // in time; or what draft.read said. On any error the session is as it was before, and so are all others; only where the disk
  // refused the very last step, after which a restart finds the old or the new version, whole either way.
  Result<SessionManifest> suspend(const SessionDraft& draft, std::int64_t deadline_ns);

  Result<std::vector<SessionManifest>> list();  // By name.
  Result<SessionManifest> find(
      const std::string& name);  // Errors: invalid  there is no such session.
  bool holds(const Key& key);
  // Blocks and pieces of the session that are not to be read any more; 0: it is whole, as far as anybody knows.
  std::uint64_t missing(const SessionManifest& manifest);

  // Reads blocks of the manifest, by index into manifest.blocks, in the order given and up to a few requests ahead, into
  // `memory[i]` (payload bytes, any pieces). Each ends with one call of on_block, in order: delivered, miss (forgotten
  // meanwhile) or error (damaged, or the deadline passed). 0: no deadline.
  Result<void> read(const SessionManifest& manifest, std::span<const std::size_t> which,
                    std::span<const ScatterList> memory, std::int64_t deadline_ns,
                    const std::function<void(std::size_t i, Outcome, const Error&)>& on_block);
  // Tokens and state, verified whole. Errors: corrupt, io, busy; cancelled  past the deadline.
  Result<std::vector<std::uint32_t>> read_tokens(const SessionManifest& manifest,
                                                 std::int64_t deadline_ns = 0);
  Result<std::vector<std::byte>> read_state(const SessionManifest& manifest,
                                            std::int64_t deadline_ns = 0);
  // Whole records as the store has them, head and chunks, verified, in the order given; `record` is valid during the call. The
  // first that cannot be had, or an error of on_record, ends it.
  Result<void> read_records(
      std::span<const Key> keys,
      const std::function<Result<void>(std::span<const std::byte> record)>& on_record);

  // Durable once it returns. Errors: invalid  there is no such session.
  Result<void> forget(const std::string& name);
  // Forgets what has expired by then; returns the names. Does not wait: busy where somebody has the store.
  Result<std::vector<std::string>> expire(std::int64_t now_unix_s);

  SessionStoreStats stats();
  LinkEstimate link() const;  // Of its disk, measured on the store's own work.
  std::vector<std::string>
  notes();  // What was found at open and what failed since, one sentence each; the first 64.

 private:
  class Impl;
  explicit SessionStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tiercel
