// Behind tiercel::Cache: the core, an executor on real tiers, and one thread between them.
//
// Lock    One mutex guards the core and everything about tickets. Calls hold it to decide, never for I/O or copies. The thread
//         takes the core's actions under it, carries them out without it, and reports completions under it again.
// Way     call -> core -> outbox -> [thread] take_work() -> TierExecutor -> complete() -> core -> ticket
// Blocks  A block that a fetch waits for is retained, so its id stays its own. requests_ holds, by block, who still waits for an
//         action of the core that delivers it; whoever comes first in the row gets it, for the bytes are the same.
// Threads Any; run() is the thread's.
// Source  docs/adr/0005-library-door.md
#pragma once

#include <deque>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/mutex.h"
#include "cache/cache_plan.h"
#include "cache/core.h"
#include "cache/lease.h"
#include "cache/ledger.h"
#include "cache/match.h"
#include "cache/session_store.h"
#include "cache/tier_executor.h"
#include "tier/nvme_tier.h"
#include "tier/ram_tier.h"
#include "tiercel/tiercel.hpp"

namespace tiercel {

// What the house may give a cache instead of its own: a disk, an account of memory, times. All of them outlive it.
struct CacheSeams {
  Disk* disk = nullptr;
  Ledger* ledger = nullptr;
  const Clock* session_clock = nullptr;       // Of deadlines of session calls.
  std::function<std::int64_t()> unix_time_s;  // Wall time, for the ttl of sessions.
  std::chrono::nanoseconds expire_every = std::chrono::minutes(1);  // Sessions whose ttl is over.
  std::chrono::nanoseconds reap_every = std::chrono::seconds(1);    // Leases of dead processes.
};

Result<Cache> open_cache(const CacheOptions& options, const CacheSeams& seams);

class CacheImpl : public std::enable_shared_from_this<CacheImpl> {
 public:
  static Result<std::shared_ptr<CacheImpl>> open(const CacheOptions& options,
                                                 const CacheSeams& seams);
  ~CacheImpl();

  Chain chain(std::span<const std::uint32_t> tokens) const;
  Chain chain(std::span<const std::span<const std::byte>> block_hashes,
              std::uint32_t tokens_in_last) const;
  Result<Match> match(const Chain& chain, const MatchOptions& options);
  void release(LeaseId lease);
  Result<Ticket> fetch(const Match& match, std::span<const Destination> destinations,
                       OnFinished on_finished);
  Result<Ticket> put(const Chain& chain, const Txn& transaction, OnFinished on_finished);
  Result<std::optional<Finished>> poll(Ticket ticket);
  Result<Finished> wait(Ticket ticket, std::chrono::nanoseconds timeout);
  void cancel(Ticket ticket);
  Result<void> sync(std::chrono::nanoseconds timeout);
  Result<std::uint32_t> prefetch(const Chain& chain);
  Result<void> hint(const Chain& chain, const Hints& hints);
  CacheStats stats() const;
  Result<void> close();

  // cache_session.cc, cache_resume.cc
  Result<SessionInfo> suspend(const std::string& name, const Chain& chain,
                              const Suspension& suspension, std::chrono::nanoseconds timeout);
  Result<Resumption> resume(const std::string& name, std::chrono::nanoseconds timeout);
  Result<Finished> load(const Resumption& resumption, std::span<const Destination> destinations,
                        const OnBlock& on_block);
  Result<void> forget(const std::string& name);
  Result<std::vector<SessionInfo>> sessions();
  Result<void> export_session(const std::string& name, const std::string& path);
  Result<SessionInfo> import_session(const std::string& path, const std::string& name);

 private:
  // What stands in a block's record beside its key.
  struct BlockName {
    std::size_t kind = 0;  // Index into options_.kinds.
    std::uint32_t token_count = 0;
    PrefixHash prefix;
  };
  struct PutSource {
    Ticket ticket = 0;
    ScatterList memory;
  };
  struct Request {
    Ticket ticket = 0;
    std::uint32_t slot = 0;  // Of Finished::blocks.
    BlockId block = kNoBlock;
    ScatterList memory;
  };
  struct Pending {
    Finished finished;
    std::uint32_t left = 0;  // Of a fetch: blocks that have not ended.
    bool is_put = false;
    bool cancelled = false;
    bool done = false;
    OnFinished on_finished;
    std::vector<BlockId> ended;  // Of a put with the hint: retained, deepest first.
  };
  // One caller of sync(): first the puts before it end, then the stores to cold that these began, then a commit.
  struct SyncWait {
    enum class Stage : std::uint8_t { puts, stores, commit, committing, done };
    Stage stage = Stage::puts;
    Ticket puts_before = 0;
    std::uint64_t stores_up_to = 0;
    std::uint64_t commit_op = 0;
    std::uint64_t failed_from = 0, failed_to = 0;  // Of failed_cold_stores_, those in its range.
    std::optional<Error> error;
  };

