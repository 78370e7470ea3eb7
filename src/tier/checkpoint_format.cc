#include "tier/checkpoint_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

constexpr std::string_view kMagic = "TIERCKPT";
constexpr std::uint32_t kFlagSealed = 1;
constexpr std::size_t kBodySumAt = 80, kHeaderSumAt = 88;

static_assert(kHeaderSumAt + 8 == kCheckpointHeaderBytes);

Error corrupt(std::string what) { return fail(Errc::corrupt, "checkpoint: " + std::move(what)); }

bool is_printable(char c) { return c >= 0x20 && c < 0x7f; }

std::uint64_t bytes_for(std::uint64_t segments, std::uint64_t entries, std::uint64_t quarantined) {
  return align_up(kCheckpointHeaderBytes + segments * kCheckpointSegmentBytes +
                      entries * kFooterEntryBytes + quarantined * kQuarantinedPlaceBytes,
                  kPageBytes);
}

std::uint64_t entry_count(const Checkpoint& checkpoint) {
  std::uint64_t count = 0;
  for (const CheckpointSegment& segment : checkpoint.segments) count += segment.entries.size();
  return count;
}

void put_segment(std::span<std::byte> out, const CheckpointSegment& row) {
  put_number<std::uint32_t>(out, 0, row.segment);
  put_number<std::uint32_t>(out, 4, row.sealed ? kFlagSealed : 0);
  encode_life(row.life, out.subspan(8, 16));
  put_number<std::uint32_t>(out, 24, static_cast<std::uint32_t>(row.data_end / kPageBytes));
  put_number<std::uint32_t>(out, 28, static_cast<std::uint32_t>(row.entries.size()));
}

void put_quarantined(std::span<std::byte> out, const QuarantinedPlace& place) {
  encode_life(place.life, out.first(16));
  put_name(out, 16, place.key);
  put_number<std::uint64_t>(out, 32, static_cast<std::uint64_t>(place.unix_s));
  put_number<std::uint32_t>(out, 40, place.segment);
  put_number<std::uint32_t>(out, 44, static_cast<std::uint32_t>(place.offset / kPageBytes));
  const std::size_t length = std::min(place.reason.size(), kQuarantineReasonBytes);
  for (std::size_t i = 0; i < length; ++i) {
    out[48 + i] = static_cast<std::byte>(is_printable(place.reason[i]) ? place.reason[i] : '?');
  }
}

Result<QuarantinedPlace> get_quarantined(std::span<const std::byte> in,
                                         std::uint64_t segment_bytes) {
  QuarantinedPlace place{.segment = get_number<std::uint32_t>(in, 40),
                         .life = parse_life(in.first(16)),
                         .offset = get_number<std::uint32_t>(in, 44) * kPageBytes,
                         .key = get_name<Key>(in, 16),
                         .unix_s = static_cast<std::int64_t>(get_number<std::uint64_t>(in, 32)),
                         .reason = {}};
  if (place.offset < kSegmentHeaderBytes || place.offset >= segment_bytes)
    return corrupt("a quarantined place outside the records of a segment");
  for (std::size_t i = 0; i < kQuarantineReasonBytes; ++i) {
    const char c = std::to_integer<char>(in[48 + i]);
    if (c == 0) {
      const auto rest = in.subspan(48 + i, kQuarantineReasonBytes - i);
      if (std::ranges::any_of(rest, [](std::byte byte) { return byte != std::byte{0}; }))
        return corrupt("bytes behind a reason");
      break;
    }
    if (!is_printable(c)) return corrupt("a reason that is no text");
    place.reason += c;
  }
  return place;
}

