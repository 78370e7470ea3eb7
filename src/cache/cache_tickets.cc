// Fetches, and how callers follow what they have asked for: poll, wait, cancel, sync.
#include <fmt/format.h>

#include <algorithm>

#include "cache/cache_impl.h"

namespace tiercel {
namespace {

// Blocks of fetches under way at most: what a caller hands in is remembered until it ends.
constexpr std::uint64_t kRequestsMax = 1 << 16;
// A wait looks up so often even if nobody woke it.
constexpr std::chrono::milliseconds kLook{100};

// Waits are bounded by steady time, whatever a caller asks for.
std::chrono::steady_clock::time_point deadline_of(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24);
  return std::chrono::steady_clock::now() +
         std::clamp(timeout, std::chrono::nanoseconds(0), longest);
}

std::chrono::nanoseconds look_within(std::chrono::steady_clock::time_point deadline) {
  return std::min<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), kLook);
}

}  // namespace

Ticket CacheImpl::new_ticket(bool is_put, std::uint32_t left, OnFinished on_finished) {
  const Ticket ticket = next_ticket_++;
  Pending& pending = pending_[ticket];
  pending.finished.ticket = ticket;
  pending.is_put = is_put;
  pending.left = left;
  pending.on_finished = std::move(on_finished);
  if (is_put) open_puts_.insert(ticket);
  return ticket;
}

Result<Ticket> CacheImpl::fetch(const Match& match, std::span<const Destination> destinations,
                                OnFinished on_finished) {
  for (const Destination& destination : destinations) {
    if (destination.block >= match.blocks_.size()) {
      return fail(Errc::invalid, fmt::format("fetch: block {} of a match of {}", destination.block,
                                             match.blocks_.size()));
    }
    TIERCEL_TRY_VOID(check_memory("fetch", destination.block, destination.memory,
                                  match.blocks_[destination.block].bytes));
  }
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  if (requests_open_ + destinations.size() > kRequestsMax) {
    return fail(Errc::busy, fmt::format("fetch: {} blocks are under way, at most {} may be",
                                        requests_open_, kRequestsMax));
  }
  const Ticket ticket =
      new_ticket(false, static_cast<std::uint32_t>(destinations.size()), std::move(on_finished));
  pending_[ticket].finished.blocks.resize(destinations.size());
  std::uint32_t slot = 0;
  std::vector<std::pair<std::uint32_t, BlockId>> found;  // In the match's order: parents first.
  for (const Destination& destination : destinations) {
    const Key& key = match.blocks_[destination.block].key;
    const BlockId id = core_->table().find(key);
    Request request{.ticket = ticket, .slot = slot++, .block = id, .memory = destination.memory};
    ++requests_open_;
    if (id != kNoBlock) core_->table().retain(id);
    if (id == kNoBlock || !core_->fetch(id)) {
      end_request(request, Outcome::miss, {});
    } else {
      requests_[id].push_back(std::move(request));
      found.emplace_back(destination.block, id);
    }
  }
  std::ranges::sort(found);
  std::vector<BlockId> fetched;
  for (const auto& [index, id] : found) fetched.push_back(id);
  core_->touch(fetched);
  if (destinations.empty()) finish(ticket);
  work_.notify_one();
  return ticket;
}

Result<std::optional<Finished>> CacheImpl::poll(Ticket ticket) {
  const MutexLock lock(mutex_);
  const auto found = pending_.find(ticket);
  if (found == pending_.end() || found->second.on_finished) {
    return fail(Errc::invalid, fmt::format("ticket {}: unknown, or its result was taken", ticket));
  }
  if (!found->second.done) return std::optional<Finished>();
  std::optional<Finished> finished = std::move(found->second.finished);
  pending_.erase(found);
  return finished;
}

Result<Finished> CacheImpl::wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  const auto deadline = deadline_of(timeout);
  for (;;) {
    TIERCEL_TRY(std::optional<Finished> finished, poll(ticket));
    if (finished) return std::move(*finished);
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::busy, fmt::format("ticket {}: not finished in time", ticket));
    }
    const MutexLock lock(mutex_);
    const auto found = pending_.find(ticket);
    if (found != pending_.end() && !found->second.done)
      finished_.wait_for(mutex_, look_within(deadline));
  }
}

void CacheImpl::cancel(Ticket ticket) {
  const MutexLock lock(mutex_);
  const auto found = pending_.find(ticket);
  if (found == pending_.end() || found->second.done || closed_) return;
  found->second.cancelled = true;  // Of a put: seen when its blocks would be copied.
  std::vector<Request> taken_back;
  for (auto& [block, waiting] : requests_) {
    std::erase_if(waiting, [&](Request& request) {
      if (request.ticket != ticket) return false;
      taken_back.push_back(std::move(request));
      return true;
    });
  }
  std::erase_if(requests_, [](const auto& entry) { return entry.second.empty(); });
  const Error error = fail(Errc::cancelled, "taken back before it began");
  for (const Request& request : taken_back) end_request(request, Outcome::error, error);
}

Result<void> CacheImpl::sync(std::chrono::nanoseconds timeout) {
  const auto deadline = deadline_of(timeout);
  const MutexLock lock(mutex_);
  TIERCEL_TRY_VOID(begin_call());
  if (!plan_.has_cold) return {};
  const auto sync = syncs_.insert(
      syncs_.end(), SyncWait{.puts_before = next_ticket_, .failed_from = told_cold_stores_});
  work_.notify_one();
  while (sync->stage != SyncWait::Stage::done && std::chrono::steady_clock::now() < deadline) {
    finished_.wait_for(mutex_, look_within(deadline));
  }
  const bool done = sync->stage == SyncWait::Stage::done;
  const SyncWait ended = *sync;
  syncs_.erase(sync);
  if (!done) return fail(Errc::busy, "sync: not durable in time");
  if (ended.error) return *ended.error;
  if (ended.failed_to <= ended.failed_from) return {};
  told_cold_stores_ = std::max(told_cold_stores_, ended.failed_to);
  const Error& last = cold_store_error_;
  return fail(
      last.code == Errc::no_space ? Errc::no_space : Errc::io,
      fmt::format("sync: {} blocks that were admitted to cold could not be written; the last: {}",
                  ended.failed_to - ended.failed_from, last.what),
      last.os_errno);
}

}  // namespace tiercel
