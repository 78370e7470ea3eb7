#include "tier/segment_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.h"
#include "kv/record.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kWindowBytes = 4 * kMiB;
// An ill device may take seconds for each: after so many in one segment the rest of it is given up.
constexpr std::uint32_t kRefusedReadsMax = 256;

class Scanner {
 public:
  Scanner(File& file, std::uint32_t segment, const ScanOptions& options,
          std::span<std::byte> buffer)
      : file_(file), segment_(segment), options_(options), buffer_(buffer) {}

  Result<SegmentScan> run() {
    auto header_read = read_header();
    const auto footer_read = header_read ? read_footer() : Result<void>();
    if (options_.index_only && options_.pass_over_unreadable && (!header_read || !footer_read)) {
      scan_.needs_walk = true;
      return std::move(scan_);
    }
    TIERCEL_TRY(const std::optional<SegmentHeader> header, std::move(header_read));
    TIERCEL_TRY_VOID(footer_read);
    const bool sealed = header && has_footer_ && same_life(footer_.life, header->life);
    if (options_.index_only && !sealed) {
      scan_.needs_walk = true;
      return std::move(scan_);
    }
    const bool earlier = header && trailer_life_.sequence < header->life.sequence;
    if (!footer_error_.empty() &&
        !earlier) {  // Behind an earlier life's trailer may lie records of this one.
      scan_.footer_damaged = true;
      complain(footer_error_);
    }
    if (header) {
      scan_.life = header->life;
    } else {
      TIERCEL_TRY_VOID(find_life());
      if (has_footer_ && !is_later(scan_.life, footer_.life)) scan_.life = footer_.life;
      if (scan_.life.sequence == 0) return std::move(scan_);  // Nothing of ours in it.
      scan_.header_damaged = true;
      complain("header damaged; footer and place echoes of the records stand in for it");
    }
    has_footer_ = has_footer_ && same_life(footer_.life, scan_.life);  // Else of an earlier life.
    if (has_footer_) scan_.footer_entries = footer_.entries.size();
    find_quarantined();
    if (has_footer_ && !options_.walk_always) {
      scan_.state = SegmentState::sealed;
      scan_.data_end = footer_.data_end;
      scan_.records = std::move(footer_.entries);
    } else {
      TIERCEL_TRY_VOID(walk_all());
    }
    std::erase_if(scan_.records, [this](const FooterEntry& entry) {
      return is_quarantined(entry.offset, &entry.key);
    });
    return std::move(scan_);
  }

 private:
  static bool is_later(const SegmentLife& life, const SegmentLife& than) {
    return std::tie(life.sequence, life.epoch) > std::tie(than.sequence, than.epoch);
  }

  void complain(std::string sentence) {
    if (scan_.complaints.size() < kComplaintsMax) {
      scan_.complaints.push_back(fmt::format("segment {}: {}", segment_, sentence));
    }
  }

  Result<std::span<std::byte>> read(std::uint64_t offset, std::uint64_t bytes) {
    const auto memory = buffer_.first(bytes);
    if (options_.pass_over_unreadable && !options_.index_only) {
      read_what_can_be(offset, memory);
    } else {
      TIERCEL_TRY_VOID(file_.read(offset, memory));
    }
    scan_.bytes_read += bytes;
    return memory;
  }

  // By halves around the pages that the device refuses; those become zeros, which are no header, no record and no footer.
  void read_what_can_be(std::uint64_t offset, std::span<std::byte> memory) {
    if (refused_ < kRefusedReadsMax) {
      const auto outcome = file_.read(offset, memory);
      if (outcome) return;
      if (refused_++ == 0) complain(outcome.error().what);
      if (memory.size() > kPageBytes) {
        const std::uint64_t half = align_up(memory.size() / 2, kPageBytes);
        read_what_can_be(offset, memory.first(half));
        read_what_can_be(offset + half, memory.subspan(half));
        return;
      }
    }
    std::ranges::fill(memory, std::byte{0});
    scan_.unreadable_pages += memory.size() / kPageBytes;
  }

