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

class Scanner {
 public:
  Scanner(File& file, std::uint32_t segment, const ScanOptions& options,
          std::span<std::byte> buffer)
      : file_(file), segment_(segment), options_(options), buffer_(buffer) {}

  Result<SegmentScan> run() {
    TIERCEL_TRY(const std::optional<SegmentHeader> header, read_header());
    TIERCEL_TRY_VOID(read_footer());
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
    if (has_footer_ && footer_.life != scan_.life) has_footer_ = false;  // Of an earlier life.
    if (has_footer_ && !options_.walk_always) {
      scan_.state = SegmentState::sealed;
      scan_.data_end = footer_.data_end;
      scan_.records = std::move(footer_.entries);
      return std::move(scan_);
    }
    complaints_before_walk_ = scan_.complaints;
    TIERCEL_TRY_VOID(walk(has_footer_ ? footer_.data_end : options_.segment_bytes));
    scan_.state = SegmentState::open;
    if (has_footer_) {
      scan_.holes = 0;  // The footer tells what was there.
      compare_with_footer();
    }
    if (!has_footer_ && scan_.records.empty() && scan_.torn == 0) scan_.state = SegmentState::free;
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
    TIERCEL_TRY_VOID(file_.read(offset, memory));
    scan_.bytes_read += bytes;
    return memory;
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
    footer_ = std::move(*footer);
    has_footer_ = true;
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
      if (std::ranges::find(scan_.records, entry) != scan_.records.end()) continue;
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

  Result<void> walk(std::uint64_t end) {
    window_first_ = window_end_ = 0;
    hole_from_ = kSegmentHeaderBytes;
    for (std::uint64_t offset = kSegmentHeaderBytes; offset + kPageBytes <= end;) {
      TIERCEL_TRY(const auto page, window(offset, kPageBytes, end));
      const auto echo = parse_place_echo(placement_area(std::span<const std::byte>(page)));
      const PlaceEcho expected{
          .store = options_.store, .segment = segment_, .offset = offset, .life = scan_.life};
      if (!echo && peek_head_bytes(page)) damaged(offset, echo.error());
      if (offset == hole_from_ && echo_here(page, offset) && echo->life != scan_.life)
        hole_told_ = true;
      if (!echo ||
          *echo != expected) {  // The middle of a damaged record, an earlier life, or nothing.
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
    if (length > options_.record_bytes_max)
      return damaged(offset, fail(Errc::corrupt, "it is too long"));
    TIERCEL_TRY(bytes, window(offset, length, end));
    if (bytes.empty()) return damaged(offset, fail(Errc::corrupt, "it leaves the segment"));
    const std::span<const std::byte> body = bytes.subspan(*head_bytes);
    if (const auto good = verify_chunks(*head, std::span(&body, 1)); !good)
      return damaged(offset, good.error());
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

  std::uint64_t damaged(std::uint64_t offset, const Error& error) {
    ++scan_.torn;
    hole_told_ = true;
    complain(fmt::format("offset {}: {}", offset, error.what));
    return 0;
  }

  File& file_;
  const std::uint32_t segment_;
  const ScanOptions& options_;
  const std::span<std::byte> buffer_;
  SegmentScan scan_;
  bool has_footer_ = false;
  std::string footer_error_;
  SegmentLife trailer_life_;
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

Result<SegmentScan> scan_segment(File& file, std::uint32_t segment, const ScanOptions& options,
                                 std::span<std::byte> buffer) {
  TIERCEL_CHECK(buffer.size() >= scan_buffer_bytes(options.record_bytes_max));
  return Scanner(file, segment, options, buffer).run();
}

}  // namespace tiercel
