// Memory named so that another process or a GPU could follow it: by handle, or (inside one process) by host pointer.
//
// A source or destination is a scatter list: the engine's paged cache is not one buffer. With it the words of every
// transfer: the ticket it runs under, how it ends, how fast its link is.
// Threads Plain values. Whoever hands a list to a tier keeps the memory valid until the completion arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tiercel {

// A place in an arena (tier/arena.h). The generation says which life of the arena it belongs to: a handle from before a
// restart never resolves.
struct Handle {
  std::uint32_t arena = 0;
  std::uint32_t generation = 0;
  std::uint64_t offset = 0;
};

enum class MemoryKind : std::uint8_t { host, arena, device };

struct Piece {
  MemoryKind kind = MemoryKind::host;
  std::uint16_t device = 0;      // Only for MemoryKind::device.
  std::byte* pointer = nullptr;  // Only for MemoryKind::host: valid in this process alone.
  Handle handle = {};            // For arena and device.
  std::uint64_t bytes = 0;
};

using ScatterList = std::vector<Piece>;

inline Piece host_piece(std::span<std::byte> memory) {
  return Piece{.pointer = memory.data(), .bytes = memory.size()};
}
inline Piece host_piece(
    std::span<const std::byte> memory) {  // As a source; tiers never write to a source.
  return Piece{.pointer = const_cast<std::byte*>(memory.data()), .bytes = memory.size()};
}
inline std::uint64_t total_bytes(std::span<const Piece> pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

// A block that is handed in, and where its bytes lie.
struct PutBlock {
  std::uint16_t kind = 0;   // Kind::id.
  std::uint32_t index = 0;  // Block of the chain; of a `last` record: position - 1.
  ScatterList source;       // Host pieces, CachedKind::block_bytes(tokens) together.
};

using Ticket = std::uint64_t;  // Names what was asked for; 0 is never given.

// How a load ends. Only `delivered` leaves bytes that may be used; an error can never look like it.
enum class Outcome : std::uint8_t { delivered, miss, error };

// A live estimate of the tier's link, measured by the tier on its own operations; nullopt-like zeros until measured.
struct LinkEstimate {
  double latency_s = 0;
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  std::uint32_t queued_ops = 0;
};

}  // namespace tiercel