  Result<std::optional<SegmentHeader>> read_header() {
    TIERCEL_TRY(const auto page, read(0, kPageBytes));
    const auto header = parse_segment_header(page);
    if (header && header->store == options_.store && header->segment == segment_ &&
        header->segment_bytes == options_.segment_bytes) {
      return *header;
    }
    const bool blank =
        std::ranges::all_of(page, [](std::byte byte) { return byte == std::byte{0}; });
    if (!blank) {
      complain(header ? "its header names another store or segment" : header.error().what);
      scan_.header_damaged = true;
    }
    return std::optional<SegmentHeader>();
  }

  Result<void> read_footer() {
    TIERCEL_TRY(const auto page, read(options_.segment_bytes - kPageBytes, kPageBytes));
    const auto bytes = footer_bytes_from_trailer(page, options_.segment_bytes);
    trailer_life_ = footer_life_from_trailer(page);
    if (!bytes) {  // The last page holds a footer's end or nothing.
      const auto trailer = page.last(kFooterTrailerBytes);
      const bool blank =
          std::ranges::all_of(trailer, [](std::byte byte) { return byte == std::byte{0}; });
      if (!blank) footer_error_ = "footer: its trailer is not one";
      return {};
    }
    if (*bytes > buffer_.size()) return {};
    TIERCEL_TRY(const auto whole, read(options_.segment_bytes - *bytes, *bytes));
    auto footer = parse_footer(whole, options_.segment_bytes);
    if (!footer) {
      footer_error_ = footer.error().what;
      return {};
    }
    if (footer->store != options_.store || footer->segment != segment_) {
      complain("its footer names another store or segment");
      return {};
    }
    if (!fit_record_bytes_max(footer->entries, options_.record_bytes_max)) {
      footer_error_ = "footer: a record larger than those of this store";
      return {};
    }
    footer_ = std::move(*footer);
    has_footer_ = true;
    return {};
  }

  // What the checkpoint says of another life is stale: no such place is there any more.
  void find_quarantined() {
    if (options_.checkpoint == nullptr) return;
    for (const QuarantinedPlace& place : options_.checkpoint->quarantined) {
      if (place.segment == segment_ && same_life(place.life, scan_.life))
        quarantined_.push_back(&place);
    }
    scan_.quarantined = quarantined_.size();
  }

  // Where the record is too damaged to tell its key (null), the place alone counts.
  bool is_quarantined(std::uint64_t offset, const Key* key) const {
    return std::ranges::any_of(quarantined_, [&](const QuarantinedPlace* place) {
      return place->offset == offset && (key == nullptr || place->key == *key);
    });
  }

  // The list that the checkpoint has of this very life; null where it has none.
  const CheckpointSegment* known() const {
    if (options_.checkpoint == nullptr || options_.walk_always || !options_.believe_lists)
      return nullptr;
    const auto& rows = options_.checkpoint->segments;
    const auto row = std::ranges::find(rows, segment_, &CheckpointSegment::segment);
    if (row == rows.end() || row->sealed || !same_life(row->life, scan_.life) ||
        !fit_record_bytes_max(row->entries, options_.record_bytes_max)) {
      return nullptr;
    }
    return &*row;
  }

  Result<void> walk_all() {
    complaints_before_walk_ = scan_.complaints;
    std::uint64_t begin = kSegmentHeaderBytes;
    if (const CheckpointSegment* const row = known(); row != nullptr && !has_footer_) {
      scan_.records = row->entries;
      if (!row->entries.empty()) {
        const FooterEntry& last = row->entries.back();
        scan_.data_end = last.offset + last.bytes;
      }
      begin = row->data_end;
    }
    TIERCEL_TRY_VOID(walk(begin, has_footer_ ? footer_.data_end : options_.segment_bytes));
    scan_.state = SegmentState::open;
    if (has_footer_) {
      scan_.holes = 0;  // The footer tells what was there.
      compare_with_footer();
    }
    if (!has_footer_ && scan_.records.empty() && scan_.torn == 0) scan_.state = SegmentState::free;
    return {};
  }