  // A call on the sessions that is under way: close() waits for it.
  class SessionCall {
   public:
    explicit SessionCall(CacheImpl* cache) : cache_(cache) {}
    SessionCall(SessionCall&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
    SessionCall& operator=(SessionCall&&) = delete;
    ~SessionCall();

   private:
    CacheImpl* cache_;
  };
  // A block that a session needs, and where suspend() takes it from.
  struct NeededBlock {
    std::size_t kind = 0;  // Index into options_.kinds.
    std::uint32_t index = 0;
    const ScatterList* source = nullptr;
    std::optional<std::uint32_t> in_match;  // Where the cache holds it.
  };

  CacheImpl(const CacheOptions& options, const CachePlan& plan);

  // cache_open.cc
  Result<void> set_up(const CacheSeams& seams);
  Result<void> set_up_cold(Disk& disk, std::span<std::byte> staging, CoreOptions& core,
                           Recovered& recovered);
  void restore(const Recovered& recovered) REQUIRES(mutex_);
  SessionStore::Options session_options() const;
  Result<void> set_up_sessions(Disk& disk);
  std::size_t kind_of(const RecoveredRecord& record) const;
  static constexpr std::size_t kStranger = SIZE_MAX;

  // cache_calls.cc, cache_tickets.cc, cache_put.cc
  ChainShape shape_of(const Chain& chain) const;
  Result<void> check_chain(const Chain& chain) const;
  static Result<void> check_memory(const char* call, std::uint32_t block, const ScatterList& memory,
                                   std::uint64_t bytes);
  std::optional<std::size_t> kind_index(std::uint16_t id) const;
  Result<std::vector<std::size_t>> kind_indices(std::span<const std::uint16_t> ids) const;
  Match search(const Chain& chain, std::span<const std::size_t> indices,
               std::span<const Kind> kinds) REQUIRES(mutex_);
  std::vector<BlockId> ids_of(const Match& match) REQUIRES(mutex_);  // Just searched for.
  // Hands the pins to a lease, which the match holds.
  void lease(Match& match, LeaseOwner owner, std::chrono::nanoseconds time, std::vector<Pin> pins)
      REQUIRES(mutex_);
  Result<void> begin_call() REQUIRES(mutex_);
  void advance_time() REQUIRES(mutex_);
  void unpin(const std::vector<Pin>& pins) REQUIRES(mutex_);
  Result<void> check_put(const Chain& chain, const Txn& transaction) const;
  BlockId intern(const Chain& chain, std::size_t kind, std::uint32_t block,
                 std::vector<BlockId>& references) REQUIRES(mutex_);
  BlockId intern_primary(const Chain& chain, std::uint32_t block, std::vector<BlockId>& references)
      REQUIRES(mutex_);
  BlockId make_block(const Chain& chain, std::size_t kind, std::uint32_t block, BlockId parent,
                     std::vector<BlockId>& references) REQUIRES(mutex_);
  std::vector<BlockId> ended_tail(const Chain& chain, std::uint32_t position) REQUIRES(mutex_);
  void count_hints(const Hints& hints) REQUIRES(mutex_);
  Ticket new_ticket(bool is_put, std::uint32_t left, OnFinished on_finished) REQUIRES(mutex_);

  // cache_session.cc, cache_resume.cc
  Result<SessionCall> begin_session_call();
  void keep_sessions();
  void expire_sessions();
  std::int64_t session_deadline_ns(std::chrono::nanoseconds timeout) const;
  std::chrono::nanoseconds time_left(std::int64_t deadline_ns) const;
  Result<std::vector<NeededBlock>> needed_blocks(const Chain& chain,
                                                 const Suspension& suspension) const;
  Result<Match> lease_needed(const Chain& chain, const std::string& name,
                             std::vector<NeededBlock>& needed, std::chrono::nanoseconds lease_time);
  SessionSource session_source(const Chain& chain, const NeededBlock& block) const;
  Result<void> fetch_needed(const Match& match, std::uint32_t block, std::span<std::byte> payload,
                            std::int64_t deadline_ns);
  Result<Finished> fetch_within(const Match& match, std::span<const Destination> destinations,
                                std::int64_t deadline_ns);
  SessionInfo info_of(const SessionManifest& manifest) const;
  Result<void> check_session(const SessionManifest& manifest) const;
  Result<SessionManifest> find_session(const std::string& name);
  Match match_warm(const Resumption& resumption, std::span<const std::uint32_t> blocks);
  void estimate(Resumption& resumption) const;