Result<void> read_entries(std::span<const std::byte> in, CheckpointSegment& row) {
  std::uint64_t end = kSegmentHeaderBytes;
  for (std::size_t i = 0; i < row.entries.size(); ++i) {
    TIERCEL_TRY(row.entries[i],
                parse_footer_entry(in.subspan(i * kFooterEntryBytes, kFooterEntryBytes)));
    const FooterEntry& entry = row.entries[i];
    if (entry.bytes < kRecordBytesMin) return corrupt("an entry smaller than any record");
    if (entry.offset < end || entry.offset + entry.bytes > row.data_end)
      return corrupt("an entry lies outside the records or across another");
    end = entry.offset + entry.bytes;
  }
  return {};
}

}  // namespace

std::uint64_t checkpoint_bytes(const Checkpoint& checkpoint) {
  return bytes_for(checkpoint.segments.size(), entry_count(checkpoint),
                   checkpoint.quarantined.size());
}

void fit_checkpoint(Checkpoint& checkpoint, std::uint64_t slot_bytes) {
  std::uint64_t left = slot_bytes - kCheckpointHeaderBytes;
  const std::uint64_t places =
      std::min<std::uint64_t>(checkpoint.quarantined.size(), left / kQuarantinedPlaceBytes);
  checkpoint.quarantined.erase(  // The oldest go.
      checkpoint.quarantined.begin(), checkpoint.quarantined.end() - static_cast<long>(places));
  left -= places * kQuarantinedPlaceBytes;
  std::vector<bool> kept(checkpoint.segments.size(), false);
  for (const bool sealed : {false, true}) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const CheckpointSegment& row = checkpoint.segments[i];
      const std::uint64_t bytes = kCheckpointSegmentBytes + row.entries.size() * kFooterEntryBytes;
      if (row.sealed != sealed || bytes > left) continue;
      left -= bytes;
      kept[i] = true;
    }
  }
  std::size_t next = 0;
  std::erase_if(checkpoint.segments, [&](const CheckpointSegment&) { return !kept[next++]; });
}

void encode_checkpoint(const Checkpoint& checkpoint, std::span<std::byte> out) {
  TIERCEL_CHECK(out.size() == checkpoint_bytes(checkpoint));
  std::ranges::fill(out, std::byte{0});
  std::size_t at = kCheckpointHeaderBytes;
  const auto next = [&](std::size_t bytes) {
    at += bytes;
    return out.subspan(at - bytes, bytes);
  };
  for (const CheckpointSegment& row : checkpoint.segments)
    put_segment(next(kCheckpointSegmentBytes), row);
  for (const CheckpointSegment& row : checkpoint.segments) {
    for (const FooterEntry& entry : row.entries)
      encode_footer_entry(entry, next(kFooterEntryBytes));
  }
  for (const QuarantinedPlace& place : checkpoint.quarantined)
    put_quarantined(next(kQuarantinedPlaceBytes), place);
  put_magic(out, kMagic);
  put_number<std::uint32_t>(out, 8, kCheckpointVersion);
  put_bytes(out, 16, checkpoint.store);
  put_number<std::uint64_t>(out, 32, checkpoint.sequence);
  put_number<std::uint64_t>(out, 40, checkpoint.epoch);
  put_number<std::uint64_t>(out, 48, static_cast<std::uint64_t>(checkpoint.unix_s));
  put_number<std::uint64_t>(out, 56, out.size());
  put_number<std::uint32_t>(out, 64, static_cast<std::uint32_t>(checkpoint.segments.size()));
  put_number<std::uint32_t>(out, 68, static_cast<std::uint32_t>(entry_count(checkpoint)));
  put_number<std::uint32_t>(out, 72, static_cast<std::uint32_t>(checkpoint.quarantined.size()));
  put_number<std::uint64_t>(out, kBodySumAt, checksum64(out.subspan(kCheckpointHeaderBytes)));
  put_number<std::uint64_t>(out, kHeaderSumAt, checksum64(out.first(kHeaderSumAt)));
}

