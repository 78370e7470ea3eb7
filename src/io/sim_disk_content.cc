#include "io/sim_disk_content.h"

#include <algorithm>
#include <cstring>

namespace tiercel {
namespace {

constexpr std::uint64_t pages_of(std::uint64_t bytes) {
  return (bytes + kSimPageBytes - 1) / kSimPageBytes;
}

// Of the writes a sector or page saw, how many the disk has: a prefix, each length as likely.
class KeptPrefixes {
 public:
  explicit KeptPrefixes(std::uint64_t unit_bytes) : unit_bytes_(unit_bytes) {}

  void count(const SimPiece& piece) {
    each(piece, [&](std::uint64_t unit, const SimPiece&) { ++units_[unit].writes; });
  }
  void decide(Rng& rng) {
    for (auto& [unit, state] : units_)
      state.kept = static_cast<std::uint32_t>(rng.below(state.writes + 1));
  }
  // To be called in the order of the writes.
  void put_kept(const SimPiece& piece, SimImage& image) {
    each(piece, [&](std::uint64_t unit, const SimPiece& part) {
      State& state = units_[unit];
      if (state.seen++ < state.kept) image.put(part);
    });
  }

 private:
  struct State {
    std::uint32_t writes = 0, kept = 0, seen = 0;
  };

  template <class Take>
  void each(const SimPiece& piece, Take take) const {
    for (std::size_t begin = piece.begin; begin < piece.end;) {
      const std::size_t unit_end = (begin / unit_bytes_ + 1) * unit_bytes_;
      const std::size_t end = std::min(piece.end, unit_end);
      take((piece.page * kSimPageBytes + begin) / unit_bytes_,
           SimPiece{.page = piece.page, .begin = begin, .end = end, .bytes = piece.bytes});
      begin = end;
    }
  }

  const std::uint64_t unit_bytes_;
  std::map<std::uint64_t, State> units_;
};

SimPagePointer flipped(const SimPagePointer& page, std::size_t at, unsigned bit) {
  auto changed = page ? std::make_shared<SimPage>(*page) : std::make_shared<SimPage>();
  (*changed)[at] ^= std::byte{1} << bit;
  return changed;
}

}  // namespace

std::uint64_t SimImage::allocated_bytes() const {
  const auto beyond = std::distance(pages_.lower_bound(reserved_pages_), pages_.end());
  return (reserved_pages_ + static_cast<std::uint64_t>(beyond)) * kSimPageBytes;
}

std::uint64_t SimImage::pages_missing(std::uint64_t offset, std::uint64_t bytes) const {
  std::uint64_t missing = 0;
  for (std::uint64_t page = std::max(offset / kSimPageBytes, reserved_pages_);
       page < pages_of(offset + bytes); ++page) {
    if (!pages_.contains(page)) ++missing;
  }
  return missing;
}

void SimImage::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::size_t begin = offset % kSimPageBytes;
    const std::size_t part = std::min<std::size_t>(out.size(), kSimPageBytes - begin);
    const auto page = pages_.find(offset / kSimPageBytes);
    if (page == pages_.end()) {
      std::memset(out.data(), 0, part);
    } else {
      std::memcpy(out.data(), page->second->data() + begin, part);
    }
    out = out.subspan(part);
    offset += part;
  }
}

void SimImage::put(const SimPiece& piece) {
  SimPagePointer& page = pages_[piece.page];
  if (piece.begin == 0 && piece.end == kSimPageBytes) {
    page = piece.bytes;
    return;
  }
  auto changed = page ? std::make_shared<SimPage>(*page) : std::make_shared<SimPage>();
  std::memcpy(changed->data() + piece.begin, piece.bytes->data() + piece.begin,
              piece.end - piece.begin);
  page = std::move(changed);
}

void SimImage::reserve(std::uint64_t bytes) {
  reserved_pages_ = std::max(reserved_pages_, pages_of(bytes));
  grow(bytes);
}

void SimImage::set_length(std::uint64_t bytes) {
  bytes_ = bytes;
  reserved_pages_ = std::min(reserved_pages_, pages_of(bytes));
  pages_.erase(pages_.lower_bound(pages_of(bytes)), pages_.end());
  const std::size_t tail = bytes % kSimPageBytes;
  const auto last = pages_.find(bytes / kSimPageBytes);
  if (tail == 0 || last == pages_.end()) return;
  auto changed = std::make_shared<SimPage>(*last->second);
  std::fill(changed->begin() + static_cast<std::ptrdiff_t>(tail), changed->end(), std::byte{0});
  last->second = std::move(changed);
}

