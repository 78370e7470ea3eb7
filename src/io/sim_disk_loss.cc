// What a power cut leaves: names first, then the bytes of every file that still has one.
#include <set>

#include "io/sim_disk_state.h"

namespace tiercel {
namespace {

class Loss {
 public:
  Loss(const std::vector<SimLateWrite>& late_writes, std::uint64_t seed, LossMode mode)
      : late_writes_(late_writes), mode_(mode), rng_(mix64(seed + 1)) {}

  void decide_names(const std::vector<SimNameChange>& changes) {
    std::set<std::pair<const SimNode*, std::string>>
        lost;  // Names whose later changes are lost too.
    for (const SimNameChange& change : changes) {
      bool kept = mode_ == LossMode::keep || (mode_ != LossMode::drop && rng_.chance(0.5));
      for (const SimNameEdge& edge : change.edges)
        kept = kept && !lost.contains({edge.directory.get(), edge.name});
      for (const SimNameEdge& edge : change.edges) {
        if (!kept) {
          lost.insert({edge.directory.get(), edge.name});
          continue;
        }
        SimNames& names = names_of(*edge.directory);
        if (edge.target) {
          names[edge.name] = edge.target;
        } else {
          names.erase(edge.name);
        }
      }
    }
  }

  SimNodePointer found(const SimNode& node) {
    SimNodePointer& made = made_[&node];
    if (made) {
      ++made->names;
      return made;
    }
    made = std::make_shared<SimNode>();
    SimNode& copy = *made;  // The map may move below.
    copy.names = 1;
    copy.is_directory = node.is_directory;
    if (!node.is_directory) {
      SimContent content = node.content;
      for (const SimLateWrite& write : late_writes_) {
        if (write.node.get() == &node) content.write_in_flight(kForever, write.offset, write.bytes);
      }
      copy.content = SimContent(content.after_loss(mode_, rng_));
      return made_[&node];
    }
    for (const auto& [name, entry] : names_of(node)) copy.entries[name] = found(*entry);
    copy.durable_entries = copy.entries;
    return made_[&node];
  }

 private:
  SimNames& names_of(const SimNode& directory) {
    return names_.try_emplace(&directory, directory.durable_entries).first->second;
  }

  const std::vector<SimLateWrite>& late_writes_;
  const LossMode mode_;
  Rng rng_;
  std::map<const SimNode*, SimNames> names_;
  std::map<const SimNode*, SimNodePointer> made_;
};

}  // namespace

SimNodePointer root_after_loss(const SimNode& root, const std::vector<SimNameChange>& name_changes,
                               const std::vector<SimLateWrite>& late_writes, std::uint64_t seed,
                               LossMode mode) {
  Loss loss(late_writes, seed, mode);
  loss.decide_names(name_changes);
  return loss.found(root);
}

}  // namespace tiercel
