#include "tier/nvme_tier.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tiercel {
// What the ops of one submit have already asked of a segment: all of them are checked before any is taken.
struct NvmeTier::SegmentPlan {
  std::uint32_t segment;
  bool used, closed;
  std::uint64_t next_offset;
  std::uint64_t records;
};

Result<Ticket> NvmeTier::submit(std::span<const Op> ops) {
  const std::size_t under_way = active_.size() - free_active_.size() + done_.size();
  if (under_way + ops.size() > options_.queue_ops_max) {
    return fail(Errc::busy, fmt::format("cold: {} ops are under way, at most {} may be", under_way,
                                        options_.queue_ops_max));
  }
  std::vector<SegmentPlan> plans;
  std::vector<Active> checked(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) TIERCEL_TRY_VOID(check(ops[i], plans, checked[i]));
  const Ticket ticket = next_ticket_++;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    checked[i].op = ops[i];
    checked[i].ticket = ticket;
    accept(std::move(checked[i]));
  }
  pump(true);
  return ticket;
}

NvmeTier::SegmentPlan& NvmeTier::plan_of(std::vector<SegmentPlan>& plans,
                                         std::uint32_t segment) const {
  const auto found = std::ranges::find(plans, segment, &SegmentPlan::segment);
  if (found != plans.end()) return *found;
  const Segment& now = segments_[segment];
  return plans.emplace_back(
      SegmentPlan{segment, now.used, now.closed, now.next_offset, now.entries.size() + now.stores});
}

Result<void> NvmeTier::check(const Op& op, std::vector<SegmentPlan>& plans, Active& active) const {
  if (op.type == OpType::commit || op.type == OpType::checkpoint) return {};
  const Place& place = op.place;
  if (place.segment >= segments_.size()) {
    return fail(Errc::invalid,
                fmt::format("cold: segment {} of {}", place.segment, segments_.size()));
  }
  SegmentPlan& plan = plan_of(plans, place.segment);
  const std::uint64_t segment_bytes = superblock().segment_bytes;
  switch (op.type) {
    case OpType::load:
    case OpType::store: {
      TIERCEL_TRY(active.spans, resolve_memory(op, options_.arena));
      if (place.bytes > superblock().record_bytes_max || place.offset < kSegmentHeaderBytes ||
          place.offset > segment_bytes || place.bytes > segment_bytes - place.offset) {
        return fail(Errc::invalid,
                    fmt::format("cold: place {}:{}+{} lies outside the records of a segment",
                                place.segment, place.offset, place.bytes));
      }
      break;
    }
    case OpType::seal:
      if (!plan.used || plan.closed)
        return fail(Errc::invalid, fmt::format("cold: segment {} is not open", place.segment));
      plan.closed = true;
      break;
    case OpType::reclaim:
      plan = {.segment = place.segment,
              .used = false,
              .closed = false,
              .next_offset = kSegmentHeaderBytes,
              .records = 0};
      break;
    case OpType::commit:
    case OpType::checkpoint:
      break;
  }
  if (op.type != OpType::store) return {};
  const bool first = !plan.used;
  if (plan.closed || place.offset < plan.next_offset ||
      (first && place.offset != kSegmentHeaderBytes)) {
    return fail(Errc::invalid, fmt::format("cold: a store at {}:{} where {} is expected",
                                           place.segment, place.offset,
                                           plan.closed ? "nothing (the segment is sealed)"
                                                       : fmt::to_string(plan.next_offset)));
  }
  if (!segment_has_room(segment_bytes, place.offset, place.bytes, plan.records + 1)) {
    return fail(Errc::invalid, fmt::format("cold: place {}:{}+{} leaves no room for the footer",
                                           place.segment, place.offset, place.bytes));
  }
  TIERCEL_TRY(const RecordHead head, check_stored_head(op, active.spans));
  std::vector<std::byte> scratch;
  active.entry = {.key = head.key,
                  .parent = head.parent,
                  .prefix = head.prefix,
                  .fingerprint = head.fingerprint,
                  .kind = head.kind,
                  .token_count = head.token_count,
                  .offset = place.offset,
                  .bytes = place.bytes,
                  .head_checksum = head_checksum(gather(active.spans, kPageBytes, scratch))};
  plan.used = true;
  plan.next_offset = place.offset + place.bytes;
  ++plan.records;
  return {};
}

