#include "cache/cold_log.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace tiercel {

namespace {
// What a reclaim may move on, as a share of the segment: write amplification stays below 1.12 by construction.
constexpr std::uint64_t kMoveShareDivisor = 10;
// One segment in 32 is kept free, eight at the most: reclaim must stay ahead of a commit interval's writes, or stores
// are skipped while there is room to be had.
constexpr std::uint32_t kSpareDivisor = 32;
constexpr std::uint32_t kSparesMax = 8;
}  // namespace

ColdLog::ColdLog(Options options, BlockTable& table, Outbox& outbox)
    : options_(options),
      spares_(std::clamp(options.geometry.segments_max / kSpareDivisor, 1U, kSparesMax)),
      table_(table),
      outbox_(outbox),
      account_(options.geometry) {}

bool ColdLog::lives_at(BlockId id, const Place& place) const {
  return id != kNoBlock && table_[id].cold == Presence::present && table_[id].cold_place == place;
}

std::optional<Place> ColdLog::reserve(BlockId id) {
  Block& block = table_[id];
  TIERCEL_CHECK(block.cold == Presence::absent);
  if (!account_.fits_open(block.record_bytes) && !open_segment()) return std::nullopt;
  const auto place = account_.append(id, block.record_bytes);
  if (!place) return std::nullopt;  // What the reclaim moved has filled the new segment.
  block.cold = Presence::arriving;
  block.cold_place = *place;
  block.hit_since_written = false;
  table_.retain(id);
  if (block.parent != kNoBlock) ++table_[block.parent].cold_children;
  in_flight_bytes_ += place->bytes;
  account_.hold(place->segment);
  return place;
}

// Seals the full segment and opens a free one.
bool ColdLog::open_segment() {
  if (account_.free_count() == 0) reclaim_ahead();
  if (account_.free_count() == 0) return false;
  if (account_.open_segment()) {
    const std::uint32_t sealed = account_.seal();
    outbox_.emit({.type = ActionType::seal, .from = TierId::cold, .source = {.segment = sealed}});
  }
  account_.open_next();
  reclaim_ahead();
  return true;
}

// Segments on their way to free count as spares: what they move goes to the open segment.
void ColdLog::reclaim_ahead() {
  while (account_.free_count() + reclaiming_.size() < spares_) {
    const auto oldest = account_.oldest_sealed();
    if (!oldest || account_.held(*oldest)) return;
    account_.begin_reclaim();
    reclaiming_.push_back(*oldest);
    ++counts_.reclaims;
    empty_segment(*oldest);
    finish_reclaims();
  }
}

std::vector<bool> ColdLog::choose_movers(std::uint32_t segment) const {
  const auto& entries = account_.entries(segment);
  std::unordered_map<BlockId, std::uint32_t> children_here;
  for (const auto& entry : entries) {
    if (lives_at(entry.id, entry.place) && table_[entry.id].parent != kNoBlock) {
      ++children_here[table_[entry.id].parent];
    }
  }
  std::vector<bool> moves(entries.size(), false);
  std::uint64_t budget = options_.geometry.segment_bytes / kMoveShareDivisor;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [id, place] = entries[i];
    if (!lives_at(id, place) || place.bytes > budget) continue;
    const Block& block = table_[id];
    const auto here = children_here.find(id);
    const std::uint32_t elsewhere =
        block.cold_children - (here == children_here.end() ? 0 : here->second);
    if (block.ended || (!block.hit_since_written && elsewhere == 0)) continue;
    moves[i] = true;
    budget -= place.bytes;
  }
  return moves;
}

void ColdLog::empty_segment(std::uint32_t segment) {
  const std::vector<bool> moves = choose_movers(segment);
  const std::vector<SegmentAccount::Entry> entries = account_.entries(segment);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [id, place] = entries[i];
    if (!lives_at(id, place)) continue;
    const bool can_move =
        moves[i] && staging_has_room(place.bytes) && account_.fits_open(place.bytes);
    if (can_move) {
      start_move(id);
      continue;
    }
    drop(id);
  }
}

void ColdLog::drop(BlockId id) {
  ++counts_.evicted;
  outbox_.emit({.type = ActionType::drop,
                .from = TierId::cold,
                .block = id,
                .key = table_[id].key,
                .source = table_[id].cold_place});
  become_absent(id);
}

void ColdLog::start_move(BlockId id) {
  Block& block = table_[id];
  const auto target = account_.append(id, block.cold_place.bytes);
  TIERCEL_CHECK(target.has_value());
  table_.retain(id);  // Until its commit.
  account_.hold(block.cold_place.segment);
  account_.hold(target->segment);
  in_flight_bytes_ += target->bytes;
  outbox_.start({.type = ActionType::move,
                 .from = TierId::cold,
                 .to = TierId::cold,
                 .block = id,
                 .key = block.key,
                 .source = block.cold_place,
                 .target = *target});
}

void ColdLog::become_absent(BlockId id) {
  Block& block = table_[id];
  block.cold = Presence::absent;
  if (block.parent != kNoBlock) --table_[block.parent].cold_children;
  table_.release(id);
}

