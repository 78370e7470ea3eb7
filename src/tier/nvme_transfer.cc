// NvmeTier, the part that carries things out: requests from runs of adjacent ops, their completions, verification.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tier/nvme_tier.h"

namespace tiercel {
namespace {

// Room for a run's segment header, and for the staged page of each op, below kIoPiecesMax.
constexpr std::size_t kPiecesPerOpMax = kIoPiecesMax / 2;

bool fits(const IoAlignment& alignment, std::span<const std::byte> span) {
  return reinterpret_cast<std::uintptr_t>(span.data()) % alignment.memory == 0 &&
         span.size() % alignment.offset == 0;
}

// A request may always be one op long, however large; beyond that the limits hold.
bool over_limit(std::uint64_t under_way, std::uint64_t more, std::uint64_t limit) {
  return under_way > 0 && under_way + more > limit;
}

}  // namespace

// True where direct I/O can use the memory of the op itself.
bool NvmeTier::reachable(const Active& active) const {
  const IoAlignment alignment = directory_->segment_file(active.op.place.segment)->alignment();
  if (active.spans.size() > kPiecesPerOpMax) return false;
  if (active.op.type == OpType::load) {
    return active.spans.front().size() >= kPageBytes &&
           std::ranges::all_of(active.spans, [&](auto span) { return fits(alignment, span); });
  }
  return std::ranges::all_of(drop_front(active.spans, kPageBytes),
                             [&](auto span) { return fits(alignment, span); });
}

// False where staging memory is short.
bool NvmeTier::prepare_load(Active& active, std::vector<IoPiece>& pieces) {
  if (reachable(active)) {
    for (const auto span : active.spans) pieces.push_back({span.data(), span.size()});
    return true;
  }
  if (staging_->free_slots() == 0) return false;
  active.slot = staging_->take_slot();
  pieces.push_back({active.slot.data(), active.op.place.bytes});
  return true;
}

bool NvmeTier::prepare_store(Active& active, std::vector<IoPiece>& pieces) {
  const bool direct = reachable(active);
  if (direct ? staging_->free_pages() < 2 : staging_->free_slots() == 0)
    return false;  // One page is for a segment header.
  std::span<std::byte> first_page;
  if (direct) {
    first_page = active.page = staging_->take_page();
    std::vector<std::byte> scratch;
    std::ranges::copy(gather(active.spans, kPageBytes, scratch), first_page.begin());
    pieces.push_back({first_page.data(), kPageBytes});
    for (const auto span : drop_front(active.spans, kPageBytes))
      pieces.push_back({span.data(), span.size()});
  } else {
    active.slot = staging_->take_slot();
    first_page = active.slot.first(kPageBytes);
    std::byte* out = active.slot.data();
    for (const auto span : active.spans) {
      std::memcpy(out, span.data(), span.size());
      out += span.size();
    }
    pieces.push_back({active.slot.data(), active.op.place.bytes});
  }
  encode_place_echo(echo_of(active.op.place), placement_area(first_page));
  return true;
}

// What a record at this place must say of itself, in the segment's present life.
PlaceEcho NvmeTier::echo_of(const Place& place) const {
  return {.store = superblock().store,
          .segment = place.segment,
          .offset = place.offset,
          .life = segments_[place.segment].life};
}

void NvmeTier::start_loads() {
  while (!waiting_loads_.empty() && !free_jobs_.empty()) {
    const std::uint32_t first = waiting_loads_.front();
    if (over_limit(read_bytes_, active_[first].op.place.bytes, options_.bytes_in_flight_max))
      return;
    const Place place = active_[first].op.place;
    if (end_early(first)) {
      waiting_loads_.pop_front();
      continue;
    }
    if (!segments_[place.segment].used || directory_->segment_file(place.segment) == nullptr) {
      waiting_loads_.pop_front();
      finish(first, Outcome::miss);
      continue;
    }
    std::vector<std::uint32_t> ops;
    std::vector<IoPiece> pieces;
    std::uint64_t bytes = 0;
    while (!waiting_loads_.empty()) {
      Active& next = active_[waiting_loads_.front()];
      const Place& at = next.op.place;
      const bool adjacent = at.segment == place.segment && at.offset == place.offset + bytes;
      if (!ops.empty() && (!adjacent || bytes + at.bytes > options_.request_bytes_max ||
                           pieces.size() + next.spans.size() > kIoPiecesMax)) {
        break;
      }
      if (!prepare_load(next, pieces)) break;
      ops.push_back(waiting_loads_.front());
      waiting_loads_.pop_front();
      bytes += at.bytes;
    }
    if (ops.empty()) return;
    const std::uint32_t job = take_job(JobType::read, place.segment);
    jobs_[job].ops = std::move(ops);
    jobs_[job].bytes = bytes;
    read_bytes_ += bytes;
    submit_job(job, *directory_->segment_file(place.segment), IoType::read, place.offset,
               std::move(pieces));
  }
}

// Patient: a run that could still grow, and is not long yet, waits for the stores that may follow it.
void NvmeTier::start_stores(bool patient) {
  while (!waiting_stores_.empty() &&
         free_jobs_.size() > 1) {  // Two: a segment header may need its own.
    const std::uint32_t first = waiting_stores_.front();
    const Place place = active_[first].op.place;
    const Segment& segment = segments_[place.segment];
    if (over_limit(write_bytes_, place.bytes, options_.bytes_in_flight_max) ||
        segment.footer_in_flight || (segment.header_due && segment.header_in_flight))
      return;
    std::uint64_t run_bytes = 0;
    std::size_t run_ops = 0;
    for (const std::uint32_t id : waiting_stores_) {
      const Place& at = active_[id].op.place;
      const bool adjacent = at.segment == place.segment && at.offset == place.offset + run_bytes;
      if (run_ops > 0 && (!adjacent || run_bytes + at.bytes > options_.request_bytes_max)) break;
      run_bytes += at.bytes;
      ++run_ops;
    }
    const bool may_grow =
        run_ops == waiting_stores_.size() && run_bytes < options_.request_bytes_max;
    if (patient && may_grow) return;

    if (end_early(first)) {
      waiting_stores_.pop_front();
      continue;
    }
    const bool fresh_file = directory_->segment_file(place.segment) == nullptr;
    const auto file = directory_->make_segment_file(place.segment);
    if (failed_ || !file) {
      waiting_stores_.pop_front();
      finish(first, Outcome::error, failed_ ? *failed_ : file.error());
      continue;
    }
    directory_dirty_ = directory_dirty_ || fresh_file;
    std::vector<std::uint32_t> ops;
    std::vector<IoPiece> pieces;
    while (ops.size() < run_ops &&
           pieces.size() + active_[waiting_stores_.front()].spans.size() + 2 <= kIoPiecesMax) {
      if (!prepare_store(active_[waiting_stores_.front()], pieces)) break;
      ops.push_back(waiting_stores_.front());
      waiting_stores_.pop_front();
    }
    if (ops.empty()) return;
    start_run(place.segment, std::move(ops), std::move(pieces), fresh_file);
  }
}

// Writes a run of adjacent records; where it starts a life, the segment header goes along, in the same request if it can.
void NvmeTier::start_run(std::uint32_t index, std::vector<std::uint32_t> ops,
                         std::vector<IoPiece> pieces, bool fresh_file) {
  Segment& segment = segments_[index];
  File& file = *directory_->segment_file(index);
  const std::uint64_t format_bytes = fresh_file ? kSegmentHeaderBytes : 0;
  std::uint64_t offset = active_[ops.front()].op.place.offset;
  const std::uint32_t job = take_job(JobType::write, index);
  if (segment.header_due) {
    segment.header_due = false;
    const std::span<std::byte> page = staging_->take_page();
    encode_segment_header({.store = superblock().store,
                           .segment = index,
                           .life = segment.life,
                           .segment_bytes = superblock().segment_bytes},
                          page);
    if (offset == kSegmentHeaderBytes) {
      offset = 0;
      pieces.insert(pieces.begin(), {page.data(), page.size()});
      jobs_[job].header_page = page;
      jobs_[job].bytes = kSegmentHeaderBytes;
      jobs_[job].format_bytes = format_bytes;
    } else {  // The first store of the life never came to be written.
      const std::uint32_t header = take_job(JobType::write, index);
      jobs_[header].header_page = page;
      jobs_[header].bytes = kSegmentHeaderBytes;
      jobs_[header].format_bytes = format_bytes;
      write_bytes_ += kSegmentHeaderBytes;
      ++write_jobs_;
      ++header_jobs_;
      segment.header_in_flight = true;
      submit_job(header, file, IoType::write, 0, {{page.data(), page.size()}});
    }
  }
  for (const std::uint32_t id : ops) jobs_[job].bytes += active_[id].op.place.bytes;
  jobs_[job].ops = std::move(ops);
  write_bytes_ += jobs_[job].bytes;
  ++write_jobs_;
  submit_job(job, file, IoType::write, offset, std::move(pieces));
}

std::uint32_t NvmeTier::take_job(JobType type, std::uint32_t segment) {
  const std::uint32_t index = free_jobs_.back();
  free_jobs_.pop_back();
  jobs_[index] = {.type = type, .segment = segment, .started_ns = options_.clock->now_ns()};
  return index;
}

void NvmeTier::submit_job(std::uint32_t job, File& file, IoType type, std::uint64_t offset,
                          std::vector<IoPiece> pieces) {
  if (type != IoType::sync && jobs_[job].type != JobType::scrub) {
    const MutexLock lock(mutex_);
    meter_.start(type == IoType::read ? LinkMeter::Direction::read : LinkMeter::Direction::write,
                 jobs_[job].started_ns);
  }
  // There are as many jobs as the queue is deep, so it always has room.
  TIERCEL_CHECK(queue_->submit(
      {.type = type, .file = &file, .offset = offset, .pieces = std::move(pieces), .tag = job}));
}

void NvmeTier::reap(std::int64_t timeout_ns) {
  reaped_.clear();
  if (timeout_ns > 0) {
    queue_->wait(reaped_, timeout_ns);
  } else {
    queue_->poll(reaped_);
  }
  for (const IoCompletion& completion : reaped_) complete(completion);
}

void NvmeTier::complete(const IoCompletion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.tag);
  Job job = std::move(jobs_[index]);
  free_jobs_.push_back(index);
  const bool is_read = job.type == JobType::read;
  if (is_read || job.type == JobType::write || job.type == JobType::footer ||
      job.type == JobType::checkpoint) {
    const std::int64_t now_ns = options_.clock->now_ns();
    const MutexLock lock(mutex_);
    meter_.finish(is_read ? LinkMeter::Direction::read : LinkMeter::Direction::write, job.bytes,
                  now_ns - job.started_ns, now_ns);
    if (completion.result) {
      (is_read ? stats_.bytes_read : stats_.bytes_written) += job.bytes - job.format_bytes;
      stats_.bytes_format += job.format_bytes;
    }
  }
  switch (job.type) {
    case JobType::read:
      complete_read(job, completion.result);
      break;
    case JobType::write:
      complete_write(job, completion.result);
      break;
    case JobType::sync_segment:
    case JobType::sync_directory:
      complete_sync(job, completion.result);
      break;
    case JobType::footer:
      complete_footer(job, completion.result);
      break;
    case JobType::checkpoint:
    case JobType::sync_checkpoint:
      complete_checkpoint(job, completion.result);
      break;
    case JobType::scrub:
      complete_scrub(job, completion.result);
      break;
  }
}

