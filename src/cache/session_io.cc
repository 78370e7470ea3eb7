#include "cache/session_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/checksum.h"
#include "cache/tier_executor.h"

namespace tiercel {
namespace {

constexpr std::int64_t kPoll_ns = 100'000'000;
constexpr std::uint64_t kTagAside = ~0ULL;  // Seals and reclaims.
constexpr std::uint64_t kHeadBytes = record_head_bytes(1);

}  // namespace

std::uint64_t SessionIo::memory_bytes(std::uint64_t record_bytes_max) {
  const std::uint64_t bytes = align_up(record_bytes_max, kArenaAlignment);
  return bytes * std::clamp<std::uint64_t>(kBufferBytesMax / bytes, 2, kBuffersMax);
}

Result<std::unique_ptr<SessionIo>> SessionIo::make(NvmeTier& tier, const Clock& clock) {
  std::unique_ptr<SessionIo> io(new SessionIo(tier, clock));
  const std::uint64_t bytes = align_up(tier.superblock().record_bytes_max, kArenaAlignment);
  const std::uint64_t count = memory_bytes(bytes) / bytes;
  TIERCEL_TRY(io->memory_, Arena::create({.bytes = count * bytes}));
  for (std::size_t i = 0; i < count; ++i) {
    TIERCEL_TRY(const auto buffer, io->memory_->take(bytes));
    io->buffers_.push_back(buffer);
    io->free_.push_back(i);
  }
  return io;
}

std::size_t SessionIo::index_of(std::span<const std::byte> payload) const {
  const auto offset = static_cast<std::uint64_t>(payload.data() - buffers_[0].data());
  return offset / buffers_[0].size();
}

Result<std::span<std::byte>> SessionIo::take(std::uint64_t payload_bytes) {
  TIERCEL_CHECK(record_bytes(payload_bytes) <= buffers_[0].size());
  while (free_.empty() && !store_error_) TIERCEL_TRY_VOID(take_completions());
  if (store_error_) return drain().error();
  if (silent_) return *silent_;
  const std::size_t index = free_.back();
  free_.pop_back();
  return buffers_[index].subspan(kHeadBytes, payload_bytes);
}

void SessionIo::give_back(std::span<std::byte> payload) { free_.push_back(index_of(payload)); }

void SessionIo::retire(const Error& why) {
  if (!silent_) silent_ = fail(Errc::io, fmt::format("sessions: out of use: {}", why.what));
}

Result<void> SessionIo::store(std::span<std::byte> payload, RecordHead head, const Place& place) {
  const std::size_t index = index_of(payload);
  const std::span<std::byte> record = buffers_[index].first(record_bytes(payload.size()));
  std::ranges::fill(record.subspan(kHeadBytes + payload.size()), std::byte{0});
  head.chunks = {Chunk{.plain_bytes = payload.size(),
                       .stored_bytes = payload.size(),
                       .checksum = checksum64(payload)}};
  auto outcome = encode_head(head, record.first(kHeadBytes));
  if (outcome) {
    const Op op{.type = OpType::store,
                .key = head.key,
                .fingerprint = head.fingerprint,
                .place = place,
                .memory = {host_piece(record)},
                .tag = index};
    outcome = submit(std::span(&op, 1));
  }
  if (!outcome) {
    free_.push_back(index);
    return outcome;
  }
  ++storing_;
  return {};
}

// Takes what has ended; waits for something where nothing has.
Result<void> SessionIo::take_completions() {
  completions_.clear();
  TIERCEL_TRY_VOID(wait(completions_));
  for (Completion& completion : completions_) {
    --storing_;
    free_.push_back(completion.tag);
    if (completion.outcome != Outcome::delivered && !store_error_)
      store_error_ = std::move(completion.error);
  }
  return {};
}

Result<void> SessionIo::drain() {
  while (storing_ > 0) TIERCEL_TRY_VOID(take_completions());
  if (!store_error_) return {};
  const Error error = std::move(*store_error_);
  store_error_.reset();
  return error;
}

Result<void> SessionIo::commit() {
  TIERCEL_TRY_VOID(drain());
  const Op op{.type = OpType::commit};
  TIERCEL_TRY_VOID(submit(std::span(&op, 1)));
  completions_.clear();
  TIERCEL_TRY_VOID(wait(completions_));
  if (completions_.front().outcome != Outcome::delivered) return completions_.front().error;
  if (tier_.checkpoint_due()) aside(OpType::checkpoint, 0);
  return {};
}

// Not waited for: the completions are passed over, here at once, for any number may come in a row and what nobody takes counts as
// under way. Refused are a seal of a segment that nothing came to be stored in (invalid) and what finds the queue full (busy); a
// reclaim that is refused would break the account.
void SessionIo::aside(OpType type, std::uint32_t segment) {
  if (silent_) return;
  tier_.poll(ended_);
  const Op op{.type = type, .place = {.segment = segment}, .tag = kTagAside};
  const auto outcome = submit(std::span(&op, 1));
  TIERCEL_CHECK(outcome || type != OpType::reclaim);
  tier_.poll(ended_);
  std::erase_if(ended_, [](const Completion& one) { return one.tag == kTagAside; });
}

void SessionIo::load(std::span<Record> records) {
  TIERCEL_CHECK(storing_ == 0 && records.size() <= buffers_.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    records[i].bytes = buffers_[i].first(records[i].place.bytes);
  run(records, OpType::load);
}

void SessionIo::store(std::span<Record> records) { run(records, OpType::store); }

void SessionIo::run(std::span<Record> records, OpType type) {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].completion = {};
    ops.push_back({.type = type,
                   .key = records[i].key,
                   .fingerprint = records[i].fingerprint,
                   .place = records[i].place,
                   .memory = {host_piece(records[i].bytes)},
                   .tag = i});
  }
  auto outcome = submit(ops);
  for (std::size_t left = ops.size(); outcome && left > 0;) {
    completions_.clear();
    outcome = wait(completions_);
    left -= completions_.size();
    for (Completion& completion : completions_) {
      Completion& own = records[completion.tag].completion;
      own = std::move(completion);
      if (own.outcome == Outcome::miss) own.error = fail(Errc::corrupt, "nothing lies there");
    }
  }
  if (outcome) return;
  for (Record& record : records) {
    if (record.completion.ticket != 0) continue;
    record.completion = {.outcome = Outcome::error, .error = outcome.error()};
  }
}

Result<void> SessionIo::submit(std::span<const Op> ops) {
  if (silent_) return *silent_;
  if (ops.empty()) return {};
  TIERCEL_TRY(const Ticket ticket, tier_.submit(ops));
  static_cast<void>(ticket);
  return {};
}

Result<void> SessionIo::wait(std::vector<Completion>& out) {
  if (silent_) return *silent_;
  const std::int64_t until_ns = clock_.now_ns() + kAnswerWithin_ns;
  for (;;) {
    if (ended_.empty()) tier_.wait(ended_, kPoll_ns);
    std::erase_if(ended_, [](const Completion& one) { return one.tag == kTagAside; });
    std::ranges::move(ended_, std::back_inserter(out));
    const bool any = !ended_.empty();
    ended_.clear();
    if (any) return {};
    if (clock_.now_ns() > until_ns) {
      silent_ = fail(Errc::io, fmt::format("sessions: the disk gave no answer for {} s",
                                           kAnswerWithin_ns / 1'000'000'000));
      return *silent_;
    }
  }
}

}  // namespace tiercel
