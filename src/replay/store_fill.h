// A workload that fills a store, makes it reclaim, checkpoints it and puts sessions to bed, and tells every step: `tiercel store
// fill` runs it on a real disk to be killed from outside, the power-loss test on a simulated one that is cut after every write.
//
// Parts   The real ones: the cache core decides, tiers in RAM and on disk carry out, the session store suspends. One thread.
// Told    In order, and before anything that follows from it is done:
//           phase      what is done next
//           synced     the block is durable in the cache class: a commit that covers it has completed
//           evicting   the core drops the block from cold; what its place holds may be overwritten from here on
//           suspended  suspend() of the session has returned
// Again   A store that is there is continued: behind the prompts of which any block is left, with the next versions of sessions.
// Errors  The first operation on disk that fails ends the workload with its error: what was told before still holds.
// Threads one thread.
// Source  docs/durability.md
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/core.h"
#include "cache/session_store.h"
#include "cache/tier_executor.h"
#include "replay/fill_names.h"
#include "tier/arena.h"
#include "tier/ram_tier.h"

namespace tiercel {

struct FillOptions {
  std::string directory;
  std::uint64_t capacity_bytes = 0;  // Hard, for cache and sessions together.
  std::uint64_t block_bytes = 0;
  std::uint64_t seed = 0;
  std::int64_t sync_interval_ns = 1'000'000'000;  // 0: by bytes alone, so that a run repeats.
  std::uint32_t recovery_threads = 8;             // 1 for the same reason.
  const Clock* clock = nullptr;                   // Outlives the workload, as does the disk.
};

enum class FillPhase : std::uint8_t { fill, reclaim, checkpoint, suspend, recover };
const char* fill_phase_name(FillPhase phase);

class FillListener {
 public:
  virtual ~FillListener() = default;
  virtual void on_phase(FillPhase phase) = 0;
  virtual void on_synced(const Key& key) = 0;
  virtual void on_evicting(const Key& key) = 0;
  virtual void on_suspended(const std::string& name) = 0;
};

// How the capacity is shared, and what of it a fill or an audit must know alike.
struct FillLayout {
  std::uint64_t cache_bytes = 0, session_bytes = 0, segment_bytes = 0, record_bytes_max = 0;

  // Errors: invalid  a capacity that holds too few blocks; says what would do.
  static Result<FillLayout> of(const FillOptions& options);
  NvmeOptions cold_options(const FillOptions& options) const;
  SessionStore::Options session_options(const FillOptions& options) const;
};

class StoreFill {
 public:
  static Result<std::unique_ptr<StoreFill>> open(Disk& disk, const FillOptions& options,
                                                 FillListener& listener);

  // One prompt more, and every few a session.
  Result<void> step();
  // Makes durable what is under way.
  Result<void> finish();

  const ColdLog::Counts& counts() const { return core_->cold()->counts(); }
  std::uint64_t checkpoints() const { return checkpoints_; }
  std::uint64_t suspends() const { return suspends_; }
  std::uint64_t compactions() { return sessions_->stats().compactions; }  // Of the session class.

 private:
  StoreFill(Disk& disk, const FillOptions& options, FillListener& listener);
  Result<void> set_up();
  Result<void> find_next_prompt(const Recovered& recovered);
  Result<void> put(const std::vector<FillBlock>& blocks);
  Result<void> suspend();
  Result<void> pump(std::int64_t timeout_ns);
  void begin(const Action& action);
  Result<void> complete(const TierDone& done);
  void note_commits(std::size_t first);
  Result<void> checkpoint_if_due();
  void enter(FillPhase phase);

  Disk& disk_;
  const FillOptions options_;
  FillListener& listener_;
  FillNames names_;
  FillLayout layout_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<RamTier> warm_;
  std::unique_ptr<NvmeTier> cold_;
  std::unique_ptr<SessionStore> sessions_;
  std::unique_ptr<TierExecutor> executor_;
  std::unique_ptr<Core> core_;
  std::vector<std::byte> source_;
  std::vector<RecordHead> heads_;  // By block id.
  std::vector<TierDone> done_;
  std::vector<BlockId> written_, committing_;  // Told as synced when their commit completes.
  std::uint64_t next_prompt_ = 0;
  std::uint64_t checkpoints_ = 0, suspends_ = 0;
  std::optional<FillPhase> phase_;
};

}  // namespace tiercel