void NvmeTier::complete_read(Job& job, const Result<void>& result) {
  read_bytes_ -= job.bytes;
  for (const std::uint32_t id : job.ops) {
    if (!result) {
      finish(id, Outcome::error, result.error());
      continue;
    }
    const auto verified = verify(active_[id]);
    if (!verified) {
      finish(id, Outcome::error, verified.error());
    } else {
      finish(id, *verified ? Outcome::delivered : Outcome::miss);
    }
  }
}

// False: nothing was ever written there. The destination of a bounced load is filled on the way.
Result<bool> NvmeTier::verify(Active& active) {
  const Place& place = active.op.place;
  std::array<std::span<std::byte>, 1> slot{active.slot.empty() ? std::span<std::byte>()
                                                               : active.slot.first(place.bytes)};
  const std::span<const std::span<std::byte>> read =
      active.slot.empty() ? std::span<const std::span<std::byte>>(active.spans)
                          : std::span<const std::span<std::byte>>(slot);
  TIERCEL_TRY(const auto head, check_placed_head(active.op, echo_of(place), read));
  if (!head) return false;
  const std::uint64_t head_bytes = record_head_bytes(head->chunks.size());
  const Spans body = drop_front(read, head_bytes);
  const std::vector<std::span<const std::byte>> from(body.begin(), body.end());
  if (active.slot.empty()) {
    TIERCEL_TRY_VOID(verify_chunks(*head, from));
    return true;
  }
  std::uint64_t at = 0;
  for (const auto span : active.spans) {
    const std::uint64_t part = std::min<std::uint64_t>(span.size(), head_bytes - at);
    std::memcpy(span.data(), active.slot.data() + at, part);
    at += part;
    if (at == head_bytes) break;
  }
  TIERCEL_TRY_VOID(copy_verified(*head, from, drop_front(active.spans, head_bytes)));
  return true;
}

