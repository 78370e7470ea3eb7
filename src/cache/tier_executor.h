// Carries the core's actions out on real tiers: warm in RAM, cold on disk. The library's Cache and the driven replay share it;
// what they do with a completion is their own.
//
// Work     One action with what the core does not know: the record's head and the memory outside the tiers that the block comes
//          from or goes to. Records lie in warm as they lie in cold, so between these two nothing is encoded or copied.
// Order    begin() in the order of decision: stores into a segment come with growing offsets.
// Aside    Seals, reclaims and checkpoints: nobody waits for them. A checkpoint is submitted where cold calls one due (after
//          commits); it decides nothing, so a driven replay stays what was simulated.
// Waits    begin() waits where a tier's queue is full, and for the copy of a move, which goes through one buffer; both wait for the
//          disk and at most kAnswerWithin_ns. Everything else is asynchronous; collect() gives the completions.
// Errors   Every op begun ends in exactly one Done, refusals of a tier included.
// Threads  one thread.
// Source   docs/adr/0004-drive.md, docs/adr/0005-library-door.md
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "cache/action.h"
#include "kv/record.h"
#include "tier/tier.h"

namespace tiercel {

// A disk that gives no answer for so long is taken out of service.
inline constexpr std::int64_t kAnswerWithin_ns = 60'000'000'000;

struct TierWork {
  Action action;
  Fingerprint fingerprint;
  RecordHead head = {};     // Of a store from outside the tiers; key and chunk are filled in.
  ScatterList memory = {};  // The bare block, for a store from or a load to outside.
};

struct TierDone {
  std::uint64_t op = 0;
  Outcome outcome = Outcome::error;
  Error error = {};
};

class TierExecutor {
 public:
  struct Options {
    Tier* warm = nullptr;  // Both outlive the executor; null where there is none.
    Tier* cold = nullptr;
    std::span<std::byte> warm_memory;  // What the warm tier's places are offsets into.
    std::span<std::byte> move_buffer;  // As large as the largest record; page-aligned.
    const Clock* clock = nullptr;
    // Where a move cannot read its record: writes it anew into the span and returns true, or gives it up. May be empty.
    std::function<bool(const Action&, std::span<std::byte>)> rebuild;
    bool checkpoints = true;
  };

  explicit TierExecutor(Options options) : options_(std::move(options)) {}

  void begin(const TierWork& work);

  // Appends what has completed; where nothing has and something is under way on cold, waits for it up to `timeout_ns`.
  void collect(std::vector<TierDone>& out, std::int64_t timeout_ns);

  // A checkpoint of cold now, waited for: for whoever set Options::checkpoints to false.
  Result<void> checkpoint();

  // Ops begun and not collected; seals and reclaims do not count.
  std::size_t under_way() const { return running_.size() + done_.size(); }

  std::span<std::byte> warm_record(const Place& place) const {
    return options_.warm_memory.subspan(place.offset, place.bytes);
  }
  // Ops without a completion of their own (seal, reclaim, checkpoint) that failed.
  const std::vector<Error>& side_errors() const { return side_errors_; }

 private:
  // Scratch of one op: the head of its record, and what pads its last page.
  struct alignas(kRecordAlignment) Scratch {
    std::array<std::byte, kRecordAlignment> head;
    std::array<std::byte, kRecordAlignment> padding;
  };
  struct Running {
    std::unique_ptr<Scratch> scratch;
    std::uint64_t payload_bytes = 0;  // Of a load to outside: what the head must agree with.
  };

  void begin_store_from_outside(const TierWork& work);
  void begin_load(const TierWork& work);
  void begin_move(const TierWork& work);
  void submit(Tier& tier, const Op& op);
  void submit_checkpoint_if_due();
  void take(Tier& tier, std::int64_t timeout_ns);
  void finish(std::uint64_t op, Outcome outcome, Error error);
  Result<Outcome> run_to_end(const Op& op);
  std::unique_ptr<Scratch> take_scratch();

  const Options options_;
  std::unordered_map<std::uint64_t, Running> running_;  // By op.
  std::vector<TierDone> done_;
  std::vector<std::unique_ptr<Scratch>> free_scratch_;
  std::vector<Completion> completions_;
  std::vector<Error> side_errors_;
};

}  // namespace tiercel
