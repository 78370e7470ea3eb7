#include "cache/ledger.h"

#include <fmt/format.h>

#include <numeric>

#include "base/byte_size.h"
#include "base/check.h"

namespace tiercel {

const char* memory_class_name(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kv:
      return "kv";
    case MemoryClass::weights:
      return "weights";
    case MemoryClass::staging:
      return "staging";
  }
  return "?";
}

Reservation::~Reservation() {
  if (ledger_ != nullptr) ledger_->give_back(class_, bytes_);
}

std::uint64_t Ledger::free_locked() const {
  return capacity_bytes_ -
         std::accumulate(used_bytes_.begin(), used_bytes_.end(), std::uint64_t{0});
}

Result<Reservation> Ledger::reserve(MemoryClass memory_class, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes > free_locked()) {
    std::string holders;
    for (std::size_t i = 0; i < kMemoryClasses; ++i) {
      holders +=
          fmt::format("{}{} {}", i == 0 ? "" : ", ", memory_class_name(static_cast<MemoryClass>(i)),
                      pretty_byte_size(used_bytes_[i]));
    }
    return fail(
        Errc::no_space,
        fmt::format("{} for {} are not to be had: of {} are taken {}", pretty_byte_size(bytes),
                    memory_class_name(memory_class), pretty_byte_size(capacity_bytes_), holders));
  }
  used_bytes_[static_cast<std::size_t>(memory_class)] += bytes;
  return Reservation(*this, memory_class, bytes);
}

void Ledger::give_back(MemoryClass memory_class, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  std::uint64_t& used = used_bytes_[static_cast<std::size_t>(memory_class)];
  TIERCEL_CHECK(used >= bytes);
  used -= bytes;
}

std::uint64_t Ledger::used_bytes(MemoryClass memory_class) const {
  const MutexLock lock(mutex_);
  return used_bytes_[static_cast<std::size_t>(memory_class)];
}

std::uint64_t Ledger::free_bytes() const {
  const MutexLock lock(mutex_);
  return free_locked();
}

}  // namespace tiercel
