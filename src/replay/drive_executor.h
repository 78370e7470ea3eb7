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

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "io/disk.h"
#include "kv/record.h"
#include "replay/block_content.h"
#include "replay/executor.h"
#include "replay/replay_run.h"
#include "tier/arena.h"
#include "tier/nvme_tier.h"
#include "tier/ram_tier.h"

namespace tiercel {

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
  Result<void> end(ReplayOutcome& outcome) override;

  double warm_up_s() const { return warm_up_s_; }

 protected:
  explicit DriveExecutor(const Options& options) : options_(options) {}

  // Seams for the negative controls, which are executors that lie: what is really done for an action.
  virtual bool really_loads(const Action&) { return true; }
  virtual Place really_read_place(const Action& action) { return action.source; }

  Result<void> set_up(Disk& disk);

 private:
  struct alignas(kRecordAlignment) HeadPage {
    std::array<std::byte, kRecordAlignment> bytes;
  };
  struct Running {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    bool over = false;
    bool failed = false;
    std::span<std::byte> head;  // Scratch of a load past warm.
    Action executed;
  };

  std::span<std::byte> hot_block(const Place& place);
  std::span<std::byte> warm_record(const Place& place);
  std::span<std::byte> take_head();
  Result<void> encode(const Action& action, std::span<const std::byte> block, std::span<std::byte> head) const;
  Result<void> begin_store_to_warm(const Action& action);
  Result<void> begin_load(const Action& action);
  Result<void> begin_move(const Action& action);
  Result<void> submit(Tier& tier, Op op, std::uint64_t tag);
  void collect(Tier& tier, bool block);
  Result<void> wait_for(Tier& tier, std::uint64_t tag);
  Result<void> recompute(const Action& action);
  Tier& tier_of(const Action& action);

  const Options options_;
  SystemClock clock_;
  BlockContent content_;
  std::unique_ptr<Arena> arena_;
  std::span<std::byte> hot_;
  std::span<std::byte> warm_memory_;
  std::span<std::byte> move_buffer_;
  std::vector<std::unique_ptr<HeadPage>> heads_memory_;
  std::vector<std::span<std::byte>> free_heads_;
  std::unique_ptr<RamTier> warm_;
  std::unique_ptr<NvmeTier> cold_;
  std::unordered_map<std::uint64_t, Running> running_;  // By op.
  std::vector<Completion> completions_;
  DecisionDigest digest_;
  double warm_up_s_ = 0;
  std::unordered_set<BlockId> recomputed_;              // On their way to hot by way of warm, but not from a tier.
  std::uint64_t delivered_ = 0, errors_ = 0, wrong_bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace tiercel
