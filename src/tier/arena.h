// The memory of all tiers: taken once, pre-faulted, on huge pages where they can be had, never given back.
//
// Why     The first touch of fresh pages is slower than the disk, and 4 KiB pages split a disk request (shared figures:
//         docs/performance.md). So everything that moves blocks takes its buffers here.
// Shape   One mapping; take() hands out its parts in order, each aligned to kArenaAlignment. A Handle names {arena,
//         generation, offset}: another process finds the bytes by descriptor(), and a handle of an earlier life resolves to
//         nothing.
// Pages   What is tried, in this order, each only where the machine is set up for it; the arena changes no settings. Huge pages
//         that are free but not to be had (reserved by others meanwhile, a limit) cost the next kind, not the arena:
//           hugetlb    memfd on reserved huge pages
//           shmem_thp  memfd with transparent huge pages
//           anonymous_thp  no descriptor (nobody else can map it) but transparent huge pages; only where !shareable
//           small      memfd on 4 KiB pages
// Threads take() from one thread; resolve() from any.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "tier/memory.h"

namespace tiercel {

inline constexpr std::uint64_t kArenaAlignment = 4096;

enum class PageKind : std::uint8_t { hugetlb, shmem_thp, anonymous_thp, small };
const char* page_kind_name(PageKind kind);

struct ArenaOptions {
  std::uint64_t bytes = 0;                  // Rounded up to 2 MiB.
  std::uint32_t id = 1;                     // Handle::arena; unique within the process.
  bool shareable = false;                   // Other processes will map it: no anonymous memory.
  bool huge_pages = true;                   // False: 4 KiB pages, for comparison.
  std::string settings = "/sys/kernel/mm";  // Where the kernel tells what pages it has.
};

struct ArenaReport {
  PageKind pages = PageKind::small;
  std::string reason;    // Why not something better; empty for hugetlb.
  double warm_up_s = 0;  // Mapping and touching every page.
};

class Arena {
 public:
  // Errors: no_space  so much memory is not to be had
  static Result<std::unique_ptr<Arena>> create(const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t free_bytes() const { return bytes_ - taken_; }
  const ArenaReport& report() const { return report_; }
  // How much of it really lies on huge pages, as the kernel tells; asks it each time.
  std::uint64_t huge_bytes() const;
  int descriptor() const { return descriptor_; }  // -1 for anonymous memory.

  // The next `bytes` of it. Errors: no_space.
  Result<std::span<std::byte>> take(std::uint64_t bytes);

  Handle handle(const std::byte* pointer) const;
  // Null where the handle belongs to another arena or life, or [offset, offset + bytes) leaves it.
  std::byte* resolve(const Handle& handle, std::uint64_t bytes) const;

 private:
  // Maps and populates pages of one kind; the report is left to the caller.
  static Result<std::unique_ptr<Arena>> map(const ArenaOptions& options, PageKind pages,
                                            std::uint64_t bytes);
  Arena(const ArenaOptions& options, std::byte* base, std::uint64_t bytes, int descriptor);

  const std::uint32_t id_;
  const std::uint32_t generation_;
  std::byte* const base_;
  const std::uint64_t bytes_;
  const int descriptor_;
  ArenaReport report_;
  std::uint64_t taken_ = 0;
};

// The address of a piece in this process, through its pointer or its handle; null where it has none here.
inline std::byte* piece_address(const Piece& piece, const Arena* arena) {
  if (piece.kind == MemoryKind::host) return piece.pointer;
  if (piece.kind == MemoryKind::arena && arena != nullptr)
    return arena->resolve(piece.handle, piece.bytes);
  return nullptr;
}

}  // namespace tiercel
