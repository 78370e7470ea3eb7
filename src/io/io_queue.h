// Asynchronous reads, writes and syncs of files, with scatter lists.
//
// Shape   submit() hands a request over or says that the queue is full; each request ends in exactly one IoCompletion,
//         in any order. It is complete when all its bytes are transferred: a short transfer is continued, never "done".
//         Nothing orders requests among each other: a sync covers the writes that completed before it was submitted.
// Direct  For a direct file every piece must fit File::alignment(); else the operating system refuses (EINVAL).
// Bounds  At most options.depth requests at once.
// Threads One thread. The destructor waits for what is in flight: its memory belongs to the device until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tiercel {

class File;

enum class IoType : std::uint8_t { read, write, sync };

struct IoPiece {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kIoPiecesMax = 512;  // Below IOV_MAX (1024) of Linux.

struct IoRequest {
  IoType type = IoType::read;
  File* file = nullptr;  // Stays open until the completion.
  std::uint64_t offset = 0;
  std::vector<IoPiece> pieces = {};  // At most kIoPiecesMax.
  std::uint64_t tag = 0;
};

struct IoCompletion {
  std::uint64_t tag = 0;
  Result<void> result;  // Errors as in io/disk.h.
};

enum class IoEngine : std::uint8_t { best, ring, threads };

struct IoQueueOptions {
  std::uint32_t depth = 32;
  IoEngine engine =
      IoEngine::best;         // best: the ring, else threads with the reason in fallback_reason().
  std::uint32_t threads = 8;  // For IoEngine::threads; more than the depth are never started.
};

class IoQueue {
 public:
  virtual ~IoQueue() = default;

  virtual bool submit(IoRequest request) = 0;  // False: full, nothing changed.
  virtual std::size_t in_flight() const = 0;
  virtual std::size_t poll(
      std::vector<IoCompletion>& out) = 0;  // Appends what is complete, without blocking.
  // Blocks until something is complete or the time is over; returns at once where nothing is in
  // flight.
  virtual std::size_t wait(std::vector<IoCompletion>& out, std::int64_t timeout_ns) = 0;

  virtual const char* engine_name() const = 0;             // "io_uring" or "threads".
  virtual const std::string& fallback_reason() const = 0;  // Empty where the best was to be had.
};

}  // namespace tiercel
