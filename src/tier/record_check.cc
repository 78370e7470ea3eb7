#include "tier/record_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codec/codec.h"

namespace tiercel {
namespace {

Result<void> check_names(const Op& op, const RecordHead& head, Errc code) {
  if (head.key != op.key) {
    return fail(code, fmt::format("record of key {} where {} was expected (segment {}, offset {})",
                                  hex(head.key), hex(op.key), op.place.segment, op.place.offset));
  }
  if (head.fingerprint != op.fingerprint) {
    return fail(code, fmt::format("record {} has fingerprint {}, not {}", hex(head.key),
                                  hex(head.fingerprint), hex(op.fingerprint)));
  }
  if (record_bytes(head.chunks) != op.place.bytes) {
    return fail(code, fmt::format("record {} has {} bytes, its place {}", hex(head.key),
                                  record_bytes(head.chunks), op.place.bytes));
  }
  return {};
}

// Every way out of a tier goes through this: nobody above decodes, so what is not plain must not leave.
Result<void> check_plain(const RecordHead& head) {
  if (head.key_id != 0) {
    return fail(Errc::corrupt,
                fmt::format("record {} is enciphered (key_id {}), which this build cannot undo",
                            hex(head.key), head.key_id));
  }
  for (const Chunk& chunk : head.chunks) {
    const auto codec = find_codec(chunk.codec);
    if (!codec)
      return fail(Errc::corrupt, fmt::format("record {}: {}", hex(head.key), codec.error().what));
    if ((*codec)->id() != kIdentityCodec) {
      return fail(Errc::corrupt, fmt::format("record {} is encoded ({}) and nobody decodes it here",
                                             hex(head.key), (*codec)->name()));
    }
    if (chunk.plain_bytes != chunk.stored_bytes) {
      return fail(Errc::corrupt,
                  fmt::format("record {}: a chunk of {} plain bytes is stored as it is in {}",
                              hex(head.key), chunk.plain_bytes, chunk.stored_bytes));
    }
  }
  return {};
}

}  // namespace

Result<Spans> resolve_memory(const Op& op, const Arena* arena) {
  Spans spans;
  spans.reserve(op.memory.size());
  std::uint64_t bytes = 0;
  for (const Piece& piece : op.memory) {
    if (piece.bytes == 0) continue;
    std::byte* const address = piece_address(piece, arena);
    if (address == nullptr)
      return fail(Errc::invalid,
                  "a piece of memory has no address in this process (stale handle?)");
    spans.emplace_back(address, piece.bytes);
    bytes += piece.bytes;
  }
  const Place& place = op.place;
  if (bytes != place.bytes) {
    return fail(Errc::invalid,
                fmt::format("the memory has {} bytes, the place {}", bytes, place.bytes));
  }
  if (place.bytes < 2 * kRecordAlignment || place.bytes % kRecordAlignment != 0 ||
      place.offset % kRecordAlignment != 0) {
    return fail(Errc::invalid, fmt::format("place {}+{} is not of whole pages, two at least",
                                           place.offset, place.bytes));
  }
  return spans;
}

std::span<const std::byte> gather(std::span<const std::span<std::byte>> spans, std::uint64_t bytes,
                                  std::vector<std::byte>& scratch) {
  if (spans.front().size() >= bytes) return spans.front().first(bytes);
  scratch.clear();
  for (const auto span : spans) {
    const std::uint64_t part = std::min<std::uint64_t>(span.size(), bytes - scratch.size());
    scratch.insert(scratch.end(), span.begin(), span.begin() + static_cast<std::ptrdiff_t>(part));
    if (scratch.size() == bytes) break;
  }
  return scratch;
}

Spans drop_front(std::span<const std::span<std::byte>> spans, std::uint64_t bytes) {
  Spans rest;
  rest.reserve(spans.size());
  for (const auto span : spans) {
    const std::uint64_t part = std::min<std::uint64_t>(span.size(), bytes);
    bytes -= part;
    if (part < span.size()) rest.push_back(span.subspan(part));
  }
  return rest;
}

Result<RecordHead> check_stored_head(const Op& op, std::span<const std::span<std::byte>> spans) {
  std::vector<std::byte> scratch;
  const auto bytes = peek_head_bytes(gather(spans, kRecordAlignment, scratch));
  if (!bytes || *bytes >= op.place.bytes)
    return fail(Errc::invalid, "what is to be stored does not start with a record head");
  std::vector<std::byte> whole;
  auto head = parse_head(gather(spans, *bytes, whole));
  if (!head)
    return fail(Errc::invalid,
                fmt::format("what is to be stored is damaged: {}", head.error().what));
  TIERCEL_TRY_VOID(check_names(op, *head, Errc::invalid));
  return head;
}

Result<RecordHead> check_loaded_head(const Op& op, std::span<const std::byte> bytes) {
  TIERCEL_TRY(RecordHead head, parse_head(bytes));
  TIERCEL_TRY_VOID(check_names(op, head, Errc::corrupt));
  TIERCEL_TRY_VOID(check_plain(head));
  return head;
}

Result<std::optional<RecordHead>> check_placed_head(const Op& op, const PlaceEcho& expected,
                                                    std::span<const std::span<std::byte>> read) {
  const std::span<std::byte> first_page = read.front().first(kPageBytes);
  if (never_written(first_page)) return std::optional<RecordHead>();
  const auto echo = parse_place_echo(placement_area(std::span<const std::byte>(first_page)));
  if (!echo || !same_place(*echo, expected)) {
    return fail(Errc::corrupt, fmt::format("{}; what lies at {}:{} was not written there in this "
                                           "life of the segment",
                                           echo ? "place echo: it differs" : echo.error().what,
                                           op.place.segment, op.place.offset));
  }
  TIERCEL_TRY(const std::uint64_t head_bytes, peek_head_bytes(first_page));
  if (head_bytes >= op.place.bytes)
    return fail(Errc::corrupt, "record: its head is longer than its place");
  std::vector<std::byte> scratch;
  TIERCEL_TRY(RecordHead head, check_loaded_head(op, gather(read, head_bytes, scratch)));
  std::ranges::fill(placement_area(first_page), std::byte{0});
  return std::optional<RecordHead>(std::move(head));
}

Result<void> check_whole_record(const FooterEntry& entry, const PlaceEcho& expected,
                                std::span<std::byte> bytes) {
  const Op op{.key = entry.key,
              .fingerprint = entry.fingerprint,
              .place = {.segment = expected.segment, .offset = entry.offset, .bytes = entry.bytes}};
  TIERCEL_TRY(const auto head, check_placed_head(op, expected, std::span(&bytes, 1)));
  if (!head) return fail(Errc::corrupt, "nothing lies there");
  if (head_checksum(bytes) != entry.head_checksum)
    return fail(Errc::corrupt, "it is not the record that the index names");
  const std::span<const std::byte> body = bytes.subspan(record_head_bytes(head->chunks.size()));
  return verify_chunks(*head, std::span(&body, 1));
}

bool never_written(std::span<const std::byte> first_page) {
  return std::ranges::all_of(first_page.first(16),
                             [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace tiercel