void SimImage::flip(std::uint64_t offset, unsigned bit) {
  if (offset >= bytes_) return;
  SimPagePointer& page = pages_[offset / kSimPageBytes];
  page = flipped(page, offset % kSimPageBytes, bit);
}

SimContent::Change SimContent::make_write(std::uint64_t sequence, std::uint64_t offset,
                                          std::span<const std::byte> memory) {
  Change change{.sequence = sequence, .end = offset + memory.size(), .pieces = {}};
  while (!memory.empty()) {
    const std::size_t begin = offset % kSimPageBytes;
    const std::size_t part = std::min<std::size_t>(memory.size(), kSimPageBytes - begin);
    auto page = std::make_shared<SimPage>();
    std::memcpy(page->data() + begin, memory.data(), part);
    change.pieces.push_back({.page = offset / kSimPageBytes,
                             .begin = begin,
                             .end = begin + part,
                             .bytes = std::move(page)});
    memory = memory.subspan(part);
    offset += part;
  }
  return change;
}

void SimContent::write(std::uint64_t sequence, std::uint64_t offset,
                       std::span<const std::byte> memory) {
  changes_.push_back(make_write(sequence, offset, memory));
  for (const SimPiece& piece : changes_.back().pieces) now_.put(piece);
  now_.grow(changes_.back().end);
}

void SimContent::write_in_flight(std::uint64_t sequence, std::uint64_t offset,
                                 std::span<const std::byte> memory) {
  changes_.push_back(make_write(sequence, offset, memory));
}

void SimContent::reserve(std::uint64_t sequence, std::uint64_t bytes) {
  changes_.push_back({.sequence = sequence, .type = Type::reserve, .end = bytes, .pieces = {}});
  now_.reserve(bytes);
}

void SimContent::truncate(std::uint64_t sequence, std::uint64_t bytes) {
  changes_.push_back({.sequence = sequence, .type = Type::truncate, .end = bytes, .pieces = {}});
  now_.set_length(bytes);
}

void SimContent::sync(std::uint64_t up_to, Rng& rng) {
  const auto last = std::ranges::upper_bound(changes_, up_to, {}, &Change::sequence);
  for (auto change = changes_.begin(); change != last; ++change) {
    switch (change->type) {
      case Type::write:
        for (const SimPiece& piece : change->pieces) {
          if (!change->doubtful || rng.chance(0.5)) durable_.put(piece);
        }
        durable_.grow(change->end);
        break;
      case Type::reserve:
        durable_.reserve(change->end);
        break;
      case Type::truncate:
        durable_.set_length(change->end);
        break;
    }
  }
  changes_.erase(changes_.begin(), last);
}

void SimContent::sync_failed(std::uint64_t up_to) {
  for (Change& change : changes_) change.doubtful = change.doubtful || change.sequence <= up_to;
}

SimImage SimContent::after_loss(LossMode mode, Rng& rng) const {
  SimImage image = durable_;
  if (mode == LossMode::drop || changes_.empty()) return image;
  const bool new_length = mode == LossMode::keep || rng.chance(0.5);
  KeptPrefixes prefixes(rng.chance(0.5) ? kSimSectorBytes : kSimPageBytes);
  if (mode == LossMode::torn) {
    for (const Change& change : changes_) {
      for (const SimPiece& piece : change.pieces) prefixes.count(piece);
    }
    prefixes.decide(rng);
  }
  std::uint64_t length = durable_.bytes();  // With every change.
  for (const Change& change : changes_) {
    switch (change.type) {
      case Type::write: {
        length = std::max(length, change.end);
        const bool kept = mode == LossMode::keep || rng.chance(0.5);
        for (const SimPiece& piece : change.pieces) {
          if (mode == LossMode::torn) {
            prefixes.put_kept(piece, image);
          } else if (kept) {
            image.put(piece);
          }
        }
        break;
      }
      case Type::reserve:
        length = std::max(length, change.end);
        if (new_length) image.reserve(change.end);
        break;
      case Type::truncate:
        length = change.end;
        if (new_length) image.set_length(change.end);
        break;
    }
  }
  image.set_length(new_length ? length : durable_.bytes());
  return image;
}

void SimContent::flip(std::uint64_t offset, unsigned bit) {
  now_.flip(offset, bit);
  durable_.flip(offset, bit);
  const std::size_t at = offset % kSimPageBytes;
  for (Change& change : changes_) {
    for (SimPiece& piece : change.pieces) {
      if (piece.page == offset / kSimPageBytes && piece.begin <= at && at < piece.end)
        piece.bytes = flipped(piece.bytes, at, bit);
    }
  }
}

void SimContent::cut(std::uint64_t bytes) {
  now_.set_length(bytes);
  durable_ = now_;
  changes_.clear();
}

}  // namespace tiercel
