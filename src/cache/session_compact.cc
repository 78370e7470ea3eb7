// SessionStore, the part that makes room: segments that are mostly dead give what lives in them to another, and start anew.
//
// Order   Moved, committed, and only then reclaimed: a crash at any point finds every live record at least once.
// Bound   One suspend empties each segment at most once (SessionLog::begin_round), so it ends.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "cache/session_store_impl.h"

namespace tiercel {

// Afterwards log_.fits_open(record_bytes). Errors: no_space  also with all that could be moved, or known at once not to be enough;
// busy  not in time.
Result<void> SessionStore::Impl::make_room(const Ahead& ahead, std::uint64_t record_bytes) {
  for (;;) {
    std::optional<std::uint32_t> full;
    bool try_again = false;
    {
      const MutexLock lock(mutex_);
      if (log_.fits_open(record_bytes)) return {};
      if (log_.can_open(false)) {
        if (log_.open_segment()) full = log_.seal();
        log_.open_next();
        try_again = true;
      } else if (log_.open_segment() && !log_.victim()) {
        full = log_.seal();  // Perhaps it is the one that is worth emptying.
        try_again = true;
      } else if (log_.gain_bytes() < ahead.bytes) {
        return no_room(ahead.bytes);
      }
    }
    if (full) io_->seal(*full);
    if (try_again) continue;
    TIERCEL_TRY_VOID(check_time(ahead));
    TIERCEL_TRY(const bool gained, compact());
    if (gained) continue;
    const MutexLock lock(mutex_);
    return no_room(record_bytes);
  }
}

// Empties one segment. False where none is worth it.
Result<bool> SessionStore::Impl::compact() {
  TIERCEL_TRY_VOID(io_->drain());  // No store may be under way in what is emptied.
  std::optional<std::uint32_t> victim;
  std::vector<std::pair<Key, Place>> alive;
  {
    const MutexLock lock(mutex_);
    victim = log_.victim();
    if (!victim) return false;
    alive = log_.alive_in(*victim);
  }
  if (!alive.empty()) {
    const auto emptied = move_all(alive);
    if (!emptied) return emptied;
    if (!*emptied) {
      const MutexLock lock(mutex_);
      log_.pass_over(*victim);
      return true;
    }
    TIERCEL_TRY_VOID(commit());
  }
  io_->reclaim(*victim);
  const MutexLock lock(mutex_);
  log_.reclaim(*victim);
  ++stats_.compactions;
  return true;
}

// All of them, or none: where the disk does not take or give one of them now, they live where they lived. False: it did not give.
Result<bool> SessionStore::Impl::move_all(const std::vector<std::pair<Key, Place>>& alive) {
  const std::span<const std::pair<Key, Place>> all(alive);
  Result<bool> outcome = true;
  for (std::size_t first = 0; first < all.size() && outcome && *outcome; first += io_->buffers()) {
    outcome = move_some(all.subspan(first, std::min(io_->buffers(), all.size() - first)));
  }
  if (outcome && *outcome) return true;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, place] : all) {
      if (log_.holds(key) && log_.find(key)->place != place) log_.moved(key, place);
    }
  }
  sweep();
  return outcome;
}

Result<bool> SessionStore::Impl::move_some(std::span<const std::pair<Key, Place>> alive) {
  std::vector<SessionIo::Record> records, good;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, place] : alive)
      records.push_back({.key = key, .fingerprint = log_.find(key)->fingerprint, .place = place});
  }
  io_->load(records);
  std::vector<std::uint32_t> full;
  bool placed = true;
  for (SessionIo::Record& record : records) {
    const Completion& loaded = record.completion;
    if (loaded.outcome != Outcome::delivered) {
      note(fmt::format("while it was moved: {}", loaded.error.what));
      if (loaded.error.code != Errc::corrupt) return false;
      const MutexLock lock(mutex_);
      log_.lose(record.key);  // Moving it would not mend it.
      continue;
    }
    placed = placed && place_anew(record, full);
    if (placed) good.push_back(record);
  }
  io_->store(good);
  for (const std::uint32_t segment : full) io_->seal(segment);
  for (const SessionIo::Record& record : good) {
    if (record.completion.outcome != Outcome::delivered) return record.completion.error;
    const MutexLock lock(mutex_);
    log_.moved(record.key, record.place);
    stats_.moved_bytes += record.place.bytes;
  }
  return placed;
}

// False where not even the spare is left.
bool SessionStore::Impl::place_anew(SessionIo::Record& record, std::vector<std::uint32_t>& full) {
  const MutexLock lock(mutex_);
  if (!log_.fits_open(record.place.bytes)) {
    if (!log_.can_open(true)) return false;
    if (log_.open_segment()) full.push_back(log_.seal());
    log_.open_next();
  }
  record.place = log_.append(record.place.bytes);
  return true;
}

// Segments in which nothing lives start anew at once: the tier only notes that, so the lock is held over it. An open one may be the
// spare that a failed move had taken, or one that a full disk made no file for. Requires that nothing is under way.
void SessionStore::Impl::sweep() {
  const MutexLock lock(mutex_);
  const auto open = log_.open_segment();
  if (open && log_.alive_in(*open).empty()) io_->seal(log_.seal());
  while (const auto dead = log_.dead()) {
    io_->reclaim(*dead);
    log_.reclaim(*dead);
  }
}

Error SessionStore::Impl::no_room(std::uint64_t needed_bytes) {
  return fail(Errc::no_space,
              fmt::format("sessions: the share of {} is full: {} sessions hold {} in records, {} "
                          "more are needed, and at most {} can be held; forget sessions, or give "
                          "the sessions more",
                          pretty_byte_size(options_.capacity_bytes), sessions_.size(),
                          pretty_byte_size(log_.live_bytes()), pretty_byte_size(needed_bytes),
                          pretty_byte_size(log_.usable_bytes())));
}

}  // namespace tiercel