Result<std::uint64_t> peek_checkpoint_bytes(std::span<const std::byte> first_page,
                                            std::uint64_t slot_bytes) {
  if (first_page.size() < kPageBytes) return corrupt("shorter than one page");
  if (!has_magic(first_page, kMagic)) return corrupt("wrong magic");
  if (get_number<std::uint64_t>(first_page, kHeaderSumAt) !=
      checksum64(first_page.first(kHeaderSumAt))) {
    return corrupt("the sum of its header does not match");
  }
  const auto version = get_number<std::uint32_t>(first_page, 8);
  if (version > kCheckpointVersion) {
    return fail(Errc::invalid,
                fmt::format("the checkpoint has format version {}, this build reads up to {}; use "
                            "a newer build",
                            version, kCheckpointVersion));
  }
  const auto bytes = get_number<std::uint64_t>(first_page, 56);
  if (version == 0 || bytes > slot_bytes ||
      bytes != bytes_for(get_number<std::uint32_t>(first_page, 64),
                         get_number<std::uint32_t>(first_page, 68),
                         get_number<std::uint32_t>(first_page, 72))) {
    return corrupt("its length does not fit its counts");
  }
  return bytes;
}

Result<Checkpoint> parse_checkpoint(std::span<const std::byte> bytes, std::uint64_t segment_bytes) {
  TIERCEL_TRY(const std::uint64_t expected, peek_checkpoint_bytes(bytes, bytes.size()));
  if (expected != bytes.size()) return corrupt("its length does not fit its counts");
  if (get_number<std::uint64_t>(bytes, kBodySumAt) !=
      checksum64(bytes.subspan(kCheckpointHeaderBytes))) {
    return corrupt("checksum does not match");
  }
  Checkpoint checkpoint{.store = get_bytes<16>(bytes, 16),
                        .sequence = get_number<std::uint64_t>(bytes, 32),
                        .epoch = get_number<std::uint64_t>(bytes, 40),
                        .unix_s = static_cast<std::int64_t>(get_number<std::uint64_t>(bytes, 48)),
                        .segments = {},
                        .quarantined = {}};
  checkpoint.segments.resize(get_number<std::uint32_t>(bytes, 64));
  std::uint64_t entries_left = get_number<std::uint32_t>(bytes, 68);
  const auto places = get_number<std::uint32_t>(bytes, 72);
  std::size_t at = kCheckpointHeaderBytes;
  const auto next = [&](std::size_t length) {
    at += length;
    return bytes.subspan(at - length, length);
  };
  std::int64_t last_segment = -1;
  for (CheckpointSegment& row : checkpoint.segments) {
    const auto in = next(kCheckpointSegmentBytes);
    const auto flags = get_number<std::uint32_t>(in, 4);
    const std::uint64_t count = get_number<std::uint32_t>(in, 28);
    row.segment = get_number<std::uint32_t>(in, 0);
    row.sealed = (flags & kFlagSealed) != 0;
    row.life = parse_life(in.subspan(8, 16));
    row.data_end = get_number<std::uint32_t>(in, 24) * kPageBytes;
    if (flags > kFlagSealed || (row.sealed && count > 0))
      return corrupt("a segment with unknown flags, or sealed and with entries");
    if (row.segment <= last_segment) return corrupt("its segments are out of order");
    if (row.data_end < kSegmentHeaderBytes || row.data_end > segment_bytes)
      return corrupt("a segment that ends outside itself");
    if (count > segment_bytes / kRecordBytesMin)
      return corrupt("a segment with more entries than it can hold records");
    if (count > entries_left) return corrupt("its segments have more entries than it says");
    last_segment = row.segment;
    entries_left -= count;
    row.entries.resize(count);
  }
  if (entries_left != 0) return corrupt("its segments have fewer entries than it says");
  for (CheckpointSegment& row : checkpoint.segments)
    TIERCEL_TRY_VOID(read_entries(next(row.entries.size() * kFooterEntryBytes), row));
  for (std::uint32_t i = 0; i < places; ++i) {
    TIERCEL_TRY(auto place, get_quarantined(next(kQuarantinedPlaceBytes), segment_bytes));
    checkpoint.quarantined.push_back(std::move(place));
  }
  return checkpoint;
}

}  // namespace tiercel
