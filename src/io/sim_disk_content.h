// The bytes of one simulated file: what the process sees, what is durable, and the changes in between.
//
// Pages are never changed once made, so that both images, the changes and copies of the disk share them.
// Threads one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "io/sim_disk.h"

namespace tiercel {

inline constexpr std::uint64_t kSimPageBytes = 4096;
inline constexpr std::uint64_t kSimSectorBytes = 512;
using SimPage = std::array<std::byte, kSimPageBytes>;
using SimPagePointer = std::shared_ptr<const SimPage>;

// [begin, end) of a page; the rest of `bytes` means nothing.
struct SimPiece {
  std::uint64_t page = 0;
  std::size_t begin = 0, end = 0;
  SimPagePointer bytes;
};

class SimImage {
 public:
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t allocated_bytes() const;
  // Pages of [offset, offset + bytes) that are not taken yet.
  std::uint64_t pages_missing(std::uint64_t offset, std::uint64_t bytes) const;

  void read(std::uint64_t offset, std::span<std::byte> out) const;
  void put(const SimPiece& piece);  // Leaves the length alone.
  void grow(std::uint64_t bytes) { bytes_ = std::max(bytes_, bytes); }
  void reserve(std::uint64_t bytes);
  void set_length(std::uint64_t bytes);  // What lies beyond is gone.
  void flip(std::uint64_t offset, unsigned bit);

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t reserved_pages_ = 0;  // From the start of the file.
  std::map<std::uint64_t, SimPagePointer> pages_;
};

class SimContent {
 public:
  SimContent() = default;
  explicit SimContent(SimImage found) : now_(found), durable_(std::move(found)) {}

  const SimImage& now() const { return now_; }

  // `sequence` grows with every change of the disk.
  void write(std::uint64_t sequence, std::uint64_t offset, std::span<const std::byte> memory);
  void write_in_flight(std::uint64_t sequence, std::uint64_t offset,
                       std::span<const std::byte> memory);  // For a power cut: seen by nobody.
  void reserve(std::uint64_t sequence, std::uint64_t bytes);
  void truncate(std::uint64_t sequence, std::uint64_t bytes);

  void sync(std::uint64_t up_to, Rng& rng);  // Changes up to that sequence are durable.
  void sync_failed(std::uint64_t up_to);     // They will never be known to be.
  SimImage after_loss(LossMode mode, Rng& rng) const;

  void flip(std::uint64_t offset, unsigned bit);
  void cut(std::uint64_t bytes);

 private:
  enum class Type : std::uint8_t { write, reserve, truncate };
  struct Change {
    std::uint64_t sequence = 0;
    Type type = Type::write;
    std::uint64_t end = 0;  // Of the write, or the length asked for.
    std::vector<SimPiece> pieces;
    bool doubtful = false;  // A sync that covered it failed.
  };
  static Change make_write(std::uint64_t sequence, std::uint64_t offset,
                           std::span<const std::byte> memory);

  SimImage now_, durable_;
  std::vector<Change> changes_;  // In order of sequence.
};

}  // namespace tiercel
