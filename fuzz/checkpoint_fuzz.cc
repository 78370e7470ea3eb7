// What a restart reads from index.checkpoint, which anybody may have written to. No bytes crash the parser; what it accepts encodes
// to the same, holds together, and fits its slot. The bytes are parsed as they are, and once more with both sums set right, so that
// the fuzzer gets behind them.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "tier/checkpoint_format.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kSegmentBytes = 64 * kPageBytes;

void parse_one(std::span<const std::byte> bytes) {
  const auto length = peek_checkpoint_bytes(bytes, checkpoint_slot_bytes(kSegmentBytes));
  if (length) {
    TIERCEL_CHECK(*length >= kPageBytes && *length % kPageBytes == 0);
    TIERCEL_CHECK(*length <= checkpoint_slot_bytes(kSegmentBytes));
  }
  const auto checkpoint = parse_checkpoint(bytes, kSegmentBytes);
  if (!checkpoint) return;
  TIERCEL_CHECK(checkpoint_bytes(*checkpoint) == bytes.size());
  for (const CheckpointSegment& row : checkpoint->segments) {
    std::uint64_t end = kSegmentHeaderBytes;
    for (const FooterEntry& entry : row.entries) {
      TIERCEL_CHECK(entry.offset >= end && entry.bytes >= kRecordBytesMin);
      TIERCEL_CHECK(entry.bytes <= kSegmentBytes - entry.offset);
      end = entry.offset + entry.bytes;
    }
    TIERCEL_CHECK(end <= row.data_end && row.data_end <= kSegmentBytes);
    TIERCEL_CHECK(row.entries.empty() || !row.sealed);
    TIERCEL_CHECK(row.entries.size() <= kSegmentBytes / kRecordBytesMin);
  }
  for (const QuarantinedPlace& place : checkpoint->quarantined)
    TIERCEL_CHECK(place.offset < kSegmentBytes && place.reason.size() <= kQuarantineReasonBytes);
  std::vector<std::byte> again(bytes.size());
  encode_checkpoint(*checkpoint, again);
  TIERCEL_CHECK(*parse_checkpoint(again, kSegmentBytes) == *checkpoint);
  Checkpoint fitted = *checkpoint;
  fit_checkpoint(fitted, checkpoint_slot_bytes(kSegmentBytes));
  TIERCEL_CHECK(checkpoint_bytes(fitted) <= checkpoint_slot_bytes(kSegmentBytes));
}

void set_sum(std::vector<std::byte>& bytes, std::span<const std::byte> hashed, std::size_t at) {
  const std::uint64_t sum = checksum64(hashed);
  std::memcpy(bytes.data() + at, &sum, sizeof sum);
}

}  // namespace
}  // namespace tiercel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const auto bytes = std::as_bytes(std::span(data, size));
  parse_one(bytes);
  if (size < kCheckpointHeaderBytes) return 0;
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  const std::span<const std::byte> all(repaired);
  set_sum(repaired, all.subspan(kCheckpointHeaderBytes), 80);
  set_sum(repaired, all.first(88), 88);
  parse_one(repaired);
  // A fuzzer rarely hits upon whole pages: the same, filled up with zeros, and its length told.
  repaired.resize(align_up(size, kPageBytes));
  const std::uint64_t length = repaired.size();
  std::memcpy(repaired.data() + 56, &length, sizeof length);
  const std::span<const std::byte> filled(repaired);
  set_sum(repaired, filled.subspan(kCheckpointHeaderBytes), 80);
  set_sum(repaired, filled.first(88), 88);
  parse_one(repaired);
  return 0;
}