void NvmeTier::complete_write(Job& job, const Result<void>& result) {
  write_bytes_ -= job.bytes;
  --write_jobs_;
  Segment& segment = segments_[job.segment];
  if (!job.header_page.empty()) staging_->give_page(job.header_page);
  if (job.ops.empty()) {
    --header_jobs_;
    segment.header_in_flight = false;
  }
  segment.dirty = segment.dirty || result.has_value();
  // Without its header, nothing in the segment would be found again.
  if (!result && !job.header_page.empty()) failed_ = result.error();
  for (const std::uint32_t id : job.ops) {
    if (!result) {
      finish(id, Outcome::error, result.error());
      continue;
    }
    segment.entries.push_back(active_[id].entry);
    finish(id, Outcome::delivered);
  }
}

void NvmeTier::complete_sync(Job& job, const Result<void>& result) {
  if (job.type == JobType::sync_segment) segments_[job.segment].syncing = false;
  if (!result) sync_error_ = result.error();
  --syncs_left_;
}

void NvmeTier::complete_footer(Job& job, const Result<void>& result) {
  Segment& segment = segments_[job.segment];
  segment.footer_in_flight = false;
  segment.dirty = segment.dirty || segment.used;  // The next commit makes the footer durable.
  footer_buffer_busy_ = false;
  if (segment.used && segment.life == job.life) {  // Else it began a new life meanwhile.
    segment.footer_written = result.has_value();
    if (!result) segment.entries = {};
    if (!result) segment.entries_durable = segment.entries_syncing = 0;
  }
  if (!result) {  // Only an index: the records are still found by walking the segment.
    const MutexLock lock(mutex_);
    ++stats_.errors;
  }
  for (std::uint32_t i = 0; i < segments_.size() && !footer_buffer_busy_; ++i) start_footer(i);
}

}  // namespace tiercel
