#include "replay/engine_model.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "replay/virtual_time.h"

namespace tiercel {

EngineModel::EngineModel(const Options& options, const Placement& placement, const Trace& trace,
                         std::span<const std::int64_t> arrivals_ns, std::span<const BlockId> names,
                         Core& core, EventQueue& events)
    : options_(options),
      placement_(placement),
      trace_(trace),
      names_(names),
      core_(core),
      events_(events),
      lanes_(placement),
      outcomes_(trace.requests.size()),
      states_(trace.requests.size()) {
  for (std::uint32_t r = 0; r < trace.requests.size(); ++r) {
    outcomes_[r].arrival_ns = arrivals_ns[r];
    outcomes_[r].turn = trace.requests[r].turn;
    events_.push({.time_ns = arrivals_ns[r], .type = EventType::arrival, .request = r},
                 EventLane::arrivals);
  }
}

std::uint32_t EngineModel::input_blocks(std::uint32_t request) const {
  const std::uint64_t tokens = trace_.requests[request].input_tokens;
  return static_cast<std::uint32_t>((tokens + options_.block_tokens - 1) / options_.block_tokens);
}

// The named blocks of a request. A format may name full blocks only; its partial tail is then a private block.
std::span<const BlockId> EngineModel::chain(std::uint32_t request) const {
  if (!options_.sharing) return {};
  const Request& r = trace_.requests[request];
  return names_.subspan(r.block_first, std::min(r.block_count, input_blocks(request)));
}

// A full hit recomputes its last token: the engine needs its logits.
std::uint64_t EngineModel::prefill_tokens(std::uint32_t request) const {
  const std::uint64_t input = trace_.requests[request].input_tokens;
  const std::uint64_t matched =
      static_cast<std::uint64_t>(states_[request].prefix_blocks) * options_.block_tokens;
  return matched >= input ? std::min<std::uint64_t>(input, 1) : input - matched;
}

void EngineModel::handle(const Event& event) {
  now_ns_ = event.time_ns;
  if (event.type == EventType::arrival) return arrive(event);
  if (states_[event.request].life != event.life) return;
  switch (event.type) {
    case EventType::wait_limit:
      return give_up_waiting(event);
    case EventType::prefill_done:
      return finish_prefill(event);
    case EventType::token_block:
      return grow(event);
    case EventType::decode_done:
      return finish_decode(event);
    case EventType::transfer_done:
    case EventType::wakeup:
    case EventType::arrival:
      TIERCEL_CHECK(false);
  }
}

void EngineModel::arrive(const Event& event) {
  if (input_blocks(event.request) > options_.hot_blocks) {
    outcomes_[event.request].fate = Fate::too_large;
    states_[event.request].phase = Phase::over;
    return;
  }
  queue_.push_back(event.request);
  events_.push({.time_ns = after_ns(event.time_ns, placement_.wait_limit_ns),
                .type = EventType::wait_limit,
                .request = event.request,
                .life = states_[event.request].life},
               EventLane::limits);
}

void EngineModel::give_up_waiting(const Event& event) {
  State& state = states_[event.request];
  if (state.phase != Phase::waiting) return;
  std::erase(queue_, event.request);
  ++state.life;
  state.phase = Phase::over;
  outcomes_[event.request].fate = Fate::rejected;
  outcomes_[event.request].wait_ns = event.time_ns - outcomes_[event.request].arrival_ns;
}

void EngineModel::admit_waiting(std::int64_t now_ns) {
  now_ns_ = now_ns;
  while (!queue_.empty() && try_admit(queue_.front(), now_ns)) queue_.pop_front();
}

bool EngineModel::try_admit(std::uint32_t request, std::int64_t now_ns) {
  State& state = states_[request];
  RequestOutcome& outcome = outcomes_[request];
  const auto blocks = chain(request);
  auto admission = core_.admit(blocks, input_blocks(request));
  if (!admission) return false;

  if (!state.counted) {  // Hits are counted once, at the first admission.
    state.counted = true;
    hits_.hot += admission->hot_hits;
    hits_.warm += admission->warm_hits;
    hits_.cold += admission->cold_hits;
    miss_ += trace_.requests[request].block_count -
             std::min(admission->hits(), trace_.requests[request].block_count);
  }
  ++state.life;
  state.admitted_ns = now_ns;
  state.prefix_blocks = admission->hits();
  state.held_blocks = input_blocks(request);
  state.owned.assign(blocks.size(), false);
  std::fill_n(state.owned.begin(), state.prefix_blocks, true);
  state.computed = std::move(admission->computed);
  state.real_begin_ns = state.real_end_ns = 0;
  running_.push_back(request);
  outcome.wait_ns = now_ns - outcome.arrival_ns;
  outcome.refill_ns = 0;
  outcome.refill_tier = admission->cold_hits > 0   ? RefillTier::cold
                        : admission->warm_hits > 0 ? RefillTier::warm
                                                   : RefillTier::none;
  state.pending_loads = static_cast<std::uint32_t>(admission->pending.size());
  for (const BlockId id : admission->pending) wait_for(id, request);
  state.phase = Phase::loading;
  if (state.pending_loads == 0) loads_over(request, now_ns);
  return true;
}

void EngineModel::wait_for(BlockId id, std::uint32_t request) {
  if (id >= first_waiter_.size()) first_waiter_.resize(id + id / 2 + 64, kNoWaiter);
  if (free_waiters_.empty()) {
    free_waiters_.push_back(static_cast<std::uint32_t>(waiters_.size()));
    waiters_.emplace_back();
  }
  const std::uint32_t waiter = free_waiters_.back();
  free_waiters_.pop_back();
  waiters_[waiter] = {.request = request, .life = states_[request].life, .next = first_waiter_[id]};
  first_waiter_[id] = waiter;
}

void EngineModel::block_loaded_really(BlockId id, std::int64_t begin_ns, std::int64_t end_ns) {
  for (std::uint32_t w = first_waiter(id); w != kNoWaiter; w = waiters_[w].next) {
    State& state = states_[waiters_[w].request];
    if (state.life != waiters_[w].life) continue;
    if (state.real_begin_ns == 0 || begin_ns < state.real_begin_ns) state.real_begin_ns = begin_ns;
    state.real_end_ns = std::max(state.real_end_ns, end_ns);
  }
}

void EngineModel::block_ready(BlockId id) {
  // Nobody is left where whoever wanted it was preempted.
  ready_.clear();
  for (std::uint32_t w = first_waiter(id); w != kNoWaiter; w = waiters_[w].next) {
    ready_.push_back(waiters_[w]);
    free_waiters_.push_back(w);
  }
  if (ready_.empty()) return;
  first_waiter_[id] = kNoWaiter;
  const std::int64_t now_ns = core_.outbox().now_ns();
  for (const Waiter& waiter :
       ready_ | std::views::reverse) {  // In the order in which they began to wait.
    State& state = states_[waiter.request];
    if (state.life != waiter.life || --state.pending_loads > 0) continue;
    outcomes_[waiter.request].refill_ns = now_ns - state.admitted_ns;
    loads_over(waiter.request, now_ns);
  }
}

void EngineModel::loads_over(std::uint32_t request, std::int64_t now_ns) {
  states_[request].phase = Phase::ready;
  lanes_.enqueue(request);
  start_prefills(now_ns);
}

void EngineModel::start_prefills(std::int64_t now_ns) {
  while (const auto request = lanes_.next()) {
    State& state = states_[*request];
    state.phase = Phase::prefill;
    const std::uint64_t tokens = prefill_tokens(*request);
    const std::int64_t duration =
        lanes_.duration_ns(tokens, trace_.requests[*request].input_tokens - tokens);
    outcomes_[*request].prefill_ns = duration;
    events_.push({.time_ns = after_ns(now_ns, duration),
                  .type = EventType::prefill_done,
                  .request = *request,
                  .life = state.life});
  }
}

void EngineModel::finish_prefill(const Event& event) {
  State& state = states_[event.request];
  const auto blocks = chain(event.request);
  const auto named = static_cast<std::uint32_t>(blocks.size()) - state.prefix_blocks;
  const auto published =
      core_.publish(blocks, state.prefix_blocks, std::span(state.computed).first(named));
  for (std::size_t i = 0; i < state.computed.size(); ++i) {
    if (i < named && published[i]) {
      state.owned[state.prefix_blocks + i] = true;
    } else {
      state.privates.push_back(state.computed[i]);
    }
  }
  state.computed.clear();
  core_.store_down(blocks);
  state.phase = Phase::decode;
  state.decode_begin_ns = event.time_ns;
  lanes_.release();
  schedule_decode(event.request);
  start_prefills(event.time_ns);
}

// Until the output passes the end of the last block held, or to its own end.
void EngineModel::schedule_decode(std::uint32_t request) {
  const State& state = states_[request];
  const Request& r = trace_.requests[request];
  const std::uint64_t held_tokens =
      static_cast<std::uint64_t>(state.held_blocks) * options_.block_tokens;
  const std::uint64_t passing_token = held_tokens - r.input_tokens + 1;  // 1-based, of the output.
  const bool ends = passing_token > r.output_tokens;
  const std::uint64_t token = ends ? r.output_tokens : passing_token;
  events_.push({.time_ns = after_ns(state.decode_begin_ns,
                                    times_ns(token, placement_.engine.decode_per_token_ns)),
                .type = ends ? EventType::decode_done : EventType::token_block,
                .request = request,
                .life = state.life});
}

void EngineModel::grow(const Event& event) {
  State& state = states_[event.request];
  for (;;) {
    if (const auto place = core_.take_private()) {
      state.privates.push_back(*place);
      ++state.held_blocks;
      return schedule_decode(event.request);
    }
    const std::uint32_t victim = youngest();
    if (victim == event.request && running_.size() == 1) {
      return leave_running(event.request, Fate::too_large);
    }
    preempt(victim, event.time_ns);
    if (victim == event.request) return;
  }
}

// Last admitted; admitted at the same time, later in the file.
std::uint32_t EngineModel::youngest() const {
  return *std::ranges::max_element(running_, {}, [this](std::uint32_t request) {
    return std::pair(states_[request].admitted_ns, request);
  });
}

void EngineModel::preempt(std::uint32_t request, std::int64_t now_ns) {
  State& state = states_[request];
  ++outcomes_[request].preemptions;
  free_memory(request);
  std::erase(running_, request);
  if (state.phase == Phase::ready) lanes_.withdraw(request);
  const bool had_lane = state.phase == Phase::prefill;
  ++state.life;
  state.phase = Phase::waiting;
  queue_.push_front(request);
  events_.push({.time_ns = after_ns(now_ns, placement_.wait_limit_ns),
                .type = EventType::wait_limit,
                .request = request,
                .life = state.life},
               EventLane::limits);
  if (had_lane) {
    lanes_.release();
    start_prefills(now_ns);
  }
}

void EngineModel::free_memory(std::uint32_t request) {
  State& state = states_[request];
  const auto blocks = chain(request);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    if (state.owned[i]) core_.disown(blocks[i]);
  }
  for (const Place& place : state.computed) core_.free_private(place);
  for (const Place& place : state.privates) core_.free_private(place);
  state.owned.clear();
  state.computed.clear();
  state.privates.clear();
}

void EngineModel::finish_decode(const Event& event) {
  leave_running(event.request, Fate::completed);
}

void EngineModel::leave_running(std::uint32_t request, Fate fate) {
  free_memory(request);
  std::erase(running_, request);
  State& state = states_[request];
  ++state.life;
  state.phase = Phase::over;
  outcomes_[request].fate = fate;
  outcomes_[request].run_ns = now_ns_ - state.admitted_ns;
}

void EngineModel::write_outcome(ReplayOutcome& outcome) const {
  outcome.requests = outcomes_;
  outcome.hits = hits_;
  outcome.miss = miss_;
  if (outcome.driver != "drive") return;
  outcome.measured.emplace();
  for (std::size_t r = 0; r < states_.size(); ++r) {
    const State& state = states_[r];
    if (outcomes_[r].refill_ns == 0 || state.real_end_ns == 0) continue;
    auto& seconds = outcomes_[r].refill_tier == RefillTier::cold ? outcome.measured->cold_s
                                                                 : outcome.measured->warm_s;
    seconds.push_back(static_cast<double>(state.real_end_ns - state.real_begin_ns) * 1e-9);
  }
}

}  // namespace tiercel