  // cache_loop.cc
  void run();
  void reap_leases() REQUIRES(mutex_);
  bool settled() REQUIRES(mutex_);
  void take_work(std::vector<TierWork>& work) REQUIRES(mutex_);
  bool fill_work(const Action& action, TierWork& work) REQUIRES(mutex_);
  void complete(const TierDone& done) REQUIRES(mutex_);
  void end_put_block(const Action& action, const TierDone& done) REQUIRES(mutex_);
  void end_put(const EndedPut& put) REQUIRES(mutex_);
  void end_request(const Request& request, Outcome outcome, const Error& error) REQUIRES(mutex_);
  void end_waiting(BlockId block, std::uint32_t count, const TierDone& done) REQUIRES(mutex_);
  void finish(Ticket ticket) REQUIRES(mutex_);
  void step_syncs() REQUIRES(mutex_);
  bool step(SyncWait& sync) REQUIRES(mutex_);
  std::int64_t sleep_ns() REQUIRES(mutex_);
  void forget_bad(const std::vector<ScrubFinding>& findings) REQUIRES(mutex_);
  void note(std::string sentence) REQUIRES(mutex_);

  // Fixed after open.
  const CacheOptions options_;
  const CachePlan plan_;
  // The kind whose blocks are the others' parents: the first of reach all, else the first.
  std::size_t primary_ = 0;
  bool primary_stands_alone_ = false;
  SystemClock system_clock_;
  const Clock* clock_ = nullptr;
  LeaseOwner process_;
  std::unique_ptr<Disk> own_disk_;
  Disk* disk_ = nullptr;
  std::unique_ptr<Ledger> own_ledger_;
  Reservation warm_reservation_, staging_reservation_;

  // Memory and tiers; set up by open, torn down by close under the lock. Between these only the thread submits to them.
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<RamTier> warm_;
  std::unique_ptr<NvmeTier> cold_;
  std::unique_ptr<TierExecutor> executor_;
  std::thread thread_;

  // Set up by open; used within a SessionCall, torn down by close() once there is none.
  std::unique_ptr<SessionStore> session_store_;
  Reservation session_reservation_;
  const Clock* session_clock_ = nullptr;
  std::function<std::int64_t()> unix_time_s_;
  std::chrono::nanoseconds expire_every_{}, reap_every_{};
  std::thread
      session_keeper_;  // Ends sessions whose ttl is over: disk work that the cache's thread must not wait for.

  mutable Mutex mutex_;
  ConditionVariable work_;      // For the thread: something to do.
  ConditionVariable finished_;  // For callers: a ticket, a sync or the thread has ended.
  std::optional<Core> core_ GUARDED_BY(mutex_);
  std::vector<BlockName> names_ GUARDED_BY(mutex_);  // By block id.
  LeaseTable leases_ GUARDED_BY(mutex_);
  std::int64_t next_reap_ns_ GUARDED_BY(mutex_) = 0;  // On the system's clock.
  ConditionVariable keeper_wakes_;
  std::uint64_t session_calls_ GUARDED_BY(mutex_) = 0;

  Ticket next_ticket_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<Ticket, Pending> pending_ GUARDED_BY(mutex_);
  // Finished, oldest first; at most kResultsMax. May name read ones.
  std::deque<Ticket> unread_ GUARDED_BY(mutex_);
  std::set<Ticket> open_puts_ GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, PutSource> put_sources_ GUARDED_BY(mutex_);  // By op.
  std::unordered_map<std::uint64_t, Ticket> tickets_by_put_
      GUARDED_BY(mutex_);  // By the core's put.
  // Not on a tier yet; no row is empty.
  std::unordered_map<BlockId, std::deque<Request>> requests_ GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, Request> running_requests_ GUARDED_BY(mutex_);  // By op.
  std::uint64_t requests_open_ GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> cold_writes_ GUARDED_BY(mutex_);  // Ops under way.
  std::uint64_t last_op_ GUARDED_BY(mutex_) = 0;
  // Stores to cold that were begun and failed, since open; of these, told by some sync() already.
  std::uint64_t failed_cold_stores_ GUARDED_BY(mutex_) = 0, told_cold_stores_
                                                            GUARDED_BY(mutex_) = 0;
  Error cold_store_error_ GUARDED_BY(mutex_);  // Of the last of them.
  std::list<SyncWait> syncs_ GUARDED_BY(mutex_);
  std::vector<std::pair<OnFinished, Finished>> callbacks_ GUARDED_BY(mutex_);

  bool closing_ GUARDED_BY(mutex_) = false;
  bool abandon_ GUARDED_BY(mutex_) = false;  // close() waits no more for what is under way.
  bool thread_over_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::optional<Error> close_error_ GUARDED_BY(mutex_);
  // What is counted here; stats() adds the core's and the tiers'.
  CacheStats stats_ GUARDED_BY(mutex_);
};

}  // namespace tiercel
