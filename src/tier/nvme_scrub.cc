// NvmeTier, the scrub: reads what nobody asks for, so that what has gone bad is known before it is needed.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "tier/nvme_tier.h"

namespace tiercel {
namespace {

constexpr std::size_t kJobsForOthers = 2;  // A store and its segment's header.
constexpr std::int64_t kNothingToDo_ns =
    1'000'000'000;                            // No sealed segment: looks again after so long.
constexpr std::int64_t kReap_ns = 2'000'000;  // A read of a megabyte takes about so long.

}  // namespace

std::vector<ScrubFinding> NvmeTier::take_findings() { return std::exchange(findings_, {}); }

std::optional<std::int64_t> NvmeTier::scrub_due_ns() const {
  if (!scrubs()) return std::nullopt;
  return scrub_.in_flight ? options_.clock->now_ns() + kReap_ns : scrub_.due_ns;
}

// The life is compared before a request and after it: where it has ended, what was read may be of two lives, and proves nothing.
bool NvmeTier::scrub_segment_alive() const {
  const Segment& segment = segments_[scrub_.segment];
  return segment.used && segment.footer_durable && same_life(segment.life, scrub_.life);
}

void NvmeTier::end_scrub_segment() {
  scrub_.began = false;
  scrub_.entries = {};
  ++scrub_.segment;
}

// The next sealed segment, round and round; false where there is none.
bool NvmeTier::find_scrub_segment() {
  for (std::size_t looked = 0; looked <= segments_.size(); ++looked, ++scrub_.segment) {
    if (scrub_.segment >= segments_.size()) {
      scrub_.segment = 0;
      if (scrub_.segments_in_round > 0) {
        const MutexLock lock(mutex_);
        ++stats_.scrub_rounds;
      }
      scrub_.segments_in_round = 0;
    }
    const Segment& segment = segments_[scrub_.segment];
    if (!segment.used || !segment.footer_durable) continue;
    scrub_.began = true;
    scrub_.life = segment.life;
    scrub_.next = scrub_.asked = 0;
    return true;
  }
  return false;
}

void NvmeTier::start_scrub() {
  if (!scrubs() || scrub_.in_flight || free_jobs_.size() <= kJobsForOthers) return;
  if (!waiting_loads_.empty() || !waiting_stores_.empty() || !waiting_syncs_.empty()) return;
  const std::int64_t now_ns = options_.clock->now_ns();
  if (now_ns < scrub_.due_ns) return;
  if (scrub_.began && !scrub_segment_alive()) end_scrub_segment();
  if (!scrub_.began && !find_scrub_segment()) {
    scrub_.due_ns = now_ns + kNothingToDo_ns;
    return;
  }
  std::uint64_t offset = 0, bytes = 0;
  if (scrub_.entries.empty()) {
    bytes = footer_bytes(segments_[scrub_.segment].footer_entries);
    offset = superblock().segment_bytes - bytes;
  } else {
    offset = scrub_.entries[scrub_.next].offset;
    for (scrub_.asked = 0; scrub_.next + scrub_.asked < scrub_.entries.size(); ++scrub_.asked) {
      const FooterEntry& entry = scrub_.entries[scrub_.next + scrub_.asked];
      if (scrub_.asked > 0 && entry.offset + entry.bytes > offset + kScrubRequestBytes) break;
      bytes = entry.offset + entry.bytes - offset;
    }
  }
  TIERCEL_CHECK(bytes <= scrub_buffer_.size());
  const std::uint32_t job = take_job(JobType::scrub, scrub_.segment);
  jobs_[job].bytes = bytes;
  scrub_.in_flight = true;
  submit_job(job, *directory_->segment_file(scrub_.segment), IoType::read, offset,
             {{scrub_buffer_.data(), bytes}});
}

void NvmeTier::complete_scrub(Job& job, const Result<void>& result) {
  scrub_.in_flight = false;
  const double spent_ns =
      static_cast<double>(job.bytes) * 1e9 / static_cast<double>(options_.scrub_bytes_per_s);
  scrub_.due_ns = job.started_ns + static_cast<std::int64_t>(spent_ns);
  {
    const MutexLock lock(mutex_);
    if (!result) ++stats_.errors;
    if (result) stats_.bytes_read += job.bytes;
    if (result) stats_.scrubbed_bytes += job.bytes;
  }
  if (!scrub_segment_alive()) return end_scrub_segment();
  if (scrub_.entries.empty()) {
    if (!result) return end_scrub_segment();
    take_scrub_footer(job.bytes);
    return;
  }
  if (result) verify_scrubbed();  // Else the device refused: that says nothing about the records.
  scrub_.next += scrub_.asked;
  if (scrub_.next < scrub_.entries.size()) return;
  ++scrub_.segments_in_round;
  end_scrub_segment();
}

// A footer that has gone bad costs the next restart a walk, and no record: it is only counted.
void NvmeTier::take_scrub_footer(std::uint64_t bytes) {
  auto footer = parse_footer(scrub_buffer_.first(bytes), superblock().segment_bytes);
  if (footer && footer->store == superblock().store && footer->segment == scrub_.segment &&
      same_life(footer->life, scrub_.life) && !footer->entries.empty() &&
      fit_record_bytes_max(footer->entries, superblock().record_bytes_max)) {
    scrub_.entries = std::move(footer->entries);
    return;
  }
  {
    const MutexLock lock(mutex_);
    ++stats_.corrupt;
  }
  ++scrub_.segments_in_round;
  end_scrub_segment();
}

void NvmeTier::verify_scrubbed() {
  const std::uint64_t first = scrub_.entries[scrub_.next].offset;
  for (std::size_t i = scrub_.next; i < scrub_.next + scrub_.asked; ++i) {
    const FooterEntry& entry = scrub_.entries[i];
    const Place place{.segment = scrub_.segment, .offset = entry.offset, .bytes = entry.bytes};
    if (quarantine_->holds(place.segment, place.offset, entry.key)) continue;
    const auto good = check_whole_record(entry, echo_of(place),
                                         scrub_buffer_.subspan(entry.offset - first, entry.bytes));
    if (good) continue;
    {
      const MutexLock lock(mutex_);
      ++stats_.corrupt;
    }
    quarantine(place, entry.key, good.error());
    if (findings_.size() < kFindingsMax)
      findings_.push_back({.key = entry.key, .place = place, .error = good.error()});
  }
}

}  // namespace tiercel
