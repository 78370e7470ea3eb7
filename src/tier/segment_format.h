// The geometry and the formats of the segment log: segment header, place echo, footer. docs/formats/segment.md has bytes.
//
// Shape   One segment is one file of segment_bytes:
//
//           0                  segment header, one page
//           4096               records, each a multiple of 4096 bytes, back to back in order of their places
//           ...                free
//           size - footer      footer, written when the segment is sealed: entries, zeros, and a 64-byte trailer at the very
//                              end, so that the trailer is found without knowing how many entries there are
//
// Life    A segment is reused in place, so old bytes lie behind new ones. Each life has a name {sequence, epoch}: the sequence
//         grows with every life of any segment of the store, the epoch with every open of the store. Header, footer and every
//         record (through the place echo in its head page) carry the life; what carries another one is not there.
// Layout  Little-endian, serialised field by field; no struct is ever copied to disk.
// Threads Pure functions.
// Source  docs/adr/0001-interfaces-that-last.md, docs/adr/0003-cold-space.md
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_size.h"
#include "base/result.h"
#include "kv/key.h"
#include "kv/kind.h"

namespace tiercel {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kSegmentHeaderBytes = kPageBytes;  // Records start here.
inline constexpr std::uint64_t kFooterEntryBytes = 96;
inline constexpr std::uint64_t kFooterTrailerBytes = 64;
inline constexpr std::uint64_t kSegmentRecordsMin =
    8;  // A segment holds at least so many of the largest record.

// Bytes of the footer of a segment that holds `records`.
constexpr std::uint64_t footer_bytes(std::uint64_t records) {
  return align_up(kFooterTrailerBytes + kFooterEntryBytes * records, kPageBytes);
}

// True where a record of `record_bytes` at `data_end` still leaves room for the footer; `records` counts it already.
constexpr bool segment_has_room(std::uint64_t segment_bytes, std::uint64_t data_end,
                                std::uint64_t record_bytes, std::uint64_t records) {
  return data_end + record_bytes + footer_bytes(records) <= segment_bytes;
}

// The smallest segment that holds kSegmentRecordsMin records of `record_bytes_max`.
constexpr std::uint64_t segment_bytes_min(std::uint64_t record_bytes_max) {
  return kSegmentHeaderBytes + kSegmentRecordsMin * record_bytes_max +
         footer_bytes(kSegmentRecordsMin);
}

// --- What a store takes of the disk ---

// Superblock, lock, the file system's own blocks of the directory.
inline constexpr std::uint64_t kStoreMetadataBytes = 8 * kPageBytes;
// What a file system may add to a file of segments or of the checkpoint for its extent map.
inline constexpr std::uint64_t kSegmentSlackBytes = kPageBytes;

inline constexpr std::uint64_t kCheckpointHeaderBytes = 96;
inline constexpr std::uint64_t kCheckpointSegmentBytes = 32;  // A row of its table.
inline constexpr std::uint64_t kQuarantinedPlaceBytes = 96;
inline constexpr std::uint64_t kRecordBytesMin = 2 * kPageBytes;  // No record is smaller.

// Quarantined places that a store remembers, and rows of the checkpoint's table: a thousand, fewer where segments are tiny.
constexpr std::uint64_t quarantine_max(std::uint64_t segment_bytes) {
  return segment_bytes / kPageBytes < 1024 ? segment_bytes / kPageBytes : 1024;
}
// One slot of the checkpoint: room for the index of two segments full of the smallest records, 2.5 % of a segment.
constexpr std::uint64_t checkpoint_slot_bytes(std::uint64_t segment_bytes) {
  return align_up(
      kCheckpointHeaderBytes + 2 * (segment_bytes / kRecordBytesMin) * kFooterEntryBytes +
          quarantine_max(segment_bytes) * (kCheckpointSegmentBytes + kQuarantinedPlaceBytes),
      kPageBytes);
}
constexpr std::uint64_t checkpoint_file_bytes(std::uint64_t segment_bytes) {
  return 2 * checkpoint_slot_bytes(segment_bytes);
}

// The cap that holds just `segments`: everything that the store may ever take, metadata and checkpoint included.
constexpr std::uint64_t store_bytes(std::uint64_t segment_bytes, std::uint64_t segments) {
  return kStoreMetadataBytes + checkpoint_file_bytes(segment_bytes) + kSegmentSlackBytes +
         segments * (segment_bytes + kSegmentSlackBytes);
}

// How many segments fit under a hard cap on physical bytes.
constexpr std::uint32_t segments_max(std::uint64_t capacity_bytes, std::uint64_t segment_bytes) {
  const std::uint64_t fixed = store_bytes(segment_bytes, 0);
  if (capacity_bytes <= fixed) return 0;
  return static_cast<std::uint32_t>((capacity_bytes - fixed) /
                                    (segment_bytes + kSegmentSlackBytes));
}

using StoreUuid = std::array<std::uint8_t, 16>;

struct SegmentLife {
  std::uint64_t sequence = 0;  // 1 is the first; 0 is no life.
  std::uint64_t epoch = 0;

