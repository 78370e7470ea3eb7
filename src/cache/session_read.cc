// SessionStore, the part that reads: a window of loads under way, their ends told in order.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/sha256.h"
#include "cache/session_store_impl.h"

namespace tiercel {
namespace {

// What is asked for ahead: what keeps the disk busy (tier/nvme_tier.h), and no more, so that a deadline bites.
constexpr std::size_t kWindowOps = 256;
constexpr std::uint64_t kWindowBytes = 32 * kMiB;

}  // namespace

// A load under way, or over and waiting for those before it.
struct SessionStore::Impl::Loading {
  std::unique_ptr<std::byte[]> scratch;  // The record's head, and what pads its last page.
  std::span<std::byte> head, padding;
  bool over = false;
  Outcome outcome = Outcome::error;
  Error error;
};

Result<void> SessionStore::Impl::read(const SessionManifest& manifest,
                                      std::span<const std::size_t> which,
                                      std::span<const ScatterList> memory, std::int64_t deadline_ns,
                                      const OnEnd& on_block) {
  if (which.size() != memory.size())
    return fail(Errc::invalid, fmt::format("sessions: {} blocks and {} destinations", which.size(),
                                           memory.size()));
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (which[i] >= manifest.blocks.size())
      return fail(Errc::invalid, fmt::format("sessions: block {} of the {} of \"{}\"", which[i],
                                             manifest.blocks.size(), manifest.name));
    const SessionBlock& block = manifest.blocks[which[i]];
    if (total_bytes(memory[i]) != block.bytes)
      return fail(Errc::invalid,
                  fmt::format("sessions: block {} of \"{}\" has {} bytes, its destination {}",
                              block.index, manifest.name, block.bytes, total_bytes(memory[i])));
    wanted.push_back({.key = block.key, .bytes = block.bytes, .memory = memory[i]});
  }
  TIERCEL_TRY(const Turn turn, take_turn(deadline_ns));
  return stream(manifest, wanted, deadline_ns, on_block);
}

Result<void> SessionStore::Impl::stream(const SessionManifest& manifest,
                                        std::span<const Wanted> wanted, std::int64_t deadline_ns,
                                        const OnEnd& on_end) {
  std::deque<Loading> window;
  std::size_t first = 0, next = 0;  // The window holds [first, next).
  std::uint64_t window_bytes = 0;
  std::vector<Op> ops;
  std::vector<Completion> completions;
  const auto is_late = [&] { return deadline_ns != 0 && options_.clock->now_ns() > deadline_ns; };
  const auto has_room = [&](std::uint64_t bytes) {
    return window.empty() || (window.size() < kWindowOps && window_bytes + bytes <= kWindowBytes);
  };
  while (first < wanted.size()) {
    ops.clear();
    // In batches, for adjacent records that are asked for together are read together.
    const bool refill = window.size() <= kWindowOps / 2 && window_bytes <= kWindowBytes / 2;
    while (refill && next < wanted.size() && has_room(wanted[next].bytes)) {
      Loading& loading = window.emplace_back();
      window_bytes += wanted[next].bytes;
      if (is_late()) {
        end_late(loading);
      } else if (auto op = begin_load(manifest, wanted[next], loading)) {
        op->tag = next;
        op->deadline_ns = deadline_ns;
        ops.push_back(std::move(*op));
      }
      ++next;
    }
    auto outcome = io_->submit(ops);
    completions.clear();
    if (outcome && !window.front().over) outcome = io_->wait(completions);
    if (!outcome) {  // A disk that does not answer: what it may still write to must stay.
      for (Loading& loading : window) abandoned_.push_back(std::move(loading.scratch));
      return outcome;
    }
    for (Completion& completion : completions) {
      Loading& loading = window[completion.tag - first];
      end_load(wanted[completion.tag], std::move(completion), loading);
      if (is_late() && loading.outcome == Outcome::delivered) end_late(loading);
    }
    for (; !window.empty() && window.front().over; ++first) {
      on_end(first, window.front().outcome, window.front().error);
      window_bytes -= wanted[first].bytes;
      window.pop_front();
    }
  }
  return {};
}

void SessionStore::Impl::end_late(Loading& loading) {
  loading.over = true;
  loading.outcome = Outcome::error;
  loading.error = fail(Errc::cancelled, "sessions: the deadline passed");
}

