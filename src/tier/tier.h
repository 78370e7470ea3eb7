// A tier stores records (kv/record.h) at places and gives them back verified. It does not know whose they are, and it
// never chooses where they go: places come from the cache core, so the same decisions can be simulated and driven.
//
// Shape   A store's memory is one whole record: header and chunk table (padded to 4 KiB), then the chunks, each padded to
//         4 KiB. A load's memory takes the same bytes back: typically {header scratch, destination...}.
// States  submit() -> Ticket; every Op of it ends in exactly one Completion: delivered, miss or error (R2). An error can
//         never look like delivered: on anything but delivered the destination's bytes are unspecified and must not be used.
// Verify  A load is delivered only after header, key, fingerprint and the checksum of every chunk were verified in host
//         memory (R1). A record that fails is an error with Errc::corrupt and is counted.
// Bounds  At most queue_ops_max Ops are in flight; a submit beyond that is refused with Errc::busy and nothing changed.
// Threads One thread calls submit, poll, wait, cancel. stats() and link() from any thread.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/key.h"
#include "tier/memory.h"

namespace tiercel {

// Where a record lies: a segment and an offset in a segment log; segment 0 and an offset into the arena for memory tiers.
struct Place {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // Physical bytes of the record, a multiple of 4096.

  bool operator==(const Place&) const = default;
};

enum class OpType : std::uint8_t {
  store,  // memory -> place. Readable once complete; durable once a later commit is complete.
  load,   // place -> memory, verified.
  commit,  // Makes every store that completed before it durable (data, then the directory where needed).
  seal,     // The segment `place.segment` is full: write its index. Only tiers with segments.
  reclaim,  // The segment `place.segment` is free for a new life. No op on it may be in flight.
  checkpoint,  // Writes what a restart would have to look for; durable once complete. See checkpoint_due().
};

struct Op {
  OpType type = OpType::load;
  std::uint8_t priority = 0;  // Lower goes first where the tier can choose.
  Key key = {};
  Fingerprint fingerprint = {};
  Place place = {};
  ScatterList memory = {};
  std::int64_t deadline_ns =
      0;  // On the tier's clock; 0 = none. Past it an op not yet started ends in Errc::cancelled.
  std::uint64_t tag = 0;  // Comes back in the completion.
};

struct Completion {
  Ticket ticket = 0;
  std::uint64_t tag = 0;
  Outcome outcome = Outcome::error;
  Error error = {};  // Only for Outcome::error.
};

struct TierCapabilities {
  std::string name;         // "hot(host)", "warm", "cold": stands in reports.
  bool persistent = false;  // Survives the process.
  bool shared = false;      // Other hosts see it.
  bool conditional_put = false;
  bool device = false;  // Its memory is not host memory.
  std::uint64_t alignment = 4096;
  std::uint64_t capacity_bytes = 0;  // Physical and hard.
};

struct TierStats {
  std::uint64_t loads = 0, stores = 0, misses = 0, errors = 0, corrupt = 0;
  std::uint64_t bytes_read = 0,
                bytes_written = 0;  // Physical, headers and indices included, formatting apart.
  std::uint64_t bytes_format = 0;
  std::uint64_t commits = 0;
  std::uint64_t checkpoints = 0, checkpoint_errors = 0;
  std::uint64_t quarantined = 0;  // Places since open: of loads and of the scrub.
  std::uint64_t scrubbed_bytes = 0,
                scrub_rounds = 0;  // Part of bytes_read; rounds over all sealed segments.
};

class Tier {
 public:
  virtual ~Tier() = default;

  virtual const TierCapabilities& capabilities() const = 0;

  // Takes all ops or none. Errors: busy (queue full), invalid (a place or a list that does not fit its record).
  virtual Result<Ticket> submit(std::span<const Op> ops) = 0;

  // Appends what has completed to `out` without blocking; returns how many.
  virtual std::size_t poll(std::vector<Completion>& out) = 0;

  // Blocks until something completed or `timeout_ns` passed, then as poll(). Starts what was held back for batching.
  virtual std::size_t wait(std::vector<Completion>& out, std::int64_t timeout_ns) = 0;

  // Asks for an early end; each op still gets its Completion (delivered if it was too late, else Errc::cancelled).
  virtual void cancel(Ticket ticket) = 0;

  // True where a checkpoint is worth its bytes now: the owner then submits one, aside, and goes on. Cheap; by the thread that
  // submits.
  virtual bool checkpoint_due() const { return false; }

  virtual TierStats stats() const = 0;
  virtual LinkEstimate link() const = 0;
};

}  // namespace tiercel
