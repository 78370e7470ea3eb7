#include "tier/segment_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "kv/little_endian.h"
#include "kv/record.h"

namespace tiercel {
namespace {

constexpr std::string_view kHeaderMagic = "TIERSEGM";
constexpr std::string_view kFooterMagic = "TIERFOOT";
constexpr std::uint32_t kVersion = 1;

static_assert(kPlaceEchoBytes == kPlacementBytes);
static_assert(kPageBytes == kRecordAlignment);

Error corrupt(std::string_view what) { return fail(Errc::corrupt, std::string(what)); }

void put_life(std::span<std::byte> out, std::size_t offset, const SegmentLife& life) {
  put_number<std::uint64_t>(out, offset, life.sequence);
  put_number<std::uint64_t>(out, offset + 8, life.epoch);
}

SegmentLife get_life(std::span<const std::byte> in, std::size_t offset) {
  return {.sequence = get_number<std::uint64_t>(in, offset),
          .epoch = get_number<std::uint64_t>(in, offset + 8)};
}

void put_entry(std::span<std::byte> out, const FooterEntry& entry) {
  put_name(out, 0, entry.key);
  put_name(out, 16, entry.parent);
  put_name(out, 32, entry.prefix);
  put_name(out, 48, entry.fingerprint);
  put_number<std::uint32_t>(out, 64, static_cast<std::uint32_t>(entry.offset / kPageBytes));
  put_number<std::uint32_t>(out, 68, static_cast<std::uint32_t>(entry.bytes / kPageBytes));
  put_number<std::uint64_t>(out, 72, entry.head_checksum);
  put_number<std::uint32_t>(out, 80, entry.token_count);
  put_number<std::uint32_t>(out, 84, entry.kind.window_tokens);
  put_number<std::uint16_t>(out, 88, entry.kind.id);
  put_number<std::uint8_t>(out, 90, static_cast<std::uint8_t>(entry.kind.reach));
}

FooterEntry get_entry(std::span<const std::byte> in) {
  FooterEntry entry;
  entry.key = get_name<Key>(in, 0);
  entry.parent = get_name<Key>(in, 16);
  entry.prefix = get_name<PrefixHash>(in, 32);
  entry.fingerprint = get_name<Fingerprint>(in, 48);
  entry.offset = get_number<std::uint32_t>(in, 64) * kPageBytes;
  entry.bytes = get_number<std::uint32_t>(in, 68) * kPageBytes;
  entry.head_checksum = get_number<std::uint64_t>(in, 72);
  entry.token_count = get_number<std::uint32_t>(in, 80);
  entry.kind.window_tokens = get_number<std::uint32_t>(in, 84);
  entry.kind.id = get_number<std::uint16_t>(in, 88);
  entry.kind.reach = static_cast<Reach>(get_number<std::uint8_t>(in, 90));
  return entry;
}

}  // namespace

bool same_life([[maybe_unused]] const SegmentLife& found,
               [[maybe_unused]] const SegmentLife& present) {
#ifdef TIERCEL_SABOTAGE_EPOCH  // The negative control: a build that believes what an earlier life left.
  return true;
#else
  return found == present;
#endif
}

bool same_place(const PlaceEcho& found, const PlaceEcho& expected) {
  return found.store == expected.store && found.segment == expected.segment &&
         found.offset == expected.offset && same_life(found.life, expected.life);
}

void encode_life(const SegmentLife& life, std::span<std::byte> out) { put_life(out, 0, life); }

SegmentLife parse_life(std::span<const std::byte> in) { return get_life(in, 0); }

void encode_footer_entry(const FooterEntry& entry, std::span<std::byte> out) {
  put_entry(out, entry);
}

Result<FooterEntry> parse_footer_entry(std::span<const std::byte> in) {
  if (get_number<std::uint8_t>(in, 90) > static_cast<std::uint8_t>(Reach::last)) {
    return corrupt("an entry with an unknown reach");
  }
  return get_entry(in);
}

void encode_segment_header(const SegmentHeader& header, std::span<std::byte> page) {
  TIERCEL_CHECK(page.size() == kPageBytes);
  std::ranges::fill(page, std::byte{0});
  put_magic(page, kHeaderMagic);
  put_number<std::uint32_t>(page, 8, kVersion);
  put_number<std::uint32_t>(page, 12, header.segment);
  put_bytes(page, 16, header.store);
  put_life(page, 32, header.life);
  put_number<std::uint64_t>(page, 48, header.segment_bytes);
  put_number<std::uint64_t>(page, 56, checksum64(page.first(56)));
}

Result<SegmentHeader> parse_segment_header(std::span<const std::byte> page) {
  if (page.size() < kPageBytes) return corrupt("segment header: shorter than one page");
  if (!has_magic(page, kHeaderMagic)) return corrupt("segment header: wrong magic");
  const auto version = get_number<std::uint32_t>(page, 8);
  if (version != kVersion)
    return corrupt(fmt::format("segment header: version {} instead of {}", version, kVersion));
  if (get_number<std::uint64_t>(page, 56) != checksum64(page.first(56))) {
    return corrupt("segment header: checksum does not match");
  }
  const auto rest = page.first(kPageBytes).subspan(64);
  if (std::ranges::any_of(rest, [](std::byte byte) { return byte != std::byte{0}; })) {
    return corrupt("segment header: the rest of its page is not zero");
  }
  return SegmentHeader{.store = get_bytes<16>(page, 16),
                       .segment = get_number<std::uint32_t>(page, 12),
                       .life = get_life(page, 32),
                       .segment_bytes = get_number<std::uint64_t>(page, 48)};
}

void encode_place_echo(const PlaceEcho& echo, std::span<std::byte, kPlaceEchoBytes> out) {
  std::ranges::fill(out, std::byte{0});
  put_bytes(out, 0, echo.store);
  put_number<std::uint64_t>(out, 16, echo.offset);
  put_life(out, 24, echo.life);
  put_number<std::uint32_t>(out, 40, echo.segment);
  put_number<std::uint64_t>(out, 56, checksum64(out.first(56)));
}

Result<PlaceEcho> parse_place_echo(std::span<const std::byte, kPlaceEchoBytes> in) {
  if (get_number<std::uint64_t>(in, 56) != checksum64(in.first(56))) {
    return corrupt("place echo: checksum does not match");
  }
  return PlaceEcho{.store = get_bytes<16>(in, 0),
                   .segment = get_number<std::uint32_t>(in, 40),
                   .offset = get_number<std::uint64_t>(in, 16),
                   .life = get_life(in, 24)};
}

bool fit_record_bytes_max(std::span<const FooterEntry> entries, std::uint64_t record_bytes_max) {
  return std::ranges::all_of(entries, [record_bytes_max](const FooterEntry& entry) {
    return entry.bytes <= align_up(record_bytes_max, kPageBytes);
  });
}

std::vector<std::byte> encode_footer(const Footer& footer) {
  std::vector<std::byte> bytes(footer_bytes(footer.entries.size()));
  const std::span<std::byte> out(bytes);
  std::size_t at = 0;
  for (const FooterEntry& entry : footer.entries) {
    put_entry(out.subspan(at, kFooterEntryBytes), entry);
    at += kFooterEntryBytes;
  }
  const auto trailer = out.last(kFooterTrailerBytes);
  put_magic(trailer, kFooterMagic);
  put_number<std::uint32_t>(trailer, 8, kVersion);
  put_number<std::uint32_t>(trailer, 12, static_cast<std::uint32_t>(footer.entries.size()));
  put_bytes(trailer, 16, footer.store);
  put_life(trailer, 32, footer.life);
  put_number<std::uint32_t>(trailer, 48, footer.segment);
  put_number<std::uint32_t>(trailer, 52, static_cast<std::uint32_t>(footer.data_end / kPageBytes));
  put_number<std::uint64_t>(trailer, 56, checksum64(out.first(out.size() - 8)));
  return bytes;
}

std::optional<std::uint64_t> footer_bytes_from_trailer(std::span<const std::byte> last_page,
                                                       std::uint64_t segment_bytes) {
  if (last_page.size() < kPageBytes) return std::nullopt;
  const auto trailer = last_page.last(kFooterTrailerBytes);
  if (!has_magic(trailer, kFooterMagic)) return std::nullopt;
  if (get_number<std::uint32_t>(trailer, 8) != kVersion) return std::nullopt;
  const std::uint64_t entries = get_number<std::uint32_t>(trailer, 12);
  const std::uint64_t bytes = footer_bytes(entries);
  if (entries > segment_bytes / kRecordBytesMin) return std::nullopt;
  if (bytes > segment_bytes - kSegmentHeaderBytes) return std::nullopt;
  return bytes;
}

SegmentLife footer_life_from_trailer(std::span<const std::byte> last_page) {
  return get_life(last_page.last(kFooterTrailerBytes), 32);
}

Result<Footer> parse_footer(std::span<const std::byte> bytes, std::uint64_t segment_bytes) {
  if (bytes.size() < kPageBytes) return corrupt("footer: shorter than one page");
  const auto expected = footer_bytes_from_trailer(bytes.last(kPageBytes), segment_bytes);
  if (!expected) return corrupt("footer: no trailer");
  if (*expected != bytes.size()) return corrupt("footer: its length does not fit its count");
  const auto trailer = bytes.last(kFooterTrailerBytes);
  if (get_number<std::uint64_t>(trailer, 56) != checksum64(bytes.first(bytes.size() - 8))) {
    return corrupt("footer: checksum does not match");
  }
  Footer footer;
  footer.store = get_bytes<16>(trailer, 16);
  footer.life = get_life(trailer, 32);
  footer.segment = get_number<std::uint32_t>(trailer, 48);
  footer.data_end = get_number<std::uint32_t>(trailer, 52) * kPageBytes;
  if (footer.data_end + bytes.size() > segment_bytes)
    return corrupt("footer: records reach into it");
  footer.entries.resize(get_number<std::uint32_t>(trailer, 12));
  std::uint64_t end = kSegmentHeaderBytes;
  std::size_t at = 0;
  for (FooterEntry& entry : footer.entries) {
    const auto in = bytes.subspan(at, kFooterEntryBytes);
    if (get_number<std::uint8_t>(in, 90) > static_cast<std::uint8_t>(Reach::last)) {
      return corrupt("footer: an entry with an unknown reach");
    }
    entry = get_entry(in);
    if (entry.bytes < kRecordBytesMin) return corrupt("footer: an entry smaller than any record");
    if (entry.offset < end || entry.offset + entry.bytes > footer.data_end) {
      return corrupt("footer: an entry lies outside the records or across another");
    }
    end = entry.offset + entry.bytes;
    at += kFooterEntryBytes;
  }
  return footer;
}

}  // namespace tiercel
