// What a restart reads from a directory that anybody may have written to: superblock, segment header, place echo, footer.
// No bytes crash a parser, and what it accepts encodes to the same and holds together.
// Input: one byte that says which, then the bytes. Each is parsed as it is, and once more with its checksum set right.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "tier/segment_format.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kSegmentBytes = 64 * kPageBytes;

// The checksum of `hashed` leading bytes, written at `at`: docs/formats has both.
void set_checksum(std::vector<std::byte>& bytes, std::size_t hashed, std::size_t at) {
  if (bytes.size() < at + 8 || hashed > at) return;
  const std::uint64_t sum = checksum64(std::span(bytes).first(hashed));
  std::memcpy(bytes.data() + at, &sum, sizeof sum);
}

void parse_one_superblock(std::span<const std::byte> bytes) {
  if (const auto superblock = parse_superblock(bytes)) {
    TIERCEL_CHECK(*parse_superblock(encode_superblock(*superblock)) == *superblock);
    // Eight of the largest records fit, whatever the numbers are.
    TIERCEL_CHECK(superblock->segment_bytes / kSegmentRecordsMin >= superblock->record_bytes_max);
  }
}

void parse_one_header(std::span<const std::byte> page) {
  if (const auto header = parse_segment_header(page)) {
    std::vector<std::byte> again(kPageBytes);
    encode_segment_header(*header, again);
    TIERCEL_CHECK(*parse_segment_header(again) == *header);
  }
}

void parse_one_echo(std::span<const std::byte> bytes) {
  if (bytes.size() < kPlaceEchoBytes) return;
  if (const auto echo = parse_place_echo(bytes.first<kPlaceEchoBytes>())) {
    std::array<std::byte, kPlaceEchoBytes> again{};
    encode_place_echo(*echo, again);
    TIERCEL_CHECK(*parse_place_echo(again) == *echo);
  }
}

void parse_one_footer(std::span<const std::byte> bytes) {
  const auto footer = parse_footer(bytes, kSegmentBytes);
  if (!footer) return;
  std::uint64_t end = kSegmentHeaderBytes;
  for (const FooterEntry& entry : footer->entries) {
    TIERCEL_CHECK(entry.offset >= end && entry.bytes >= kRecordBytesMin);
    TIERCEL_CHECK(entry.bytes <= kSegmentBytes - entry.offset);
    end = entry.offset + entry.bytes;
  }
  TIERCEL_CHECK(end <= footer->data_end || footer->entries.empty());
  TIERCEL_CHECK(footer->data_end <= kSegmentBytes);
  TIERCEL_CHECK(footer->entries.size() <= kSegmentBytes / kRecordBytesMin);
  TIERCEL_CHECK(*parse_footer(encode_footer(*footer), kSegmentBytes) == *footer);
}

}  // namespace
}  // namespace tiercel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  switch (data[0] % 4) {
    case 0:
      parse_one_superblock(bytes);
      set_checksum(repaired, 56, 56);
      parse_one_superblock(repaired);
      break;
    case 1:
      parse_one_header(bytes);
      set_checksum(repaired, 56, 56);
      parse_one_header(repaired);
      break;
    case 2:
      parse_one_echo(bytes);
      set_checksum(repaired, 56, 56);
      parse_one_echo(repaired);
      break;
    case 3:
      parse_one_footer(bytes);
      if (repaired.size() >= 8) set_checksum(repaired, repaired.size() - 8, repaired.size() - 8);
      parse_one_footer(repaired);
      break;
  }
  return 0;
}
