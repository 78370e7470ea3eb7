// The record: a block as every tier stores it. Head (header and chunk table), then the chunks.
//
// Layout  Little-endian. docs/formats/record.md has the grammar and a worked example in bytes.
//
//           0           header, 256 bytes           who it is, and the checksum of the head
//           256         chunk table, 48 bytes each  what each chunk means, how long it is, its codec and checksum
//           head_bytes  chunks                      in order, each padded with zeros to 4096
//
//         The head is padded to 4096 as well; up to 80 chunks fit into one page. A chunk verifies and decodes alone.
// Sums    The head's checksum covers the whole padded head, with its own field and the placement area as zeros. The
//         placement area belongs to the tier that holds the record (tier/segment_format.h) and is zero elsewhere.
//         A chunk's checksum covers its stored bytes; its padding must be zero. So no byte of a record is unchecked.
// Errors  corrupt  bytes that are not what was written; the text names the field. Parsing never trusts a length.
// Threads Pure functions over the caller's memory.
// Source  docs/adr/0001-interfaces-that-last.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_size.h"
#include "base/result.h"
#include "kv/key.h"
#include "kv/kind.h"

namespace tiercel {

inline constexpr std::uint64_t kRecordAlignment = 4096;
inline constexpr std::uint64_t kRecordHeaderBytes = 256;
inline constexpr std::uint64_t kChunkEntryBytes = 48;
inline constexpr std::uint32_t kChunksMax =
    1024;  // Layers times regions of the largest models, with room.
inline constexpr std::uint64_t kChunkBytesMax =
    1ULL << 40;  // Keeps every sum of lengths far from overflow.
inline constexpr std::size_t kPlacementOffset = 160;
inline constexpr std::size_t kPlacementBytes = 64;

struct Chunk {
  std::uint16_t region = 0;  // Index into the layout's regions.
  std::uint16_t layer_first = 0;
  std::uint16_t layer_count = 1;
  std::uint16_t codec = 0;  // codec/codec.h; 0 = identity.
  std::uint64_t plain_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::array<std::uint8_t, 16> codec_parameters{};
  std::uint64_t checksum = 0;  // checksum64 over the stored bytes.

  bool operator==(const Chunk&) const = default;
};

struct RecordHead {
  Key key;
  Fingerprint fingerprint;
  PrefixHash prefix;
  Key parent;  // The block before this one in its chain; all zero at the head.
  Kind kind;
  std::uint32_t token_count = 0;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  // Reserved for a later cipher, which takes the head as authenticated data: 0 and zeros until then.
  std::uint32_t key_id = 0;
  std::array<std::uint8_t, 12> nonce{};
  std::array<std::uint8_t, 16> tag{};
  std::vector<Chunk> chunks;

  bool operator==(const RecordHead&) const = default;
};

constexpr std::uint64_t record_head_bytes(std::uint64_t chunk_count) {
  return align_up(kRecordHeaderBytes + kChunkEntryBytes * chunk_count, kRecordAlignment);
}

// Physical bytes of a record: what a place needs.
std::uint64_t record_bytes(std::span<const Chunk> chunks);
// The same for a payload cut into `chunks` equal parts (the last may be shorter), stored as it is.
std::uint64_t record_bytes(std::uint64_t payload_bytes, std::uint32_t chunks = 1);

// Writes the head: `out` must be record_head_bytes(chunks.size()) long; the placement area becomes zero.
// Errors  invalid  no chunk or too many, a length of 0 or beyond kChunkBytesMax, `out` of another size
Result<void> encode_head(const RecordHead& head, std::span<std::byte> out);

// How long the head is, from its first page; its checksum is not looked at yet.
Result<std::uint64_t> peek_head_bytes(std::span<const std::byte> first_page);

// Reads and verifies a head. `bytes` starts at the record and reaches at least to the end of the head.
Result<RecordHead> parse_head(std::span<const std::byte> bytes);

// The checksum that stands in an encoded head: names this very record in an index.
std::uint64_t head_checksum(std::span<const std::byte> first_page);

// The placement area of an encoded head.
std::span<std::byte, kPlacementBytes> placement_area(std::span<std::byte> first_page);
std::span<const std::byte, kPlacementBytes> placement_area(std::span<const std::byte> first_page);

// Verifies every chunk of a record whose bytes after the head lie in `body`, in order, in any pieces.
Result<void> verify_chunks(const RecordHead& head,
                           std::span<const std::span<const std::byte>> body);

// Verifies and copies in one pass, so that the bytes are read from memory once. On an error the
// destination is unspecified. Requires both sides to be as long as the body of the record.
Result<void> copy_verified(const RecordHead& head, std::span<const std::span<const std::byte>> from,
                           std::span<const std::span<std::byte>> to);

}  // namespace tiercel