void NvmeTier::accept(Active active) {
  std::uint32_t id = 0;
  if (free_active_.empty()) {
    id = static_cast<std::uint32_t>(active_.size());
    active_.emplace_back();
  } else {
    id = free_active_.back();
    free_active_.pop_back();
  }
  Active& a = active_[id] = std::move(active);
  const std::uint64_t open_group = first_group_ + groups_.size() - 1;
  const bool has_segment = a.op.type != OpType::commit && a.op.type != OpType::checkpoint;
  Segment* const segment = has_segment ? &segments_[a.op.place.segment] : nullptr;
  switch (a.op.type) {
    case OpType::load: {
      ++segment->loads;
      auto later =
          waiting_loads_.end();  // From the back: most loads are no more urgent than those before.
      while (later != waiting_loads_.begin() &&
             active_[*std::prev(later)].op.priority > a.op.priority) {
        --later;
      }
      waiting_loads_.insert(later, id);
      break;
    }
    case OpType::store:
      if (!segment->used) {
        segment->used = true;
        segment->header_due = true;
        segment->life = {.sequence = next_sequence_++, .epoch = superblock().epoch};
        quarantine_->end_life(a.op.place.segment);
      }
      segment->next_offset = a.op.place.offset + a.op.place.bytes;
      ++segment->stores;
      a.group = open_group;
      ++groups_.back();
      waiting_stores_.push_back(id);
      break;
    case OpType::commit:
      a.group = open_group;
      groups_.push_back(0);
      drop_empty_groups();
      waiting_commits_.push_back(id);
      break;
    case OpType::checkpoint:
      waiting_checkpoints_.push_back(id);
      break;
    case OpType::seal:
      segment->closed = segment->footer_due = true;
      finish(id, Outcome::delivered);
      start_footer(static_cast<std::uint32_t>(segment - segments_.data()));
      break;
    case OpType::reclaim: {
      TIERCEL_CHECK(segment->stores == 0 && segment->loads == 0);
      Segment fresh;  // A header or footer on its way delays the next life's first write; a sync
                      // does not mind.
      fresh.header_in_flight = segment->header_in_flight;
      fresh.footer_in_flight = segment->footer_in_flight;
      fresh.syncing = segment->syncing;
      *segment = std::move(fresh);
      quarantine_->end_life(a.op.place.segment);
      finish(id, Outcome::delivered);
      break;
    }
  }
}

void NvmeTier::pump(bool patient) {
  start_commits();
  start_loads();
  // A commit that waits for stores is no reason to be patient with them.
  start_stores(patient && waiting_commits_.empty());
  start_checkpoint();
  start_scrub();
}

void NvmeTier::start_commits() {
  if (committing_.empty() && !waiting_commits_.empty() && header_jobs_ == 0) {
    while (!waiting_commits_.empty() && active_[waiting_commits_.front()].group < first_group_) {
      committing_.push_back(waiting_commits_.front());
      waiting_commits_.pop_front();
    }
    if (!committing_.empty()) {
      if (directory_dirty_) waiting_syncs_.push_back(kDirectory);
      directory_dirty_ = false;
      for (std::uint32_t i = 0; i < segments_.size(); ++i) {
        Segment& segment = segments_[i];
        segment.entries_syncing = segment.entries.size();
        segment.footer_syncing = segment.footer_written;
        if (!segment.dirty) continue;
        segment.dirty = false;
#ifndef TIERCEL_SABOTAGE_DATA_SYNC  // The negative control: a build that calls durable what is not.
        segment.syncing = true;
        waiting_syncs_.push_back(i);
#endif
      }
      syncs_left_ = static_cast<std::uint32_t>(waiting_syncs_.size());
      sync_error_ = failed_;
    }
  }
  while (!waiting_syncs_.empty() && !free_jobs_.empty()) {
    const std::uint32_t segment = waiting_syncs_.front();
    waiting_syncs_.pop_front();
    const bool is_directory = segment == kDirectory;
    const std::uint32_t job =
        take_job(is_directory ? JobType::sync_directory : JobType::sync_segment, segment);
    submit_job(job,
               is_directory ? directory_->directory_file() : *directory_->segment_file(segment),
               IoType::sync, 0, {});
  }
  if (committing_.empty() || syncs_left_ > 0) return;
  if (sync_error_) failed_ = sync_error_;
  const std::vector<std::uint32_t> over = std::move(committing_);
  committing_.clear();
  for (const std::uint32_t id : over) {
    if (sync_error_) {
      finish(id, Outcome::error, *sync_error_);
    } else {
      finish(id, Outcome::delivered);
    }
  }
  for (Segment& segment : segments_) {
    if (!sync_error_) mark_durable(segment);
    segment.entries_syncing = 0;
    segment.footer_syncing = false;
  }
  checkpoint_held_ = checkpoint_held_ && sync_error_.has_value();
  for (std::uint32_t i = 0; i < segments_.size(); ++i) start_footer(i);
  if (!waiting_commits_.empty()) start_commits();
}

// What the commit that is over has covered. A segment that began a new life meanwhile has nothing of it.
void NvmeTier::mark_durable(Segment& segment) {
  for (; segment.entries_durable < segment.entries_syncing; ++segment.entries_durable)
    committed_bytes_ += segment.entries[segment.entries_durable].bytes;
  if (!segment.footer_syncing || segment.footer_durable) return;
  segment.footer_durable = true;
  segment.entries = {};
  segment.entries_durable = 0;
}