void ColdLog::finish_reclaims() {
  std::erase_if(reclaiming_, [this](std::uint32_t segment) {
    if (account_.held(segment)) return false;
    outbox_.emit(
        {.type = ActionType::reclaim, .from = TierId::cold, .source = {.segment = segment}});
    account_.release(segment);
    return true;
  });
}

void ColdLog::unhold(const Place& place) {
  account_.unhold(place.segment);
  if (!reclaiming_.empty()) finish_reclaims();
}

void ColdLog::wrote(BlockId id) {
  Block& block = table_[id];
  TIERCEL_CHECK(block.cold == Presence::arriving);
  block.cold = Presence::written;
  in_flight_bytes_ -= block.cold_place.bytes;
  if (written_.empty()) first_written_ns_ = outbox_.now_ns();
  written_.push_back({.id = id, .place = block.cold_place, .moved_from = std::nullopt});
  written_bytes_ += block.cold_place.bytes;
  ++counts_.stored;
}

void ColdLog::failed(BlockId id) {
  const Place place = table_[id].cold_place;
  in_flight_bytes_ -= place.bytes;
  become_absent(id);
  unhold(place);
}

void ColdLog::moved(BlockId id, const Place& source, const Place& target) {
  in_flight_bytes_ -= target.bytes;
  if (written_.empty()) first_written_ns_ = outbox_.now_ns();
  written_.push_back({.id = id, .place = target, .moved_from = source});
  written_bytes_ += target.bytes;
  ++counts_.moved;
}

std::optional<std::int64_t> ColdLog::commit_due_ns() const {
  if (commit_under_way_ || written_.empty() || options_.sync_interval_ns == 0) return std::nullopt;
  return first_written_ns_ + options_.sync_interval_ns;
}

void ColdLog::move_failed(BlockId id, const Place& source, const Place& target) {
  in_flight_bytes_ -= target.bytes;
  if (lives_at(id, source)) drop(id);
  unhold(target);
  unhold(source);
  table_.release(id);
}

bool ColdLog::commit_if_due() {
  if (commit_under_way_ || written_.empty()) return false;
  const bool by_bytes = options_.sync_bytes > 0 && written_bytes_ >= options_.sync_bytes;
  const auto due = commit_due_ns();
  // Moves that nothing else waits for keep a segment from becoming free.
  const bool by_need = account_.free_count() == 0 && !reclaiming_.empty();
  return (by_bytes || by_need || (due && *due <= outbox_.now_ns())) && commit_now();
}

bool ColdLog::commit_now() {
  if (commit_under_way_ || written_.empty()) return false;
  commit_under_way_ = true;
  committing_.swap(written_);
  written_bytes_ = 0;
  ++counts_.commits;
  outbox_.start({.type = ActionType::commit, .from = TierId::cold});
  return true;
}

void ColdLog::commit_done() {
  TIERCEL_CHECK(commit_under_way_);
  commit_under_way_ = false;
  std::vector<Written> batch;
  batch.swap(committing_);
  for (const auto& [id, place, moved_from] : batch) {
    Block& block = table_[id];
    if (!moved_from) {
      if (block.cold == Presence::written) block.cold = Presence::present;
    } else if (block.cold == Presence::present && block.cold_place == *moved_from) {
      block.cold_place = place;  // Else it was forgotten, perhaps stored anew, while it moved.
      block.hit_since_written = false;
    }
    unhold(place);
    if (moved_from) {
      unhold(*moved_from);
      table_.release(id);
    }
  }
}

void ColdLog::commit_failed() {
  TIERCEL_CHECK(commit_under_way_);
  commit_under_way_ = false;
  writable_ = false;
  std::vector<Written> lost;
  lost.swap(committing_);
  lost.insert(lost.end(), written_.begin(), written_.end());
  written_.clear();
  written_bytes_ = 0;
  for (const auto& [id, place, moved_from] : lost) {
    const Block& block = table_[id];
    if (!moved_from) {
      if (block.cold == Presence::written && block.cold_place == place) become_absent(id);
    } else if (lives_at(id, *moved_from)) {
      drop(id);
    }
    unhold(place);
    if (moved_from) {
      unhold(*moved_from);
      table_.release(id);
    }
  }
}

void ColdLog::forget(BlockId id) {
  Block& block = table_[id];
  if (block.cold != Presence::present) return;
  ++counts_.evicted;
  become_absent(id);
}

void ColdLog::restore(std::uint32_t segment, std::vector<SegmentAccount::Entry> entries) {
  for (const auto& [id, place] : entries) {
    Block& block = table_[id];
    if (block.cold ==
        Presence::present) {  // A move that was committed before its source was reclaimed.
      block.cold_place = place;
      continue;
    }
    block.cold = Presence::present;
    block.cold_place = place;
    table_.retain(id);
    if (block.parent != kNoBlock) ++table_[block.parent].cold_children;
  }
  account_.restore(segment, std::move(entries));
}

}  // namespace tiercel
