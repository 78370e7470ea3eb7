#include "tier/ram_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "kv/stream_copy.h"
#include "tier/record_check.h"

namespace tiercel {

RamTier::RamTier(const RamTierOptions& options) : options_(options) {
  capabilities_.name = options.name;
  capabilities_.alignment = kRecordAlignment;
  capabilities_.capacity_bytes = options.memory.size();
}

Result<void> RamTier::check(const Op& op) const {
  switch (op.type) {
    case OpType::seal:
    case OpType::reclaim:
    case OpType::checkpoint:
      return fail(Errc::invalid, fmt::format("{} has no segments", options_.name));
    case OpType::commit:
      return {};
    case OpType::store:
    case OpType::load:
      break;
  }
  const Place& place = op.place;
  if (place.segment != 0 || place.offset > options_.memory.size() ||
      place.bytes > options_.memory.size() - place.offset) {
    return fail(Errc::invalid,
                fmt::format("{}: place {}:{}+{} is outside its {} bytes", options_.name,
                            place.segment, place.offset, place.bytes, options_.memory.size()));
  }
  TIERCEL_TRY(const Spans spans, resolve_memory(op, options_.arena));
  if (op.type == OpType::store) {
    TIERCEL_TRY(const RecordHead head, check_stored_head(op, spans));
  }
  return {};
}

Result<Ticket> RamTier::submit(std::span<const Op> ops) {
  if (done_.size() + ops.size() > options_.queue_ops_max) {
    return fail(Errc::busy, fmt::format("{}: {} ops are under way", options_.name, done_.size()));
  }
  for (const Op& op : ops) TIERCEL_TRY_VOID(check(op));
  const Ticket ticket = next_ticket_++;
  std::vector<const Op*> order;
  order.reserve(ops.size());
  for (const Op& op : ops) order.push_back(&op);
  std::ranges::stable_sort(order, {}, [](const Op* op) { return op->priority; });
  for (const Op* op : order) {
    Completion completion = carry_out(*op);
    completion.ticket = ticket;
    const bool moved = completion.outcome == Outcome::delivered && op->type != OpType::commit;
    done_.push_back(
        {.at_ns = due_ns(moved ? op->place.bytes : 0), .completion = std::move(completion)});
  }
  return ticket;
}

Completion RamTier::carry_out(const Op& op) {
  Completion completion{.tag = op.tag, .outcome = Outcome::delivered};
  const std::int64_t start_ns = options_.clock->now_ns();
  if (op.type != OpType::commit && op.deadline_ns != 0 && start_ns > op.deadline_ns) {
    completion.outcome = Outcome::error;
    completion.error =
        fail(Errc::cancelled, fmt::format("{}: the deadline had passed", options_.name));
    return completion;
  }
  Result<bool> outcome = true;
  if (op.type == OpType::load) outcome = load(op);
  if (op.type == OpType::store) {
    const auto stored = store(op);
    if (!stored) outcome = stored.error();
  }
  const std::int64_t end_ns = options_.clock->now_ns();
  if (!outcome) {
    completion.outcome = Outcome::error;
    completion.error = outcome.error();
  } else if (!*outcome) {
    completion.outcome = Outcome::miss;
  }
  const MutexLock lock(mutex_);
  if (op.type == OpType::commit) {
    ++stats_.commits;
    return completion;
  }
  const bool is_load = op.type == OpType::load;
  ++(is_load ? stats_.loads : stats_.stores);
  (is_load ? stats_.bytes_read : stats_.bytes_written) += op.place.bytes;
  if (completion.outcome == Outcome::miss) ++stats_.misses;
  if (completion.outcome == Outcome::error) {
    ++stats_.errors;
    if (completion.error.code == Errc::corrupt) ++stats_.corrupt;
  }
  const auto way = is_load ? LinkMeter::Direction::read : LinkMeter::Direction::write;
  meter_.start(way, start_ns);
  meter_.finish(way, op.place.bytes, end_ns - start_ns, end_ns);
  return completion;
}

Result<void> RamTier::store(const Op& op) {
  TIERCEL_TRY(const Spans spans, resolve_memory(op, options_.arena));
  std::byte* out = options_.memory.data() + op.place.offset;
  for (const auto span : spans) {
    stream_copy(out, span.data(), span.size());
    out += span.size();
  }
  stream_fence();
  return {};
}

Result<bool> RamTier::load(const Op& op) {
  TIERCEL_TRY(const Spans to, resolve_memory(op, options_.arena));
  const std::span<const std::byte> record =
      options_.memory.subspan(op.place.offset, op.place.bytes);
  if (never_written(record)) return false;
  TIERCEL_TRY(const RecordHead head, check_loaded_head(op, record));
  const std::uint64_t head_bytes = record_head_bytes(head.chunks.size());
  const std::byte* from = record.data();
  std::uint64_t left = head_bytes;
  for (const auto span : to) {
    const std::uint64_t part = std::min<std::uint64_t>(span.size(), left);
    std::memcpy(span.data(), from, part);
    from += part;
    left -= part;
    if (left == 0) break;
  }
  const std::span<const std::byte> body = record.subspan(head_bytes);
  TIERCEL_TRY_VOID(copy_verified(head, std::span(&body, 1), drop_front(to, head_bytes)));
  return true;
}

std::int64_t RamTier::due_ns(std::uint64_t bytes) {
  if (options_.pace.bytes_per_s <= 0) return 0;
  const auto transfer_ns =
      static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / options_.pace.bytes_per_s);
  link_free_ns_ = std::max(link_free_ns_, options_.clock->now_ns()) + transfer_ns;
  return link_free_ns_ + options_.pace.latency_ns;
}

std::size_t RamTier::poll(std::vector<Completion>& out) {
  const std::size_t before = out.size();
  if (options_.pace.bytes_per_s <= 0) {
    for (Due& due : done_) out.push_back(std::move(due.completion));
    done_.clear();
    return out.size() - before;
  }
  const std::int64_t now_ns = options_.clock->now_ns();
  while (!done_.empty() && done_.front().at_ns <= now_ns) {
    out.push_back(std::move(done_.front().completion));
    done_.pop_front();
  }
  return out.size() - before;
}

std::size_t RamTier::wait(std::vector<Completion>& out, std::int64_t timeout_ns) {
  if (done_.empty() || options_.pace.bytes_per_s <= 0) return poll(out);
  const std::int64_t left_ns = done_.front().at_ns - options_.clock->now_ns();
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(std::clamp<std::int64_t>(left_ns, 0, timeout_ns)));
  return poll(out);
}

TierStats RamTier::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

LinkEstimate RamTier::link() const {
  const MutexLock lock(mutex_);
  return meter_.estimate();
}

}  // namespace tiercel