// nullopt, and the load is over, where there is nothing to be read.
std::optional<Op> SessionStore::Impl::begin_load(const SessionManifest& manifest,
                                                 const Wanted& wanted, Loading& loading) {
  const MutexLock lock(mutex_);
  const SessionLog::Entry* const entry = log_.find(wanted.key);
  if (entry == nullptr || entry->lost || entry->place.bytes != record_bytes(wanted.bytes)) {
    const auto session = sessions_.find(manifest.name);
    const bool still_there =
        session != sessions_.end() && session->second.manifest.version == manifest.version;
    loading.over = true;
    loading.outcome = still_there ? Outcome::error : Outcome::miss;
    if (still_there)
      loading.error = fail(Errc::corrupt, fmt::format("sessions: the record {} of \"{}\" is lost",
                                                      hex(wanted.key), manifest.name));
    return std::nullopt;
  }
  const std::uint64_t padding_bytes = align_up(wanted.bytes, kRecordAlignment) - wanted.bytes;
  // Two pages, and room to begin at one, as direct I/O wants them.
  loading.scratch = std::make_unique<std::byte[]>(3 * kRecordAlignment);
  const auto at = reinterpret_cast<std::uintptr_t>(loading.scratch.get());
  std::byte* const pages = loading.scratch.get() + (align_up(at, kRecordAlignment) - at);
  loading.head = {pages, kRecordAlignment};
  loading.padding = {pages + kRecordAlignment, padding_bytes};
  ScatterList memory{host_piece(loading.head)};
  memory.insert(memory.end(), wanted.memory.begin(), wanted.memory.end());
  memory.push_back(host_piece(loading.padding));
  return Op{.type = OpType::load,
            .key = wanted.key,
            .fingerprint = entry->fingerprint,
            .place = entry->place,
            .memory = std::move(memory)};
}

void SessionStore::Impl::end_load(const Wanted& wanted, Completion completion, Loading& loading) {
  loading.over = true;
  loading.outcome = completion.outcome;
  loading.error = std::move(completion.error);
  if (loading.outcome == Outcome::delivered) {
    // That the record is as long as its reader believes, only the reader can tell.
    const auto head = parse_head(loading.head);
    if (!head || head->chunks.size() != 1 || head->chunks[0].plain_bytes != wanted.bytes) {
      loading.outcome = Outcome::error;
      loading.error = fail(Errc::corrupt, fmt::format("sessions: the record {} is not of {} bytes",
                                                      hex(wanted.key), wanted.bytes));
    }
  } else if (loading.outcome == Outcome::miss) {
    loading.outcome = Outcome::error;
    loading.error =
        fail(Errc::corrupt,
             fmt::format("sessions: nothing lies where the record {} was", hex(wanted.key)));
  }
  if (loading.outcome != Outcome::error || loading.error.code != Errc::corrupt) return;
  note(loading.error.what);
  const MutexLock lock(mutex_);
  log_.lose(wanted.key);
}

Result<std::vector<std::byte>> SessionStore::Impl::read_pieces(const SessionManifest& manifest,
                                                               std::span<const SessionPiece> pieces,
                                                               std::uint16_t kind,
                                                               std::int64_t deadline_ns) {
  std::uint64_t bytes = 0;
  for (const SessionPiece& piece : pieces) bytes += piece.bytes;
  std::vector<std::byte> content(bytes);
  std::vector<Wanted> wanted;
  std::span<std::byte> rest(content);
  for (const SessionPiece& piece : pieces) {
    wanted.push_back(
        {.key = piece.key, .bytes = piece.bytes, .memory = {host_piece(rest.first(piece.bytes))}});
    rest = rest.subspan(piece.bytes);
  }
  std::optional<Error> bad;
  {
    TIERCEL_TRY(const Turn turn, take_turn(deadline_ns));
    TIERCEL_TRY_VOID(stream(
        manifest, wanted, deadline_ns, [&](std::size_t, Outcome outcome, const Error& error) {
          if (outcome == Outcome::miss)
            bad = fail(Errc::invalid, fmt::format("the session \"{}\" is no more as it was listed",
                                                  manifest.name));
          if (outcome == Outcome::error && !bad) bad = error;
        }));
  }
  if (bad) return *bad;
  for (const Wanted& piece : wanted) {
    if (piece_key(kind, {piece.memory[0].pointer, piece.bytes}) != piece.key)
      return fail(
          Errc::corrupt,
          fmt::format("sessions: a piece of \"{}\" is not what its name says", manifest.name));
  }
  return content;
}

Result<void> SessionStore::Impl::read_records(
    std::span<const Key> keys,
    const std::function<Result<void>(std::span<const std::byte>)>& on_record) {
  TIERCEL_TRY(const Turn turn, take_turn(0));
  for (std::size_t first = 0; first < keys.size(); first += io_->buffers()) {
    std::vector<SessionIo::Record> records;
    for (const Key& key : keys.subspan(first, std::min(io_->buffers(), keys.size() - first))) {
      const MutexLock lock(mutex_);
      if (!log_.holds(key))
        return fail(Errc::corrupt, fmt::format("sessions: the record {} is lost", hex(key)));
      const SessionLog::Entry& entry = *log_.find(key);
      records.push_back({.key = key, .fingerprint = entry.fingerprint, .place = entry.place});
    }
    io_->load(records);
    for (const SessionIo::Record& record : records) {
      if (record.completion.outcome != Outcome::delivered) return record.completion.error;
      TIERCEL_TRY_VOID(on_record(record.bytes));
    }
  }
  return {};
}

}  // namespace tiercel