void NvmeTier::start_footer(std::uint32_t index) {
  Segment& segment = segments_[index];
  // Not one of its stores was begun (a full disk, say): the life is not on the disk, perhaps not even the file.
  if (segment.header_due && segment.stores == 0) segment.footer_due = false;
  // A sync that failed leaves its segment clean, and failed_ waits for the other syncs of that commit.
  const bool durable =
      segment.stores == 0 && !segment.dirty && !segment.syncing && !sync_error_ && !failed_;
  if (!segment.footer_due || !durable || footer_buffer_busy_ || free_jobs_.empty()) return;
  Footer footer{.store = superblock().store,
                .segment = index,
                .life = segment.life,
                .data_end = segment.next_offset,
                .entries = segment.entries};
  std::ranges::sort(footer.entries, {}, &FooterEntry::offset);  // Writes complete in any order.
  const auto bytes = encode_footer(footer);
  segment.footer_entries = footer.entries.size();
  segment.footer_due = false;
  segment.footer_in_flight = true;
  footer_buffer_busy_ = true;
  std::ranges::copy(bytes, footer_buffer_.begin());
  const std::uint32_t job = take_job(JobType::footer, index);
  jobs_[job].bytes = bytes.size();
  jobs_[job].life = segment.life;
  submit_job(job, *directory_->segment_file(index), IoType::write,
             superblock().segment_bytes - bytes.size(), {{footer_buffer_.data(), bytes.size()}});
}

bool NvmeTier::end_early(std::uint32_t id) {
  const Op& op = active_[id].op;
  if (op.deadline_ns == 0 || options_.clock->now_ns() <= op.deadline_ns) return false;
  finish(id, Outcome::error,
         fail(Errc::cancelled, "cold: the deadline passed before it was started"));
  return true;
}

void NvmeTier::cancel(Ticket ticket) {
  for (std::deque<std::uint32_t>* const list :
       {&waiting_loads_, &waiting_stores_, &waiting_commits_, &waiting_checkpoints_}) {
    std::vector<std::uint32_t> cancelled;
    std::erase_if(*list, [&](std::uint32_t id) {
      if (active_[id].ticket != ticket) return false;
      cancelled.push_back(id);
      return true;
    });
    for (const std::uint32_t id : cancelled)
      finish(id, Outcome::error, fail(Errc::cancelled, "cold: taken back"));
  }
}

void NvmeTier::finish(std::uint32_t id, Outcome outcome, Error error) {
  Active& active = active_[id];
  const OpType type = active.op.type;
  {
    const MutexLock lock(mutex_);
    if (type == OpType::load) ++stats_.loads;
    if (type == OpType::store) ++stats_.stores;
    if (type == OpType::commit) ++stats_.commits;
    if (outcome == Outcome::miss) ++stats_.misses;
    if (outcome == Outcome::error) ++stats_.errors;
    if (outcome == Outcome::error && error.code == Errc::corrupt) ++stats_.corrupt;
  }
  if (type == OpType::load && outcome == Outcome::error && error.code == Errc::corrupt)
    quarantine(active.op.place, active.op.key, error);
  if (!active.page.empty()) staging_->give_page(active.page);
  if (!active.slot.empty()) staging_->give_slot(active.slot);
  if (type == OpType::load) --segments_[active.op.place.segment].loads;
  done_.push_back({.ticket = active.ticket,
                   .tag = active.op.tag,
                   .outcome = outcome,
                   .error = std::move(error)});
  const std::uint64_t group = active.group;
  const std::uint32_t segment = active.op.place.segment;
  active = {};
  free_active_.push_back(id);
  if (type == OpType::store) {
    --segments_[segment].stores;
    --groups_[group - first_group_];
    drop_empty_groups();
    start_footer(segment);
  }
}

// A commit may start once its group is none of these any more.
void NvmeTier::drop_empty_groups() {
  while (groups_.size() > 1 && groups_.front() == 0) {
    groups_.pop_front();
    ++first_group_;
  }
}

std::size_t NvmeTier::deliver(std::vector<Completion>& out) {
  const std::size_t count = done_.size();
  std::ranges::move(done_, std::back_inserter(out));
  done_.clear();
  return count;
}

std::size_t NvmeTier::poll(std::vector<Completion>& out) {
  reap(0);
  pump(write_jobs_ > 0);
  return deliver(out);
}

std::size_t NvmeTier::wait(std::vector<Completion>& out, std::int64_t timeout_ns) {
  const std::int64_t until_ns = options_.clock->now_ns() + timeout_ns;
  pump(write_jobs_ > 0);
  reap(0);
  while (done_.empty()) {
    pump(write_jobs_ > 0);
    const std::int64_t left_ns = until_ns - options_.clock->now_ns();
    if (!done_.empty() || queue_->in_flight() == 0 || left_ns <= 0) break;
    // Not past the next step of the scrub; one that is due and held back waits for what is under way, like everybody.
    const std::int64_t scrub_ns =
        scrubs() && !scrub_.in_flight ? scrub_.due_ns - options_.clock->now_ns() : 0;
    reap(scrub_ns > 0 ? std::min(left_ns, scrub_ns) : left_ns);
  }
  pump(write_jobs_ > 0);
  return deliver(out);
}

TierStats NvmeTier::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

LinkEstimate NvmeTier::link() const {
  const MutexLock lock(mutex_);
  return meter_.estimate();
}

std::vector<std::string> NvmeTier::notes() const {
  std::vector<std::string> notes = disk_.notes();
  notes.insert(notes.end(), directory_->notes().begin(), directory_->notes().end());
  return notes;
}

}  // namespace tiercel
