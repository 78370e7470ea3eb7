// NvmeTier, the part that nobody waits for: checkpoints and the quarantine.
#include <algorithm>
#include <ctime>
#include <utility>

#include "tier/nvme_tier.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kCheckpointDivisor = 4;  // Of a segment: committed bytes between two.

}  // namespace

bool NvmeTier::checkpoint_due() const {
  if (failed_ || directory_->checkpoint_file() == nullptr) return false;
  if (!waiting_checkpoints_.empty() || !checkpointing_.empty() || checkpoint_held_) return false;
  return quarantine_changed_ || committed_bytes_ >= superblock().segment_bytes / kCheckpointDivisor;
}

// The index as it is durable now.
Checkpoint NvmeTier::take_checkpoint() const {
  Checkpoint checkpoint{.store = superblock().store,
                        .sequence = checkpoint_sequence_,
                        .epoch = superblock().epoch,
                        .unix_s = unix_time_s(),
                        .segments = {},
                        .quarantined = quarantine_->places()};
  // Nothing at or behind the first store that no commit covers yet is listed: a walk begins there.
  std::vector<std::uint64_t> first_open(segments_.size(), superblock().segment_bytes);
  for (const Active& active : active_) {
    if (active.op.type != OpType::store || active.ticket == 0) continue;
    std::uint64_t& first = first_open[active.op.place.segment];
    first = std::min(first, active.op.place.offset);
  }
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    if (!segment.used || (!segment.footer_durable && segment.entries_durable == 0)) continue;
    CheckpointSegment row{.segment = i,
                          .life = segment.life,
                          .sealed = segment.footer_durable,
                          .data_end = segment.next_offset};
    if (!row.sealed) {
      const auto durable = segment.entries.begin() + static_cast<long>(segment.entries_durable);
      row.data_end = std::min(row.data_end, first_open[i]);
      for (auto entry = durable; entry != segment.entries.end(); ++entry)
        row.data_end = std::min(row.data_end, entry->offset);
      std::copy_if(segment.entries.begin(), durable, std::back_inserter(row.entries),
                   [&](const FooterEntry& entry) { return entry.offset < row.data_end; });
      std::ranges::sort(row.entries, {}, &FooterEntry::offset);
    }
    checkpoint.segments.push_back(std::move(row));
  }
  return checkpoint;
}

void NvmeTier::start_checkpoint() {
  if (waiting_checkpoints_.empty() || !checkpointing_.empty() || free_jobs_.empty()) return;
  checkpointing_.assign(waiting_checkpoints_.begin(), waiting_checkpoints_.end());
  waiting_checkpoints_.clear();
  File* const file = directory_->checkpoint_file();
  if (file == nullptr) {
    return end_checkpoint(fail(Errc::unavailable, "cold: this store has no file for checkpoints"));
  }
  Checkpoint checkpoint = take_checkpoint();
  fit_checkpoint(checkpoint, checkpoint_buffer_.size());
  const std::span<std::byte> bytes = checkpoint_buffer_.first(checkpoint_bytes(checkpoint));
  encode_checkpoint(checkpoint, bytes);
  checkpointing_bytes_ = std::exchange(committed_bytes_, 0);
  checkpointing_quarantine_ = std::exchange(quarantine_changed_, false);
  const std::uint32_t job = take_job(JobType::checkpoint, 0);
  jobs_[job].bytes = bytes.size();
  submit_job(job, *file, IoType::write, checkpoint_slot_ * checkpoint_buffer_.size(),
             {{bytes.data(), bytes.size()}});
}

void NvmeTier::complete_checkpoint(Job& job, const Result<void>& result) {
  if (!result || job.type == JobType::sync_checkpoint) return end_checkpoint(result);
  // The job that has just ended has left its place to this one.
  submit_job(take_job(JobType::sync_checkpoint, 0), *directory_->checkpoint_file(), IoType::sync, 0,
             {});
}

// After a failure the same slot is written again: the other one holds the last good checkpoint.
void NvmeTier::end_checkpoint(const Result<void>& result) {
  if (result) {
    checkpoint_slot_ = 1 - checkpoint_slot_;
    ++checkpoint_sequence_;
  } else {
    committed_bytes_ += checkpointing_bytes_;
    quarantine_changed_ = quarantine_changed_ || checkpointing_quarantine_;
  }
  checkpoint_held_ = !result;
  checkpointing_bytes_ = 0;
  checkpointing_quarantine_ = false;
  {
    const MutexLock lock(mutex_);
    ++(result ? stats_.checkpoints : stats_.checkpoint_errors);
  }
  const std::vector<std::uint32_t> over = std::move(checkpointing_);
  checkpointing_.clear();
  for (const std::uint32_t id : over) {
    if (result) {
      finish(id, Outcome::delivered);
    } else {
      finish(id, Outcome::error, result.error());
    }
  }
}

// The key is remembered too: a caller that asked for the wrong one must not hide the record that lies there.
void NvmeTier::quarantine(const Place& place, const Key& key, const Error& error) {
  const Segment& segment = segments_[place.segment];
  if (!segment.used || place.offset >= segment.next_offset) return;  // No store of this life.
  if (!quarantine_->add({.segment = place.segment,
                         .life = segment.life,
                         .offset = place.offset,
                         .key = key,
                         .unix_s = unix_time_s(),
                         .reason = error.what.substr(0, kQuarantineReasonBytes)})) {
    return;
  }
  quarantine_changed_ = true;
  const MutexLock lock(mutex_);
  ++stats_.quarantined;
}

std::int64_t NvmeTier::unix_time_s() const {
  return options_.unix_time_s ? options_.unix_time_s() : static_cast<std::int64_t>(::time(nullptr));
}

}  // namespace tiercel
