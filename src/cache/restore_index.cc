#include "cache/restore_index.h"

#include <vector>

#include "base/check.h"

namespace tiercel {
namespace {

// Which parents may be followed: every chain of them must end. Each block is looked at once.
class RingCutter {
 public:
  explicit RingCutter(std::vector<BlockId>& parents)
      : parents_(parents), state_(parents.size(), State::unseen) {}

  void cut() {
    for (BlockId id = 0; id < parents_.size(); ++id) follow(id);
  }

 private:
  enum class State : std::uint8_t { unseen, on_way, ends };

  void follow(BlockId id) {
    way_.clear();
    while (id != kNoBlock && state_[id] == State::unseen) {
      state_[id] = State::on_way;
      way_.push_back(id);
      id = parents_[id];
    }
    // Back on our own way: the last step closed a ring.
    if (id != kNoBlock && state_[id] == State::on_way) parents_[way_.back()] = kNoBlock;
    for (const BlockId done : way_) state_[done] = State::ends;
  }

  std::vector<BlockId>& parents_;
  std::vector<State> state_;
  std::vector<BlockId> way_;
};

}  // namespace

RestoreCounts restore_index(const Recovered& recovered, const RestoreHooks& hooks, Core& core) {
  BlockTable& table = core.table();
  TIERCEL_CHECK(table.size() == 0 && core.cold() != nullptr);
  RestoreCounts counts;
  std::size_t records = 0;
  for (const RecoveredSegment& segment : recovered.segments) records += segment.records.size();
  table.reserve(records);

  std::vector<const RecoveredRecord*> latest;  // By id; null: a name alone.
  std::vector<BlockId> references;             // One per intern, until the tiers hold their own.
  references.reserve(records);
  latest.reserve(records);
  std::vector<std::vector<SegmentAccount::Entry>> entries(recovered.segments.size());
  for (std::size_t s = 0; s < recovered.segments.size(); ++s) {
    entries[s].reserve(recovered.segments[s].records.size());
    for (const RecoveredRecord& record : recovered.segments[s].records) {
      const auto payload = hooks.payload_of(record);
      if (!payload) {
        ++counts.strangers;
        continue;
      }
      const BlockId id = table.intern(record.key, kNoBlock, *payload, record.place.bytes);
      references.push_back(id);
      if (id >= latest.size()) latest.resize(id + 1, nullptr);
      latest[id] = &record;
      table[id].payload_bytes = *payload;
      table[id].record_bytes = record.place.bytes;
      entries[s].push_back({.id = id, .place = record.place});
    }
  }
  counts.blocks = table.size();

  std::vector<BlockId> parents(latest.size(), kNoBlock);
  for (BlockId id = 0; id < latest.size(); ++id) {
    if (latest[id]->parent == Key{}) continue;
    const BlockId known = table.find(latest[id]->parent);
    parents[id] = known != kNoBlock ? known : table.intern(latest[id]->parent, kNoBlock, 0, 0);
    if (known == kNoBlock) references.push_back(parents[id]);
  }
  latest.resize(table.id_limit(), nullptr);
  parents.resize(table.id_limit(), kNoBlock);
  RingCutter(parents).cut();
  for (BlockId id = 0; id < parents.size(); ++id) {
    if (parents[id] != kNoBlock) table.set_parent(id, parents[id]);
    hooks.on_block(id, latest[id]);
  }
  for (std::size_t s = 0; s < entries.size(); ++s) {
    core.cold()->restore(recovered.segments[s].segment, std::move(entries[s]));
  }
  for (const BlockId id : references) table.release(id);
  return counts;
}

}  // namespace tiercel