  bool operator==(const SegmentLife&) const = default;
};

// Whether something of life `found` belongs to the life `present`.
bool same_life(const SegmentLife& found, const SegmentLife& present);

struct SegmentHeader {
  StoreUuid store{};
  std::uint32_t segment = 0;
  SegmentLife life;
  std::uint64_t segment_bytes = 0;

  bool operator==(const SegmentHeader&) const = default;
};

// Writes one page. Requires page.size() == kPageBytes.
void encode_segment_header(const SegmentHeader& header, std::span<std::byte> page);

// Errors: corrupt  magic, version or checksum are wrong; says which.
Result<SegmentHeader> parse_segment_header(std::span<const std::byte> page);

// Where a record was meant to lie. It stands in the placement area of the record's first page (kv/record.h), which the
// record's own checksum leaves out, and has its own: so a write or a read that went astray, or a record of an earlier life,
// is told from a good one although its bytes are intact.
struct PlaceEcho {
  StoreUuid store{};
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  SegmentLife life;

  bool operator==(const PlaceEcho&) const = default;
};

// Whether a record that says `found` was written at the place, and in the life, that is `expected`.
bool same_place(const PlaceEcho& found, const PlaceEcho& expected);

inline constexpr std::size_t kPlaceEchoBytes = 64;
void encode_place_echo(const PlaceEcho& echo, std::span<std::byte, kPlaceEchoBytes> out);
Result<PlaceEcho> parse_place_echo(std::span<const std::byte, kPlaceEchoBytes> in);

// What the index says about one record: enough to find it and to rebuild the chains without reading it.
struct FooterEntry {
  Key key;
  Key parent;  // All zero at the head of a chain.
  PrefixHash prefix;
  Fingerprint fingerprint;
  Kind kind;
  std::uint32_t token_count = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t head_checksum = 0;

  bool operator==(const FooterEntry&) const = default;
};

// For whoever writes lists of entries: kFooterEntryBytes each. Errors: corrupt  an unknown reach.
void encode_footer_entry(const FooterEntry& entry, std::span<std::byte> out);
Result<FooterEntry> parse_footer_entry(std::span<const std::byte> in);
void encode_life(const SegmentLife& life, std::span<std::byte> out);  // 16 bytes.
SegmentLife parse_life(std::span<const std::byte> in);

struct Footer {
  StoreUuid store{};
  std::uint32_t segment = 0;
  SegmentLife life;
  std::uint64_t data_end = 0;  // One past the last record.
  std::vector<FooterEntry> entries = {};

  bool operator==(const Footer&) const = default;
};

// The footer's bytes, footer_bytes(entries.size()) of them; they end where the segment ends.
std::vector<std::byte> encode_footer(const Footer& footer);

// How many bytes before the end of the segment the footer starts, from the last page alone; nullopt where there is no footer, or
// one of more entries than the segment can hold records.
std::optional<std::uint64_t> footer_bytes_from_trailer(std::span<const std::byte> last_page,
                                                       std::uint64_t segment_bytes);

// What the trailer in the last page says about its life, right or wrong: tells a damaged footer from one of an earlier life.
SegmentLife footer_life_from_trailer(std::span<const std::byte> last_page);

// Errors: corrupt  anything that does not hold together, entries that overlap, leave the segment or are smaller than any record
// included. How large a record may be is the store's to say: see the next.
Result<Footer> parse_footer(std::span<const std::byte> bytes, std::uint64_t segment_bytes);

// False where an entry, of a footer or a checkpoint, is of a record larger than the store has: it is not of this store, whatever
// its checksum says.
bool fit_record_bytes_max(std::span<const FooterEntry> entries, std::uint64_t record_bytes_max);

}  // namespace tiercel
