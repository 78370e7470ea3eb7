#include "cache/tier_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"

namespace tiercel {
namespace {

constexpr std::int64_t kPoll_ns = 100'000'000;
constexpr std::uint64_t kTagAside = 0;          // Seals, reclaims, checkpoints: no op of the core.
constexpr std::uint64_t kTagMove = 1ULL << 63;  // The halves of a move.
constexpr std::size_t kScratchKept = 256;
constexpr std::size_t kSideErrorsKept = 16;
alignas(kRecordAlignment) constexpr std::array<std::byte, kRecordAlignment> kZeros{};

bool is_outside(TierId tier) { return tier == TierId::caller || tier == TierId::hot; }

}  // namespace

std::unique_ptr<TierExecutor::Scratch> TierExecutor::take_scratch() {
  if (free_scratch_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(free_scratch_.back());
  free_scratch_.pop_back();
  return scratch;
}

void TierExecutor::begin(const TierWork& work) {
  const Action& action = work.action;
  switch (action.type) {
    case ActionType::compute:
    case ActionType::drop:
      return;  // The place is the core's to give away again; nothing happens to its bytes.
    case ActionType::seal:
      return submit(*options_.cold,
                    {.type = OpType::seal, .place = action.source, .tag = kTagAside});
    case ActionType::reclaim:
      return submit(*options_.cold,
                    {.type = OpType::reclaim, .place = action.source, .tag = kTagAside});
    case ActionType::store:
    case ActionType::load:
    case ActionType::move:
    case ActionType::commit:
      break;
  }
  running_[action.op];
  if (action.type == ActionType::commit) {
    submit(*options_.cold, {.type = OpType::commit, .tag = action.op});
  } else if (action.type == ActionType::move) {
    begin_move(work);
  } else if (action.type == ActionType::load) {
    begin_load(work);
  } else if (is_outside(action.from)) {
    begin_store_from_outside(work);
  } else {
    submit(*options_.cold, {.type = OpType::store,
                            .key = action.key,
                            .fingerprint = work.fingerprint,
                            .place = action.target,
                            .memory = {host_piece(warm_record(action.source))},
                            .tag = action.op});
  }
}

void TierExecutor::begin_store_from_outside(const TierWork& work) {
  const Action& action = work.action;
  Running& running = running_[action.op];
  running.scratch = take_scratch();
  Checksum64 sum;
  std::uint64_t bytes = 0;
  for (const Piece& piece : work.memory) {
    sum.update({piece.pointer, piece.bytes});
    bytes += piece.bytes;
  }
  RecordHead head = work.head;
  head.key = action.key;
  head.fingerprint = work.fingerprint;
  head.chunks = {Chunk{.plain_bytes = bytes, .stored_bytes = bytes, .checksum = sum.finish()}};
  if (const auto encoded = encode_head(head, running.scratch->head); !encoded) {
    return finish(action.op, Outcome::error, encoded.error());
  }
  ScatterList memory{host_piece(std::span<std::byte>(running.scratch->head))};
  memory.insert(memory.end(), work.memory.begin(), work.memory.end());
  memory.push_back(host_piece(
      std::span<const std::byte>(kZeros).first(align_up(bytes, kRecordAlignment) - bytes)));
  submit(*options_.warm, {.type = OpType::store,
                          .key = action.key,
                          .fingerprint = work.fingerprint,
                          .place = action.target,
                          .memory = std::move(memory),
                          .tag = action.op});
}

void TierExecutor::begin_load(const TierWork& work) {
  const Action& action = work.action;
  ScatterList memory;
  if (is_outside(action.to)) {
    Running& running = running_[action.op];
    running.scratch = take_scratch();
    running.payload_bytes = total_bytes(work.memory);
    const std::uint64_t padding =
        align_up(running.payload_bytes, kRecordAlignment) - running.payload_bytes;
    memory.push_back(host_piece(std::span<std::byte>(running.scratch->head)));
    memory.insert(memory.end(), work.memory.begin(), work.memory.end());
    memory.push_back(host_piece(std::span<std::byte>(running.scratch->padding).first(padding)));
  } else {
    memory.push_back(host_piece(warm_record(action.target)));
  }
  submit(action.from == TierId::cold ? *options_.cold : *options_.warm,
         {.type = OpType::load,
          .key = action.key,
          .fingerprint = work.fingerprint,
          .place = action.source,
          .memory = std::move(memory),
          .tag = action.op});
}

// Read, then written in its turn: a store that follows lies behind it in the segment, so the write cannot wait for later.
void TierExecutor::begin_move(const TierWork& work) {
  const Action& action = work.action;
  const std::span<std::byte> record = options_.move_buffer.first(action.source.bytes);
  Op op{.type = OpType::load,
        .key = action.key,
        .fingerprint = work.fingerprint,
        .place = action.source,
        .memory = {host_piece(record)},
        .tag = kTagMove};
  auto outcome = run_to_end(op);
  const bool read = outcome && *outcome == Outcome::delivered;
  if (!read && !(options_.rebuild && options_.rebuild(action, record))) {
    return finish(action.op, Outcome::error,
                  outcome ? fail(Errc::corrupt, "nothing lies there") : outcome.error());
  }
  op.type = OpType::store;
  op.place = action.target;
  outcome = run_to_end(op);  // The next move uses the buffer again.
  finish(action.op, outcome ? *outcome : Outcome::error, outcome ? Error{} : outcome.error());
}

// Submits and waits for its end; the Done of the op is taken back, what else completes meanwhile is kept.
Result<Outcome> TierExecutor::run_to_end(const Op& op) {
  running_[op.tag];
  submit(*options_.cold, op);
  const std::int64_t deadline_ns = options_.clock->now_ns() + kAnswerWithin_ns;
  for (;;) {
    const auto found = std::ranges::find(done_, op.tag, &TierDone::op);
    if (found != done_.end()) {
      const TierDone done = std::move(*found);
      done_.erase(found);
      if (done.outcome == Outcome::error) return done.error;
      return done.outcome;
    }
    if (options_.clock->now_ns() > deadline_ns) {
      running_.erase(op.tag);
      return fail(Errc::io,
                  fmt::format("{}: no answer for {} s", options_.cold->capabilities().name,
                              kAnswerWithin_ns / 1'000'000'000));
    }
    take(*options_.cold, kPoll_ns);
  }
}

Result<void> TierExecutor::checkpoint() {
  TIERCEL_TRY(const Outcome outcome, run_to_end({.type = OpType::checkpoint, .tag = kTagMove}));
  static_cast<void>(outcome);  // An error comes out of the line above.
  return {};
}

void TierExecutor::submit(Tier& tier, const Op& op) {
  const std::int64_t deadline_ns = options_.clock->now_ns() + kAnswerWithin_ns;
  for (;;) {
    const auto ticket = tier.submit(std::span(&op, 1));
    if (ticket) break;
    if (ticket.error().code != Errc::busy || options_.clock->now_ns() > deadline_ns) {
      return finish(op.tag, Outcome::error, ticket.error());
    }
    take(tier, kPoll_ns);
  }
}

void TierExecutor::take(Tier& tier, std::int64_t timeout_ns) {
  completions_.clear();
  timeout_ns > 0 ? tier.wait(completions_, timeout_ns) : tier.poll(completions_);
  for (Completion& completion : completions_) {
    finish(completion.tag, completion.outcome, std::move(completion.error));
  }
}

void TierExecutor::finish(std::uint64_t op, Outcome outcome, Error error) {
  const auto node = running_.extract(op);
  if (node.empty()) {
    if (op == kTagAside && outcome == Outcome::error && side_errors_.size() < kSideErrorsKept) {
      side_errors_.push_back(std::move(error));
    }
    return;  // Something aside, or the answer to what was given up.
  }
  Running& running = node.mapped();
  if (running.payload_bytes > 0 && outcome == Outcome::delivered) {
    // The tier has verified the record; that it is as long as its reader believes, only the reader can tell.
    const auto head = parse_head(running.scratch->head);
    if (!head || head->chunks.size() != 1 || head->chunks[0].plain_bytes != running.payload_bytes) {
      outcome = Outcome::error;
      error = fail(Errc::corrupt,
                   fmt::format("the record is not one chunk of {} bytes", running.payload_bytes));
    }
  }
  if (running.scratch && free_scratch_.size() < kScratchKept)
    free_scratch_.push_back(std::move(running.scratch));
  done_.push_back({.op = op, .outcome = outcome, .error = std::move(error)});
}

void TierExecutor::submit_checkpoint_if_due() {
  if (!options_.checkpoints || !options_.cold->checkpoint_due()) return;
  const Op op{.type = OpType::checkpoint, .tag = kTagAside};
  const auto ticket = options_.cold->submit(std::span(&op, 1));
  static_cast<void>(ticket);  // Busy: it is still due at the next call.
}

void TierExecutor::collect(std::vector<TierDone>& out, std::int64_t timeout_ns) {
  if (options_.warm != nullptr) take(*options_.warm, 0);
  if (options_.cold != nullptr)
    take(*options_.cold, done_.empty() && !running_.empty() ? timeout_ns : 0);
  if (options_.cold != nullptr) submit_checkpoint_if_due();
  std::ranges::move(done_, std::back_inserter(out));
  done_.clear();
}

}  // namespace tiercel
