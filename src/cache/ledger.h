// The ledger: one account of host memory apart from the tiers. Whoever wants memory for KV blocks, weights or staging asks here
// first, so that two caches and a weight store in one process cannot promise the same bytes twice.
//
// A reservation is a move-only handle; its bytes come back with it. The ledger counts, it does not allocate.
// Threads Any.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <array>
#include <cstdint>

#include "base/mutex.h"
#include "base/result.h"

namespace tiercel {

enum class MemoryClass : std::uint8_t { kv, weights, staging };
inline constexpr std::size_t kMemoryClasses = 3;
const char* memory_class_name(MemoryClass memory_class);

class Ledger;

class Reservation {
 public:
  Reservation() = default;  // Of nothing.
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    Reservation taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Reservation();

  std::uint64_t bytes() const { return bytes_; }

 private:
  friend class Ledger;
  Reservation(Ledger& ledger, MemoryClass memory_class, std::uint64_t bytes)
      : ledger_(&ledger), class_(memory_class), bytes_(bytes) {}
  void swap(Reservation& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(class_, other.class_);
    std::swap(bytes_, other.bytes_);
  }

  Ledger* ledger_ = nullptr;  // Outlives its reservations.
  MemoryClass class_ = MemoryClass::kv;
  std::uint64_t bytes_ = 0;
};

class Ledger {
 public:
  explicit Ledger(std::uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Errors: no_space  the text names who has the memory.
  Result<Reservation> reserve(MemoryClass memory_class, std::uint64_t bytes);

  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t used_bytes(MemoryClass memory_class) const;
  std::uint64_t free_bytes() const;

 private:
  friend class Reservation;
  void give_back(MemoryClass memory_class, std::uint64_t bytes);
  std::uint64_t free_locked() const REQUIRES(mutex_);

  const std::uint64_t capacity_bytes_;
  mutable Mutex mutex_;
  std::array<std::uint64_t, kMemoryClasses> used_bytes_
      GUARDED_BY(mutex_) = {};  // Their sum: <= capacity_bytes_.
};

}  // namespace tiercel
