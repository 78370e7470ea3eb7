// The inference engine as a replay sees it: queue, admission, prefill, decode, growth, preemption. On top of the cache core,
// which decides about blocks; no I/O, threads or clock of its own.
//
// Rules   FIFO, the head blocks the line; who waits longer than the limit is rejected. A prefill starts when its loads are
//         over. Each output token takes a fixed time; when the output passes a block's end the request needs one block more,
//         and where there is none the youngest running request is preempted and starts over at the head of the queue.
//         Too large: more input blocks than hot holds, or it would have to preempt itself while it runs alone.
// Shape   Requests are named by their index in the trace. A request's life counts its admissions and rejections: events
//         of an earlier life are void.
// Threads one thread.
// Source  docs/architecture.md, "Replay"
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "cache/core.h"
#include "placement/placement.h"
#include "replay/event_queue.h"
#include "replay/outcome.h"
#include "replay/prefill_lanes.h"
#include "trace/request.h"

namespace tiercel {

class EngineModel {
 public:
  struct Options {
    std::uint32_t block_tokens = 0;
    std::uint64_t hot_blocks = 0;  // How many blocks hot holds.
    bool sharing = true;
  };

  // `arrivals_ns` per request, as the replay plays them. `names` are the trace's block_ids, one by one, as the core calls
  // them. The model pushes its events into `events`, arrivals included. All references outlive the model.
  EngineModel(const Options& options, const Placement& placement, const Trace& trace,
              std::span<const std::int64_t> arrivals_ns, std::span<const BlockId> names, Core& core,
              EventQueue& events);

  // Any event but transfer_done and wakeup.
  void handle(const Event& event);

  // A block that some requests wait for can be read in hot.
  void block_ready(BlockId id);
  // Real time of a load that some requests wait for (drive only); call before block_ready.
  void block_loaded_really(BlockId id, std::int64_t begin_ns, std::int64_t end_ns);

  // Admits from the head of the queue as long as it fits. Call after every event.
  void admit_waiting(std::int64_t now_ns);

  // Hits, misses and one row per request. Call after the last event.
  void write_outcome(ReplayOutcome& outcome) const;

 private:
  enum class Phase : std::uint8_t { waiting, loading, ready, prefill, decode, over };

  struct State {
    Phase phase = Phase::waiting;
    std::uint32_t life = 0;
    bool counted = false;             // Its hits and misses are in the totals.
    std::uint32_t prefix_blocks = 0;  // Matched at the last admission.
    std::uint32_t pending_loads = 0;
    std::int64_t admitted_ns = 0;
    std::int64_t decode_begin_ns = 0;
    std::uint32_t held_blocks = 0;  // Input and output blocks in hot.
    std::vector<bool>
        owned;  // Per input block: shared with others (a block of the core), else private.
    std::vector<Place> computed;  // Per input block behind the prefix, until published.
    std::vector<Place> privates;  // Copies of its own and output blocks.
    std::int64_t real_begin_ns = 0,
                 real_end_ns = 0;  // Of the loads of its last admission, drive only.
  };

  struct Waiter {
    std::uint32_t request = 0;
    std::uint32_t life = 0;
    std::uint32_t next = 0;
  };
  static constexpr std::uint32_t kNoWaiter = 0xffffffff;

  std::span<const BlockId> chain(std::uint32_t request) const;
  std::uint32_t input_blocks(std::uint32_t request) const;
  std::uint64_t prefill_tokens(std::uint32_t request) const;

  void arrive(const Event& event);
  void give_up_waiting(const Event& event);
  bool try_admit(std::uint32_t request, std::int64_t now_ns);
  void wait_for(BlockId id, std::uint32_t request);
  std::uint32_t first_waiter(BlockId id) const {
    return id < first_waiter_.size() ? first_waiter_[id] : kNoWaiter;
  }
  void loads_over(std::uint32_t request, std::int64_t now_ns);
  void start_prefills(std::int64_t now_ns);
  void finish_prefill(const Event& event);
  void schedule_decode(std::uint32_t request);
  void grow(const Event& event);
  void finish_decode(const Event& event);
  void preempt(std::uint32_t request, std::int64_t now_ns);
  std::uint32_t youngest() const;
  void free_memory(std::uint32_t request);
  void leave_running(std::uint32_t request, Fate fate);

  const Options options_;
  const Placement& placement_;
  const Trace& trace_;
  std::span<const BlockId> names_;
  Core& core_;
  EventQueue& events_;
  PrefillLanes lanes_;
  std::vector<RequestOutcome> outcomes_;
  std::vector<State> states_;
  std::deque<std::uint32_t> queue_;
  std::vector<std::uint32_t> running_;  // In order of admission.
  std::vector<std::uint32_t>
      first_waiter_;  // Per block: the head of a list in waiters_, or kNoWaiter.
  std::vector<Waiter> waiters_;
  std::vector<std::uint32_t> free_waiters_;
  std::vector<Waiter> ready_;  // Scratch of block_ready().
  std::int64_t now_ns_ = 0;
  TierBlocks hits_;
  std::uint64_t miss_ = 0;
};

}  // namespace tiercel
