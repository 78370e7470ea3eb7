// Whole records between a session store's memory and its tier: a small set of page-aligned buffers, several of them under way.
//
// Stores  take() a buffer, fill its payload, store() it. An error of any of them comes out of the next take() or drain(), once.
// Bounds  kBuffersMax buffers, kBufferBytesMax together, two at least. Every wait ends after kAnswerWithin_ns without an answer;
//         a disk that silent is used no more, for its late answers would be taken for others'.
// Threads one thread at a time, as the tier.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv/record.h"
#include "tier/nvme_tier.h"

namespace tiercel {

class SessionIo {
 public:
  static constexpr std::uint64_t kBuffersMax = 16, kBufferBytesMax = 16 << 20;

  static std::uint64_t memory_bytes(std::uint64_t record_bytes_max);
  static Result<std::unique_ptr<SessionIo>> make(NvmeTier& tier, const Clock& clock);

  // --- Writing ---

  // A buffer that nobody uses, as its payload: the bytes behind its head. Errors: of a store before.
  Result<std::span<std::byte>> take(std::uint64_t payload_bytes);
  void give_back(std::span<std::byte> payload);
  // Instead, where somebody may still write to one: it is never taken again, and the disk is used no more.
  void retire(const Error& why);
  // Writes the record of a payload from take() to `place`; the head's chunk is filled in here.
  Result<void> store(std::span<std::byte> payload, RecordHead head, const Place& place);
  // Waits for all stores.
  Result<void> drain();
  Result<void> commit();
  void seal(std::uint32_t segment) { aside(OpType::seal, segment); }
  void reclaim(std::uint32_t segment) { aside(OpType::reclaim, segment); }

  // --- Moving: loads and stores of records as they lie ---

  struct Record {
    Key key;
    Fingerprint fingerprint;
    Place place;
    std::span<std::byte> bytes = {};  // Of a buffer.
    Completion completion = {};
  };
  std::size_t buffers() const { return buffers_.size(); }
  // Requires drain() before, and at most buffers() records. Each gets a buffer and its completion.
  void load(std::span<Record> records);
  // Writes them from these buffers to `place`, set anew by the caller.
  void store(std::span<Record> records);

  // --- Reading into other memory ---

  // Submits and appends what has completed; an empty list of ops waits for at least one completion.
  Result<void> submit(std::span<const Op> ops);
  Result<void> wait(std::vector<Completion>& out);

 private:
  SessionIo(NvmeTier& tier, const Clock& clock) : tier_(tier), clock_(clock) {}

  void aside(OpType type, std::uint32_t segment);
  void run(std::span<Record> records, OpType type);
  Result<void> take_completions();
  std::size_t index_of(std::span<const std::byte> payload) const;

  NvmeTier& tier_;
  const Clock& clock_;
  std::unique_ptr<Arena> memory_;
  std::vector<std::span<std::byte>> buffers_;
  std::vector<std::size_t> free_;
  std::vector<Completion> completions_;
  std::vector<Completion> ended_;  // Taken from the tier, and not yet from here.
  std::size_t storing_ = 0;
  std::optional<Error> store_error_;  // Of a store that nobody has been told of.
  std::optional<Error> silent_;
};

}  // namespace tiercel
