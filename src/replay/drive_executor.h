// Carries a replay's actions out on real tiers: hot(host) memory, a warm tier in RAM, the cold store on disk. Every delivered
// byte is compared.
//
// Memory  One arena: hot blocks, then the warm tier, then the cold tier's staging. Hot holds bare blocks as an engine's paged
//         cache would; warm holds records, which go to disk and come back as they are.
// Errors of a tier's op are counted, and the bytes recomputed in place, as the engine would: the decisions stay. What ends
//         the replay is a machine that refuses as a whole (no memory, no store).
// Threads one thread.
// Source  docs/adr/0004-drive.md
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "cache/tier_executor.h"
#include "io/disk.h"
#include "kv/record.h"
#include "replay/block_content.h"
#include "replay/executor.h"
#include "replay/replay_run.h"
#include "tier/arena.h"
#include "tier/nvme_tier.h"
#include "tier/ram_tier.h"

namespace tiercel {

// Bytes of the disk that open() will free by emptying the store of ours in `directory`; 0 where there is none. Nothing is
// changed. Errors: io.
Result<std::uint64_t> reusable_store_bytes(Disk& disk, const std::string& directory);

class DriveExecutor : public Executor {
 public:
  struct Options {
    ScaledPlacement scaled;
    std::uint32_t block_tokens = 0;
    Fingerprint fingerprint;
    std::string store_directory;  // Emptied; refused where it is not a store of ours.
  };

  // Takes and pre-faults the memory, empties and formats the store. `disk` outlives the executor.
  static Result<std::unique_ptr<DriveExecutor>> open(Disk& disk, const Options& options);

  const char* name() const override { return "drive"; }
  Result<void> begin(const Action& action) override;
  Result<std::optional<RealSpan>> finish(const Action& action) override;
  void work_until(std::int64_t real_ns) override;
  Result<void> end(ReplayOutcome& outcome) override;

  double warm_up_s() const { return warm_up_s_; }

 protected:
  explicit DriveExecutor(const Options& options) : options_(options) {}

  // Seams for the negative controls, which are executors that lie: what is really done for an action.
  virtual bool really_loads(const Action&) { return true; }
  virtual Place really_read_place(const Action& action) { return action.source; }

  Result<void> set_up(Disk& disk);

 private:
  struct Running {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    bool over = false;
    bool failed = false;
    Action executed;
  };

  std::span<std::byte> hot_block(const Place& place);
  TierWork work_of(const Action& action);
  void collect(std::int64_t timeout_ns);
  void count_error(const std::string& what);
  // What the engine does about bytes that cannot be had: computes them again, into hot or into a record.
  Result<void> recompute(const Action& action, std::span<std::byte> record);

  const Options options_;
  SystemClock clock_;
  BlockContent content_;
  std::unique_ptr<Arena> arena_;
  std::span<std::byte> hot_;
  std::unique_ptr<RamTier> warm_;
  std::unique_ptr<NvmeTier> cold_;
  std::unique_ptr<TierExecutor> tiers_;
  std::unordered_map<std::uint64_t, Running> running_;  // By op.
  std::vector<TierDone> done_;
  DecisionDigest digest_;
  double warm_up_s_ = 0;
  std::unordered_set<BlockId>
      recomputed_;  // On their way to hot by way of warm, but not from a tier.
  std::uint64_t delivered_ = 0, errors_ = 0, wrong_bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace tiercel