  // Verify: every record that the footer lists must have been found by the walk.
  void compare_with_footer() {
    scan_.state = SegmentState::sealed;
    scan_.data_end = footer_.data_end;
    // What a crash tore before the footer was written is no damage: the footer does not list it.
    const auto found = std::move(scan_.complaints);
    scan_.complaints = complaints_before_walk_;
    std::uint64_t lost = 0;
    for (const FooterEntry& entry : footer_.entries) {
      if (is_quarantined(entry.offset, &entry.key)) continue;
      const auto record =
          std::ranges::lower_bound(scan_.records, entry.offset, {}, &FooterEntry::offset);
      if (record != scan_.records.end() && *record == entry) continue;
      ++lost;
      const std::string place = fmt::format("segment {}: offset {}:", segment_, entry.offset);
      const auto why = std::ranges::find_if(
          found, [&](const std::string& text) { return text.starts_with(place); });
      complain(fmt::format("record {} at offset {}{}", hex(entry.key), entry.offset,
                           why == found.end() ? " is missing" : why->substr(place.size() - 1)));
    }
    scan_.torn = lost;
  }

  // Makes [offset, offset + bytes) available in the buffer, reading a window ahead; nothing where the segment ends before.
  Result<std::span<std::byte>> window(std::uint64_t offset, std::uint64_t bytes,
                                      std::uint64_t end) {
    if (offset + bytes > end) return std::span<std::byte>();
    if (offset < window_first_ || offset + bytes > window_end_) {
      const std::uint64_t wanted = std::min<std::uint64_t>(
          std::min<std::uint64_t>(buffer_.size(), std::max(bytes, kWindowBytes)), end - offset);
      TIERCEL_TRY_VOID(read(offset, wanted));
      window_first_ = offset;
      window_end_ = offset + wanted;
    }
    return buffer_.subspan(offset - window_first_, bytes);
  }

  // The place echo of this store, this segment and this very offset in a page, of any life.
  std::optional<PlaceEcho> echo_here(std::span<const std::byte> page, std::uint64_t offset) const {
    const auto echo = parse_place_echo(placement_area(page));
    if (!echo || echo->store != options_.store || echo->segment != segment_ ||
        echo->offset != offset) {
      return std::nullopt;
    }
    return *echo;
  }

  // Without a header: the latest life that any record of the segment tells of.
  Result<void> find_life() {
    window_first_ = window_end_ = 0;
    const std::uint64_t end = options_.segment_bytes;
    for (std::uint64_t offset = kSegmentHeaderBytes; offset < end; offset += kPageBytes) {
      TIERCEL_TRY(const auto page, window(offset, kPageBytes, end));
      const auto echo = echo_here(page, offset);
      if (echo && is_later(echo->life, scan_.life)) scan_.life = echo->life;
    }
    return {};
  }

  // A record at `offset` follows what ends at `hole_from_`: where a record in between is damaged, that was told already; where
  // one of an earlier life begins, this life never wrote there.
  void note_hole(std::uint64_t offset) {
    if (offset > hole_from_ && !hole_told_) {
      ++scan_.holes;
      complain(fmt::format("offset {}: {} bytes without a record before that at {}", hole_from_,
                           offset - hole_from_, offset));
    }
    hole_told_ = false;
  }

  Result<void> walk(std::uint64_t begin, std::uint64_t end) {
    window_first_ = window_end_ = 0;
    hole_from_ = begin;
    for (std::uint64_t offset = begin; offset + kPageBytes <= end;) {
      TIERCEL_TRY(const auto page, window(offset, kPageBytes, end));
      const auto echo = parse_place_echo(placement_area(std::span<const std::byte>(page)));
      const PlaceEcho expected{
          .store = options_.store, .segment = segment_, .offset = offset, .life = scan_.life};
      if (!echo && peek_head_bytes(page)) damaged(offset, echo.error());
      if (offset == hole_from_ && echo_here(page, offset) && !same_life(echo->life, scan_.life))
        hole_told_ = true;
      if (!echo ||
          !same_place(*echo,
                      expected)) {  // The middle of a damaged record, an earlier life, or nothing.
        offset += kPageBytes;
        continue;
      }
      TIERCEL_TRY(const std::uint64_t taken, take_record(offset, end));
      offset += taken == 0 ? kPageBytes : taken;
    }
    return {};
  }

