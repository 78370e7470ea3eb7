// The thread of a cache: carries out what the core decides, and tells core and callers how it ended.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "cache/cache_impl.h"

namespace tiercel {
namespace {

// While the disk works, the thread waits for it in slices, so that a call that comes meanwhile begins within one.
constexpr std::int64_t kSlice_ns = 200'000;
// Otherwise it sleeps until it is woken or something is due; at most so long, because a caller's clock may not be ours.
constexpr std::int64_t kSleepMax_ns = 50'000'000;
constexpr std::size_t kNotesMax = 64;

}  // namespace

void CacheImpl::run() {
  std::vector<TierWork> work;
  std::vector<TierDone> done;
  std::vector<std::pair<OnFinished, Finished>> callbacks;
  std::vector<ScrubFinding> findings;
  for (;;) {
    work.clear();
    callbacks.clear();
    {
      const MutexLock lock(mutex_);
      for (const TierDone& one : done) complete(one);
      done.clear();
      forget_bad(findings);
      advance_time();
      reap_leases();
      take_work(work);
      step_syncs();
      if (closing_) core_->commit_now();
      take_work(work);  // What the two lines above have begun.
      callbacks.swap(callbacks_);
      if (work.empty() && callbacks.empty() && executor_->under_way() == 0) {
        if (abandon_ || (closing_ && settled())) break;
        const std::int64_t sleep = sleep_ns();
        if (sleep > 0) work_.wait_for(mutex_, std::chrono::nanoseconds(sleep));
        // What the tiers do aside (a footer, a checkpoint, the scrub) still wants to be looked after.
      }
      if (abandon_) break;
    }
    for (auto& [on_finished, finished] : callbacks) on_finished(finished);
    for (const TierWork& one : work) executor_->begin(one);
    executor_->collect(done, kSlice_ns);
    if (cold_) findings = cold_->take_findings();
  }
  const MutexLock lock(mutex_);
  unpin(leases_.release_all());
  for (auto& [ticket, pending] : pending_) {  // Only after close() gave up waiting.
    if (pending.done) continue;
    for (BlockOutcome& block : pending.finished.blocks) {
      if (block.outcome == Outcome::miss)
        block = {Outcome::error, fail(Errc::cancelled, "the cache was closed")};
    }
    if (pending.is_put) pending.finished.put = PutOutcome::failed;
    pending.done = true;
  }
  for (SyncWait& sync : syncs_) {
    if (sync.stage != SyncWait::Stage::done)
      sync.error = fail(Errc::cancelled, "the cache was closed");
    sync.stage = SyncWait::Stage::done;
  }
  thread_over_ = true;
  finished_.notify_all();
}

void CacheImpl::reap_leases() {
  const std::int64_t now_ns = system_clock_.now_ns();
  if (now_ns < next_reap_ns_) return;
  next_reap_ns_ = now_ns + reap_every_.count();
  unpin(leases_.reap(process_, [](const LeaseOwner& owner) { return is_alive(owner); }));
}

bool CacheImpl::settled() {
  return core_->idle() && !core_->anything_uncommitted() && syncs_.empty() && callbacks_.empty();
}

std::int64_t CacheImpl::sleep_ns() {
  if (!core_->outbox().actions().empty() || !callbacks_.empty()) return 0;
  std::int64_t sleep = kSleepMax_ns;
  const std::int64_t now_ns = clock_->now_ns();
  if (const auto due = core_->next_wakeup_ns()) sleep = std::min(sleep, *due - now_ns);
  if (const auto due = leases_.next_deadline_ns()) sleep = std::min(sleep, *due - now_ns);
  if (cold_) {
    if (const auto due = cold_->scrub_due_ns())
      sleep = std::min(sleep, *due - system_clock_.now_ns());
  }
  return std::max<std::int64_t>(sleep, 0);
}

// What the scrub found bad leaves the index, if it still lives at that place.
void CacheImpl::forget_bad(const std::vector<ScrubFinding>& findings) {
  for (const ScrubFinding& finding : findings) {
    note(fmt::format("scrub: {}: {}", hex(finding.key), finding.error.what));
    const BlockId id = core_->table().find(finding.key);
    if (id == kNoBlock) continue;
    const Block& block = core_->table()[id];
    if (block.cold == Presence::present && block.cold_place == finding.place)
      core_->quarantine(id, TierId::cold);
  }
}

// --- From the core to the tiers ---

void CacheImpl::take_work(std::vector<TierWork>& work) {
  Outbox& outbox = core_->outbox();
  while (!outbox.actions().empty()) {
    const std::vector<Action> actions = outbox.actions();
    outbox.clear();
    for (const Action& action : actions) {
      last_op_ = std::max(last_op_, action.op);
      if (action.op != 0 && action.to == TierId::cold) cold_writes_.insert(action.op);
      if (TierWork one{.action = action}; fill_work(action, one)) work.push_back(std::move(one));
    }
  }
}

// False where there is nothing to carry out: nobody waits for it any more.
bool CacheImpl::fill_work(const Action& action, TierWork& work) {
  if (action.block != kNoBlock) {
    const BlockName& name = names_[action.block];
    work.fingerprint = options_.kinds[name.kind].fingerprint;
  }
  if (action.from == TierId::caller) {
    const PutSource& source = put_sources_.at(action.op);
    if (pending_.at(source.ticket).cancelled) {
      complete({.op = action.op,
                .outcome = Outcome::error,
                .error = fail(Errc::cancelled, "taken back")});
      return false;
    }
    const BlockName& name = names_[action.block];
    const BlockId parent = core_->table()[action.block].parent;
    work.memory = source.memory;
    work.head.kind = options_.kinds[name.kind].kind;
    work.head.token_count = name.token_count;
    work.head.prefix = name.prefix;
    if (parent != kNoBlock) work.head.parent = core_->table()[parent].key;
  }
  if (action.to == TierId::caller) {
    const auto waiting = requests_.find(action.block);
    if (waiting == requests_.end()) {
      core_->complete(action.op);  // Taken back meanwhile.
      return false;
    }
    Request request = std::move(waiting->second.front());
    waiting->second.pop_front();
    if (waiting->second.empty()) requests_.erase(waiting);
    work.memory = request.memory;
    running_requests_.emplace(action.op, std::move(request));
  }
  return true;
}

// --- From the tiers to core and callers ---

void CacheImpl::complete(const TierDone& done) {
  cold_writes_.erase(done.op);
  const Completed completed = core_->complete(done.op, done.outcome == Outcome::delivered);
  const Action& action = completed.action;
  if (done.outcome == Outcome::error && done.error.code != Errc::cancelled) {
    note(fmt::format("{} {} -> {}: {}", action_name(action.type), tier_name(action.from),
                     tier_name(action.to), done.error.what));
  }
  if (action.type == ActionType::store && action.to == TierId::cold &&
      done.outcome != Outcome::delivered) {
    ++failed_cold_stores_;
    cold_store_error_ = done.error;
  }
  if (action.from == TierId::caller) end_put_block(action, done);
  for (const EndedPut& put : completed.ended_puts) end_put(put);
  if (const auto node = running_requests_.extract(done.op)) {
    end_request(node.mapped(), done.outcome, done.error);
  }
  if (completed.failed_fetches > 0) end_waiting(action.block, completed.failed_fetches, done);
  if (action.type == ActionType::commit) {
    for (SyncWait& sync : syncs_) {
      if (sync.stage != SyncWait::Stage::committing || sync.commit_op != done.op) continue;
      if (done.outcome != Outcome::delivered) sync.error = done.error;
      sync.stage = SyncWait::Stage::done;
      finished_.notify_all();
    }
  }
}

void CacheImpl::end_put_block(const Action& action, const TierDone& done) {
  const Ticket ticket = put_sources_.at(action.op).ticket;
  put_sources_.erase(action.op);
  Pending& pending = pending_.at(ticket);
  if (done.outcome == Outcome::error) pending.finished.error = done.error;
  if (done.outcome == Outcome::delivered) ++stats_.stored_blocks;
}

void CacheImpl::end_put(const EndedPut& put) {
  const auto node = tickets_by_put_.extract(put.put);
  const Ticket ticket = node.mapped();
  Pending& pending = pending_.at(ticket);
  if (put.published) {
    pending.finished.put = put.stored > 0 ? PutOutcome::stored : PutOutcome::known;
  } else if (put.joined_failed && pending.finished.error.what.empty()) {
    pending.finished.put = PutOutcome::failed;
    pending.finished.error =
        fail(Errc::busy,
             "put: another put, which was storing some of its blocks, failed; put them again");
  } else if (pending.finished.error.what.empty()) {
    pending.finished.put = PutOutcome::skipped;
    pending.finished.error = fail(Errc::no_space, "put: warm is too fragmented for its blocks");
  } else {
    pending.finished.put = PutOutcome::failed;
  }
  finish(ticket);
}

void CacheImpl::end_request(const Request& request, Outcome outcome, const Error& error) {
  Pending& pending = pending_.at(request.ticket);
  pending.finished.blocks[request.slot] = {.outcome = outcome, .error = error};
  ++(outcome == Outcome::delivered ? stats_.delivered
     : outcome == Outcome::miss    ? stats_.misses
                                   : stats_.errors);
  --requests_open_;
  if (request.block != kNoBlock) core_->table().release(request.block);
  if (--pending.left == 0) finish(request.ticket);
}

// The load that these fetches waited for has failed.
void CacheImpl::end_waiting(BlockId block, std::uint32_t count, const TierDone& done) {
  for (; count > 0; --count) {
    const auto waiting = requests_.find(block);
    if (waiting == requests_.end()) return;  // Taken back meanwhile.
    const Request request = std::move(waiting->second.front());
    waiting->second.pop_front();
    if (waiting->second.empty()) requests_.erase(waiting);
    end_request(request, done.outcome, done.error);
  }
}

void CacheImpl::finish(Ticket ticket) {
  const auto found = pending_.find(ticket);
  Pending& pending = found->second;
  pending.done = true;
  open_puts_.erase(ticket);
  if (!pending.ended.empty()) {
    core_->end_prompt(pending.ended);  // Being stored has made them the most recent.
    for (const BlockId id : pending.ended) core_->table().release(id);
    pending.ended.clear();
  }
  finished_.notify_all();
  if (pending.on_finished) {
    callbacks_.emplace_back(std::move(pending.on_finished), std::move(pending.finished));
    pending_.erase(found);
    return;
  }
  unread_.push_back(ticket);
  while (unread_.size() > kResultsMax) {
    pending_.erase(unread_.front());
    unread_.pop_front();
  }
}

void CacheImpl::note(std::string sentence) {
  if (stats_.notes.size() < kNotesMax) stats_.notes.push_back(std::move(sentence));
}

// --- sync() ---

void CacheImpl::step_syncs() {
  for (SyncWait& sync : syncs_) {
    while (step(sync)) {
    }
    if (sync.stage == SyncWait::Stage::done) finished_.notify_all();
  }
}

// True where it got a stage further.
bool CacheImpl::step(SyncWait& sync) {
  switch (sync.stage) {
    case SyncWait::Stage::puts:
      if (!open_puts_.empty() && *open_puts_.begin() < sync.puts_before) return false;
      sync.stores_up_to = last_op_;
      sync.stage = SyncWait::Stage::stores;
      return true;
    case SyncWait::Stage::stores:
      if (!cold_writes_.empty() && *cold_writes_.begin() <= sync.stores_up_to) return false;
      sync.failed_to = failed_cold_stores_;
      sync.stage = SyncWait::Stage::commit;
      return true;
    case SyncWait::Stage::commit: {
      // A commit under way began before some of these stores ended, perhaps: it must not count.
      const ColdLog& cold = *core_->cold();
      if (cold.commit_under_way()) return false;
      if (!cold.writable()) {
        sync.error = fail(
            Errc::io, "sync: a commit failed; cold takes no more stores until it is opened anew");
        sync.stage = SyncWait::Stage::done;
      } else if (core_->commit_now()) {
        sync.commit_op = core_->outbox().actions().back().op;
        sync.stage = SyncWait::Stage::committing;
      } else {
        sync.stage = SyncWait::Stage::done;  // Everything was committed already.
      }
      return false;
    }
    case SyncWait::Stage::committing:
    case SyncWait::Stage::done:
      return false;
  }
  return false;
}

}  // namespace tiercel
