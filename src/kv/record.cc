#include "kv/record.h"

#include <fmt/format.h>

#include <cstring>

#include "base/checksum.h"
#include "kv/little_endian.h"
#include "kv/stream_copy.h"

namespace tiercel {
namespace {

constexpr std::string_view kMagic = "TIERCREC";
constexpr std::uint32_t kVersion = 1;

// Offsets within the header; docs/formats/record.md.
constexpr std::size_t kVersionAt = 8, kHeadBytesAt = 12, kKeyAt = 16, kFingerprintAt = 32;
constexpr std::size_t kPrefixAt = 48, kParentAt = 64, kKindAt = 80, kReachAt = 82, kWindowAt = 84;
constexpr std::size_t kTokensAt = 88, kRankAt = 92, kWorldAt = 96, kChunksAt = 100, kBytesAt = 104;
constexpr std::size_t kKeyIdAt = 112, kNonceAt = 116, kTagAt = 128, kChecksumAt = 248;

// What is hashed and copied at a time: small enough that the second touch finds it in the
// first-level cache.
constexpr std::size_t kBlockBytes = 8 * 1024;

std::uint64_t compute_head_checksum(std::span<const std::byte> head) {
  static constexpr std::array<std::byte, kPlacementBytes> zeros{};
  Checksum64 sum;
  sum.update(head.first(kPlacementOffset));
  sum.update(zeros);
  const std::size_t after = kPlacementOffset + kPlacementBytes;
  sum.update(head.subspan(after, kChecksumAt - after));
  sum.update(std::span(zeros).first(8));
  sum.update(head.subspan(kChecksumAt + 8));
  return sum.finish();
}

Error corrupt(std::string_view what) {
  return fail(Errc::corrupt, fmt::format("record: {}", what));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Walks a list of pieces as if it were one run of bytes.
template <class Byte>
class Cursor {
 public:
  explicit Cursor(std::span<const std::span<Byte>> pieces) : pieces_(pieces) { skip_empty(); }

  // The next contiguous bytes, at most `bytes_max`; empty at the end.
  std::span<Byte> peek(std::uint64_t bytes_max) const {
    if (pieces_.empty()) return {};
    return pieces_.front().subspan(
        at_, std::min<std::uint64_t>(bytes_max, pieces_.front().size() - at_));
  }
  void advance(std::size_t bytes) {
    at_ += bytes;
    if (at_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      at_ = 0;
      skip_empty();
    }
  }

 private:
  void skip_empty() {
    while (!pieces_.empty() && pieces_.front().empty()) pieces_ = pieces_.subspan(1);
  }

  std::span<const std::span<Byte>> pieces_;
  std::size_t at_ = 0;
};

// Runs over the body once. `take(bytes)` sees every byte in order, padding included, and says how
// many it dealt with.
template <class Take>
Result<void> walk_chunks(const RecordHead& head, std::span<const std::span<const std::byte>> body,
                         Take take) {
  Cursor<const std::byte> cursor(body);
  Checksum64 sum;
  for (std::size_t index = 0; index < head.chunks.size(); ++index) {
    const Chunk& chunk = head.chunks[index];
    sum.reset();
    for (std::uint64_t left = chunk.stored_bytes; left > 0;) {
      const auto seen = cursor.peek(std::min<std::uint64_t>(left, kBlockBytes));
      if (seen.empty()) return corrupt(fmt::format("chunk {} ends early", index));
      sum.update(seen);
      take(seen);
      cursor.advance(seen.size());
      left -= seen.size();
    }
#ifndef TIERCEL_SABOTAGE_CHECKSUM  // The negative control: a build that hands flipped bytes out.
    if (sum.finish() != chunk.checksum) {
      return corrupt(
          fmt::format("checksum of chunk {} of {} does not match", index, head.chunks.size()));
    }
#endif
    std::uint64_t padding = align_up(chunk.stored_bytes, kRecordAlignment) - chunk.stored_bytes;
    while (padding > 0) {
      const auto seen = cursor.peek(padding);
      if (seen.empty()) return corrupt(fmt::format("the padding of chunk {} ends early", index));
      if (!all_zero(seen))
        return corrupt(fmt::format("the padding of chunk {} is not zero", index));
      take(seen);
      cursor.advance(seen.size());
      padding -= seen.size();
    }
  }
  if (!cursor.peek(1).empty()) return corrupt("bytes after the last chunk");
  return {};
}

}  // namespace

std::uint64_t record_bytes(std::span<const Chunk> chunks) {
  std::uint64_t bytes = record_head_bytes(chunks.size());
  for (const Chunk& chunk : chunks) bytes += align_up(chunk.stored_bytes, kRecordAlignment);
  return bytes;
}

std::uint64_t record_bytes(std::uint64_t payload_bytes, std::uint32_t chunks) {
  const std::uint64_t part = (payload_bytes + chunks - 1) / chunks;
  std::uint64_t bytes = record_head_bytes(chunks);
  for (std::uint64_t left = payload_bytes; left > 0; left -= std::min(left, part)) {
    bytes += align_up(std::min(left, part), kRecordAlignment);
  }
  return bytes;
}

Result<void> encode_head(const RecordHead& head, std::span<std::byte> out) {
  if (head.chunks.empty() || head.chunks.size() > kChunksMax) {
    return fail(Errc::invalid,
                fmt::format("a record has 1 to {} chunks, not {}", kChunksMax, head.chunks.size()));
  }
  if (out.size() != record_head_bytes(head.chunks.size())) {
    return fail(Errc::invalid,
                fmt::format("the head of {} chunks needs {} bytes, not {}", head.chunks.size(),
                            record_head_bytes(head.chunks.size()), out.size()));
  }
  std::memset(out.data(), 0, out.size());
  put_magic(out, kMagic);
  put_number<std::uint32_t>(out, kVersionAt, kVersion);
  put_number<std::uint32_t>(out, kHeadBytesAt, static_cast<std::uint32_t>(out.size()));
  put_name(out, kKeyAt, head.key);
  put_name(out, kFingerprintAt, head.fingerprint);
  put_name(out, kPrefixAt, head.prefix);
  put_name(out, kParentAt, head.parent);
  put_number<std::uint16_t>(out, kKindAt, head.kind.id);
  put_number<std::uint8_t>(out, kReachAt, static_cast<std::uint8_t>(head.kind.reach));
  put_number<std::uint32_t>(out, kWindowAt, head.kind.window_tokens);
  put_number<std::uint32_t>(out, kTokensAt, head.token_count);
  put_number<std::uint32_t>(out, kRankAt, head.rank);
  put_number<std::uint32_t>(out, kWorldAt, head.world);
  put_number<std::uint32_t>(out, kChunksAt, static_cast<std::uint32_t>(head.chunks.size()));
  put_number<std::uint64_t>(out, kBytesAt, record_bytes(head.chunks));
  put_number<std::uint32_t>(out, kKeyIdAt, head.key_id);
  put_bytes(out, kNonceAt, head.nonce);
  put_bytes(out, kTagAt, head.tag);
  std::size_t at = kRecordHeaderBytes;
  for (const Chunk& chunk : head.chunks) {
    if (chunk.stored_bytes == 0 || chunk.stored_bytes > kChunkBytesMax || chunk.plain_bytes == 0 ||
        chunk.plain_bytes > kChunkBytesMax) {
      return fail(Errc::invalid, "a chunk is empty or too long");
    }
    const auto entry = out.subspan(at, kChunkEntryBytes);
    put_number<std::uint16_t>(entry, 0, chunk.region);
    put_number<std::uint16_t>(entry, 2, chunk.layer_first);
    put_number<std::uint16_t>(entry, 4, chunk.layer_count);
    put_number<std::uint16_t>(entry, 6, chunk.codec);
    put_number<std::uint64_t>(entry, 8, chunk.plain_bytes);
    put_number<std::uint64_t>(entry, 16, chunk.stored_bytes);
    put_bytes(entry, 24, chunk.codec_parameters);
    put_number<std::uint64_t>(entry, 40, chunk.checksum);
    at += kChunkEntryBytes;
  }
  put_number<std::uint64_t>(out, kChecksumAt, compute_head_checksum(out));
  return {};
}

Result<std::uint64_t> peek_head_bytes(std::span<const std::byte> first_page) {
  if (first_page.size() < kRecordAlignment) return corrupt("shorter than one page");
  if (!has_magic(first_page, kMagic)) return corrupt("no record starts here (magic)");
  const auto version = get_number<std::uint32_t>(first_page, kVersionAt);
  if (version != kVersion)
    return corrupt(fmt::format("version {} instead of {}", version, kVersion));
  const auto chunks = get_number<std::uint32_t>(first_page, kChunksAt);
  const auto bytes = get_number<std::uint32_t>(first_page, kHeadBytesAt);
  if (chunks == 0 || chunks > kChunksMax || bytes != record_head_bytes(chunks)) {
    return corrupt(
        fmt::format("{} chunks and a head of {} bytes do not fit together", chunks, bytes));
  }
  return bytes;
}

Result<RecordHead> parse_head(std::span<const std::byte> bytes) {
  TIERCEL_TRY(const std::uint64_t head_bytes, peek_head_bytes(bytes));
  if (bytes.size() < head_bytes) return corrupt("shorter than its head");
  const auto in = bytes.first(head_bytes);
  if (compute_head_checksum(in) != get_number<std::uint64_t>(in, kChecksumAt)) {
    return corrupt("checksum of the head does not match");
  }
  RecordHead head;
  head.key = get_name<Key>(in, kKeyAt);
  head.fingerprint = get_name<Fingerprint>(in, kFingerprintAt);
  head.prefix = get_name<PrefixHash>(in, kPrefixAt);
  head.parent = get_name<Key>(in, kParentAt);
  head.kind.id = get_number<std::uint16_t>(in, kKindAt);
  const auto reach = get_number<std::uint8_t>(in, kReachAt);
  if (reach > static_cast<std::uint8_t>(Reach::last))
    return corrupt(fmt::format("unknown reach {}", reach));
  head.kind.reach = static_cast<Reach>(reach);
  head.kind.window_tokens = get_number<std::uint32_t>(in, kWindowAt);
  head.token_count = get_number<std::uint32_t>(in, kTokensAt);
  head.rank = get_number<std::uint32_t>(in, kRankAt);
  head.world = get_number<std::uint32_t>(in, kWorldAt);
  head.key_id = get_number<std::uint32_t>(in, kKeyIdAt);
  head.nonce = get_bytes<12>(in, kNonceAt);
  head.tag = get_bytes<16>(in, kTagAt);
  head.chunks.resize(get_number<std::uint32_t>(in, kChunksAt));
  std::size_t at = kRecordHeaderBytes;
  for (Chunk& chunk : head.chunks) {
    const auto entry = in.subspan(at, kChunkEntryBytes);
    chunk.region = get_number<std::uint16_t>(entry, 0);
    chunk.layer_first = get_number<std::uint16_t>(entry, 2);
    chunk.layer_count = get_number<std::uint16_t>(entry, 4);
    chunk.codec = get_number<std::uint16_t>(entry, 6);
    chunk.plain_bytes = get_number<std::uint64_t>(entry, 8);
    chunk.stored_bytes = get_number<std::uint64_t>(entry, 16);
    chunk.codec_parameters = get_bytes<16>(entry, 24);
    chunk.checksum = get_number<std::uint64_t>(entry, 40);
    if (chunk.stored_bytes == 0 || chunk.stored_bytes > kChunkBytesMax || chunk.plain_bytes == 0 ||
        chunk.plain_bytes > kChunkBytesMax) {
      return corrupt("a chunk with an impossible length");
    }
    at += kChunkEntryBytes;
  }
  const auto total = get_number<std::uint64_t>(in, kBytesAt);
  if (total != record_bytes(head.chunks)) return corrupt("its length is not the sum of its chunks");
  return head;
}

std::uint64_t head_checksum(std::span<const std::byte> first_page) {
  return get_number<std::uint64_t>(first_page, kChecksumAt);
}

std::span<std::byte, kPlacementBytes> placement_area(std::span<std::byte> first_page) {
  return first_page.subspan<kPlacementOffset, kPlacementBytes>();
}
std::span<const std::byte, kPlacementBytes> placement_area(std::span<const std::byte> first_page) {
  return first_page.subspan<kPlacementOffset, kPlacementBytes>();
}

Result<void> verify_chunks(const RecordHead& head,
                           std::span<const std::span<const std::byte>> body) {
  return walk_chunks(head, body, [](std::span<const std::byte>) {});
}

Result<void> copy_verified(const RecordHead& head, std::span<const std::span<const std::byte>> from,
                           std::span<const std::span<std::byte>> to) {
  Cursor<std::byte> out(to);
  auto outcome = walk_chunks(head, from, [&out](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto room = out.peek(bytes.size());
      TIERCEL_CHECK(!room.empty());
      stream_copy(room.data(), bytes.data(), room.size());
      out.advance(room.size());
      bytes = bytes.subspan(room.size());
    }
  });
  stream_fence();
  return outcome;
}

}  // namespace tiercel
