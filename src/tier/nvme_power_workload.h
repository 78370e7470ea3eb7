// What the tests of power cuts run and hold the store against: a workload, a ledger of what it was told, an audit of what is there.
#pragma once

#include <deque>

#include "tier/nvme_sim_testing.h"

namespace tiercel {

inline constexpr std::size_t kPowerRecords = 400;  // About four times what the store holds.

inline const std::vector<TestRecord>& power_records() {
  static const std::vector<TestRecord> made = [] {
    std::vector<TestRecord> list;
    Rng rng(5);
    for (std::size_t i = 0; i < kPowerRecords; ++i) {  // Two to four pages.
      const std::uint32_t chunks = 1 + i % 2;
      list.push_back(make_test_record(i + 1, 1 + rng.below((4 - chunks) * kPageBytes), chunks));
    }
    return list;
  }();
  return made;
}

// What the user of the store was told.
struct PowerLedger {
  std::map<std::size_t, Place> stored;   // Delivered, but no commit yet.
  std::map<std::size_t, Place> durable;  // Covered by a completed commit, not reclaimed since.
  std::set<std::size_t> submitted;
  std::set<std::size_t> given_up;  // By a reclaim: there or not, and perhaps overwritten.
  std::vector<std::string> violations;
  bool finished = false;
};

// Smooth: the disk does what it is asked. Rough: stores also miss their deadlines before they begin, and some writes end in
// ENOSPC with a part of them done.
enum class Ride : std::uint8_t { smooth, rough };

// Drives the tier as the core does: one open segment, seal when it is full, reclaim the oldest when none is free.
class PowerWorkload {
 public:
  PowerWorkload(SimDisk& disk, std::uint64_t seed, Ride ride = Ride::smooth)
      : disk_(disk), store_(disk), rng_(seed), rough_(ride == Ride::rough) {
    store_.clock().advance_ns(1000);
    for (int i = 0; rough_ && i < 3; ++i) {
      disk.add_fault({.op = SimOp::write,
                      .path_part = "segment-",
                      .skip = rng_.below(60),
                      .os_errno = ENOSPC,
                      .bytes_done = rng_.below(32) * 512});
    }
  }

  PowerLedger run() {
    if (alive(store_.open())) {
      start_segment();
      while (next_ < power_records().size() && step()) {
      }
      if (next_ == power_records().size()) ledger_.finished = batch({{.type = OpType::commit}});
    }
    store_.close();
    return std::move(ledger_);
  }

 private:
  template <class T>
  bool alive(const Result<T>& result) {
    if (!result && disk_.powered()) ledger_.violations.push_back(result.error().what);
    return result.has_value();
  }

  bool step() {
    std::vector<Op> ops;
    for (std::uint64_t left = 1 + rng_.below(5); left > 0 && next_ < power_records().size();
         --left) {
      const std::uint64_t bytes = power_records()[next_].bytes.size();
      if (!segment_has_room(SimStore::kSegmentBytes, end_, bytes, count_ + 1)) {
        if (!batch(std::move(ops)) || !change_segment()) return false;
        ops.clear();
      }
      ops.push_back(
          power_records()[next_].store({.segment = segment_, .offset = end_, .bytes = bytes}));
      if (rough_ && rng_.chance(0.1)) ops.back().deadline_ns = 1;
      ledger_.submitted.insert(next_++);
      end_ += bytes;
      ++count_;
      if (rng_.chance(0.15)) ops.push_back({.type = OpType::commit});
    }
    if (rng_.chance(0.3)) ops.push_back({.type = OpType::commit});
    return batch(std::move(ops)) && look_at_one();
  }

  // False once the power is off.
  bool batch(std::vector<Op> ops) {
    if (ops.empty()) return true;
    const auto done = store_.run(ops);
    const std::size_t first =
        next_ - static_cast<std::size_t>(std::ranges::count(ops, OpType::store, &Op::type));
    std::size_t record = first;
    bool good = true;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const bool delivered = done[i].outcome == Outcome::delivered;
      const bool may_fail =
          rough_ && ops[i].type == OpType::store &&
          (done[i].error.code == Errc::cancelled || done[i].error.code == Errc::no_space);
      // A rough ride ends early where a write that failed carried a segment's header: no commit succeeds from then on.
      if (!delivered && disk_.powered() && !rough_)
        ledger_.violations.push_back(done[i].error.what);
      good = good && (delivered || may_fail);
      if (ops[i].type == OpType::store && delivered) ledger_.stored[record] = ops[i].place;
      if (ops[i].type == OpType::store) ++record;
      if (ops[i].type == OpType::commit && delivered) {  // Covers the stores before it.
        ledger_.durable.merge(ledger_.stored);
        ledger_.stored.clear();
      }
    }
    return good && disk_.powered();
  }