  // The record whose place echo fits at `offset`: its length, or 0 where it is damaged.
  Result<std::uint64_t> take_record(std::uint64_t offset, std::uint64_t end) {
    TIERCEL_TRY(auto bytes, window(offset, kPageBytes, end));
    const auto head_bytes = peek_head_bytes(bytes);
    if (!head_bytes) return damaged(offset, head_bytes.error());
    if (*head_bytes > options_.record_bytes_max)
      return damaged(offset, fail(Errc::corrupt, "a head that is too long"));
    TIERCEL_TRY(bytes, window(offset, *head_bytes, end));
    if (bytes.empty()) return damaged(offset, fail(Errc::corrupt, "it leaves the segment"));
    const auto head = parse_head(bytes);
    if (!head) return damaged(offset, head.error());
    const std::uint64_t length = record_bytes(head->chunks);
    if (length < kRecordBytesMin || length > options_.record_bytes_max)
      return damaged(offset, fail(Errc::corrupt, "it is too short or too long"), &head->key);
    TIERCEL_TRY(bytes, window(offset, length, end));
    if (bytes.empty()) return damaged(offset, fail(Errc::corrupt, "it leaves the segment"));
    const std::span<const std::byte> body = bytes.subspan(*head_bytes);
    if (const auto good = verify_chunks(*head, std::span(&body, 1)); !good)
      return damaged(offset, good.error(), &head->key);
    note_hole(offset);
    scan_.records.push_back({.key = head->key,
                             .parent = head->parent,
                             .prefix = head->prefix,
                             .fingerprint = head->fingerprint,
                             .kind = head->kind,
                             .token_count = head->token_count,
                             .offset = offset,
                             .bytes = length,
                             .head_checksum = head_checksum(bytes)});
    hole_from_ = scan_.data_end = offset + length;
    return length;
  }

  std::uint64_t damaged(std::uint64_t offset, const Error& error, const Key* key = nullptr) {
    hole_told_ = true;
    if (is_quarantined(offset, key)) return 0;  // Known already.
    ++scan_.torn;
    complain(fmt::format("offset {}: {}", offset, error.what));
    return 0;
  }

  File& file_;
  const std::uint32_t segment_;
  const ScanOptions& options_;
  const std::span<std::byte> buffer_;
  SegmentScan scan_;
  std::uint32_t refused_ = 0;  // Reads.
  bool has_footer_ = false;
  std::string footer_error_;
  SegmentLife trailer_life_;
  std::vector<const QuarantinedPlace*> quarantined_;  // Of this life.
  std::vector<std::string> complaints_before_walk_;
  Footer footer_;
  std::uint64_t window_first_ = 0, window_end_ = 0;
  std::uint64_t hole_from_ = kSegmentHeaderBytes;  // End of the last record.
  bool hole_told_ = false;
};

}  // namespace

std::uint64_t scan_buffer_bytes(std::uint64_t record_bytes_max) {
  return std::max(align_up(record_bytes_max, kPageBytes), kWindowBytes) + kWindowBytes;
}

std::uint64_t index_buffer_bytes(std::uint64_t segment_bytes) {
  return footer_bytes(segment_bytes / kRecordBytesMin);
}

Result<SegmentScan> scan_segment(File& file, std::uint32_t segment, const ScanOptions& options,
                                 std::span<std::byte> buffer) {
  TIERCEL_CHECK(buffer.size() >= (options.index_only
                                      ? index_buffer_bytes(options.segment_bytes)
                                      : scan_buffer_bytes(options.record_bytes_max)));
  return Scanner(file, segment, options, buffer).run();
}

}  // namespace tiercel
