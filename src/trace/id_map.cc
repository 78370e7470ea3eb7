#include "trace/id_map.h"

#include <random>
#include <utility>

#include "base/random.h"

namespace tiercel {
namespace {

constexpr std::size_t kFirstSlots = 1024;

// Drawn once per process, so that no trace can be written whose ids all meet in one slot. Numbers
// do not depend on it.
std::uint64_t process_salt() {
  static const std::uint64_t salt = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  return salt;
}

}  // namespace

IdMap::IdMap() : slots_(kFirstSlots) {}

std::size_t IdMap::find(std::uint64_t id) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mix64(id ^ process_salt()) & mask;
  while (slots_[at].id != id && slots_[at].id != kEmpty) at = (at + 1) & mask;
  return at;
}

std::uint32_t IdMap::number(std::uint64_t id) {
  std::size_t at = find(id);
  if (slots_[at].id == id) return slots_[at].number;
  if ((std::size_t{size_} + 1) * 2 > slots_.size()) {
    grow();
    at = find(id);
  }
  slots_[at] = Slot{.id = id, .number = size_};
  return size_++;
}

void IdMap::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id != kEmpty) slots_[find(slot.id)] = slot;
  }
}

void IdMap::clear() {
  slots_.assign(kFirstSlots, Slot{});
  size_ = 0;
}

}  // namespace tiercel