  bool change_segment() {
    if (!batch({{.type = OpType::seal, .place = {.segment = segment_}}})) return false;
    sealed_.push_back(segment_);
    if (made_ < SimStore::kSegments) {
      start_segment();
      return true;
    }
    segment_ = sealed_.front();
    sealed_.pop_front();
    const auto there = [&](const auto& entry) { return entry.second.segment == segment_; };
    if (std::ranges::any_of(ledger_.stored, there) && !batch({{.type = OpType::commit}}))
      return false;
    for (const auto& [record, place] : ledger_.durable) {  // Before the tier is told.
      if (place.segment == segment_) ledger_.given_up.insert(record);
    }
    std::erase_if(ledger_.durable, there);
    end_ = kSegmentHeaderBytes;
    count_ = 0;
    return batch({{.type = OpType::reclaim, .place = {.segment = segment_}}});
  }

  void start_segment() {
    segment_ = made_++;
    end_ = kSegmentHeaderBytes;
    count_ = 0;
  }

  bool look_at_one() {
    if (ledger_.durable.empty() || !rng_.chance(0.2)) return true;
    auto entry = ledger_.durable.begin();
    std::advance(entry, static_cast<std::ptrdiff_t>(rng_.below(ledger_.durable.size())));
    bool wrong = false;
    const Completion done = store_.load(power_records()[entry->first], entry->second, &wrong);
    if (wrong || (done.outcome != Outcome::delivered && disk_.powered()))
      ledger_.violations.push_back(fmt::format("record {} cannot be read", entry->first));
    return disk_.powered();
  }

  SimDisk& disk_;
  SimStore store_;
  Rng rng_;
  PowerLedger ledger_;
  const bool rough_;
  std::size_t next_ = 0;
  std::uint32_t segment_ = 0, made_ = 0;
  std::uint64_t end_ = kSegmentHeaderBytes, count_ = 0;
  std::deque<std::uint32_t> sealed_;
};

struct PowerAudit {
  std::vector<std::string> violations;
  std::uint64_t found = 0;   // Records that were delivered.
  std::uint64_t torn = 0;    // Damaged ones that the recovery passed over.
  std::uint64_t ghosts = 0;  // Listed, not delivered: reclaimed and overwritten since.
};

// Opens the store and holds it against what the user was told.
inline PowerAudit audit_power(SimDisk& disk, const PowerLedger& ledger) {
  PowerAudit audit;
  audit.violations = ledger.violations;
  SimStore store(disk);
  if (const auto opened = store.open(); !opened) {
    audit.violations.push_back("open: " + opened.error().what);
    return audit;
  }
  audit.torn = store.recovered().torn;
  std::map<Key, std::size_t> known;
  for (const std::size_t i : ledger.submitted) known[power_records()[i].head.key] = i;
  std::set<std::size_t> found;
  for (const auto& [key, place] : store.places()) {
    const auto entry = known.find(key);
    if (entry == known.end()) {
      audit.violations.push_back("a record that nobody stored: " + hex(key));
      continue;
    }
    bool wrong = false;
    const Completion done = store.load(power_records()[entry->second], place, &wrong);
    if (wrong) audit.violations.push_back(fmt::format("record {} is wrong", entry->second));
    if (done.outcome == Outcome::delivered) {
      found.insert(entry->second);
    } else if (ledger.given_up.contains(entry->second)) {
      ++audit.ghosts;
    } else {
      audit.violations.push_back(
          fmt::format("record {} is listed, but not there: {}", entry->second, done.error.what));
    }
  }
  for (const auto& [i, place] : ledger.durable) {
    if (!found.contains(i)) {
      audit.violations.push_back(fmt::format("record {} at {}:{} was acknowledged and is missing",
                                             i, place.segment, place.offset));
    }
  }
  audit.found = found.size();
  return audit;
}

inline std::string first_of(const std::vector<std::string>& sentences) {
  return sentences.empty() ? "" : fmt::format("{} (of {})", sentences[0], sentences.size());
}

}  // namespace tiercel
