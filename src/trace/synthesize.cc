#include "trace/synthesize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "trace/limits.h"
#include "trace/sessions.h"
#include "trace/trace_builder.h"

namespace tiercel {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

// One point of a quantile function.
struct Quantile {
  double q;
  double value;
};

// Source of the figures without another one: measured on the Mooncake conversation trace; docs/formats/traces.md lists them.
constexpr std::uint32_t kRequests = 12'031;
constexpr std::uint32_t kBlockTokens = 512;
constexpr double kRequestsPerS = 3.40;

// Prompt of a session's first turn. The published quantiles are over all turns; the later turns of a session grow, so
// these lie a little lower. Below the median nothing is published but the mean, which the first two points meet.
constexpr Quantile kFirstPrompt[] = {{0.00, 880},    {0.25, 1'600},  {0.50, 6'400},  {0.90, 25'800},
                                     {0.95, 37'900}, {0.99, 84'000}, {1.00, 126'195}};
constexpr std::uint32_t kPromptTokensMax = 126'195;

// Answers: the published quantiles; the two lowest points again meet the mean.
constexpr Quantile kAnswer[] = {{0.00, 1},   {0.25, 105},  {0.50, 350}, {0.90, 597},
                                {0.95, 698}, {0.99, 1119}, {1.00, 2000}};

// What a user adds between an answer and the next prompt. Fitted: mean input by turn.
constexpr double kQuestionTokensMedian = 60;
constexpr double kQuestionTokensSigma = 1.6;

// Gap between turns: p50 123 s, p90 474 s; the log-normal through both has p99 1,424 s (published 1,462 s). The end of
// the trace cuts long gaps off, hence the slightly wider one.
constexpr double kGapSMedian = 130;
constexpr double kGapSigma = 1.12;

// Sessions: a quarter has several turns, three on average, with a long tail. Fitted: sessions, requests in multi-turn
// sessions and turns p99, as the end of the trace leaves them.
constexpr double kSecondTurn = 0.27;
constexpr double kChattySession = 0.10;
constexpr double kNextTurnChatty = 0.86;
constexpr double kNextTurnOther = 0.42;

// Bursts: the rate wanders by this much (log standard deviation) and forgets over a minute. Fitted: p95 and maximum of
// the 10 s windows.
constexpr double kRateSigma = 0.21;
constexpr double kRateStepS = 5;
constexpr double kRateMemory = 0.92;  // Per step.

// Sharing beyond the system prompt, which is the first block of every session: some sessions open with part of what an
// earlier one opened with (a document, a template). Fitted: infinite hit ratio and mean hits of first turns.
constexpr double kOpensLikeAnother = 0.10;
constexpr std::size_t kOpeningsRemembered = 2'000;

double at_quantile(std::span<const Quantile> points, double q, bool logarithmic) {
  std::size_t i = 1;
  while (i + 1 < points.size() && q > points[i].q) ++i;
  const double part = (q - points[i - 1].q) / (points[i].q - points[i - 1].q);
  const double low = points[i - 1].value, high = points[i].value;
  return logarithmic ? low * std::pow(high / low, part) : low + (high - low) * part;
}

std::uint32_t as_tokens(double value) {
  return static_cast<std::uint32_t>(std::lround(std::max(1.0, value)));
}

// Arrival times: a Poisson process whose rate wanders, stretched so that the mean rate is the published one.
std::vector<std::int64_t> arrival_times(Rng& rng, std::uint32_t count) {
  std::vector<double> at_s;
  at_s.reserve(count);
  double level = rng.normal();
  double now_s = 0, step_end_s = kRateStepS;
  double work = rng.exponential(1);  // Expected arrivals still to pass until the next one.
  while (at_s.size() < count) {
    const double rate = kRequestsPerS * std::exp(kRateSigma * level);
    const double until_s = now_s + work / rate;
    if (until_s < step_end_s) {
      now_s = until_s;
      at_s.push_back(now_s);
      work = rng.exponential(1);
    } else {
      work -= (step_end_s - now_s) * rate;
      now_s = step_end_s;
      step_end_s += kRateStepS;
      level = kRateMemory * level + std::sqrt(1 - kRateMemory * kRateMemory) * rng.normal();
    }
  }
  const double first_s = at_s.front();
  const double stretch =
      at_s.back() > first_s ? (static_cast<double>(count) / kRequestsPerS) / (at_s.back() - first_s)
                            : 1.0;
  std::vector<std::int64_t> at_ns;
  at_ns.reserve(count);
  // Whole milliseconds: a last bit of a logarithm that differs between machines does not reach the trace.
  for (const double s : at_s)
    at_ns.push_back(std::llround((s - first_s) * stretch * 1e3) * kNsPerMs);
  return at_ns;
}

// Uniform numbers of which every run of kStrata covers each of as many equal intervals once, in random order: the
// lengths of a trace of some thousand requests then meet their quantiles with every seed. One thread.
class StratifiedUniform {
 public:
  double next(Rng& rng) {
    if (at_ == order_.size()) refill(rng);
    return (order_[at_++] + rng.uniform()) / kStrata;
  }

 private:
  static constexpr std::uint32_t kStrata = 200;

  void refill(Rng& rng) {
    order_.resize(kStrata);
    std::iota(order_.begin(), order_.end(), 0U);
    for (std::uint32_t i = kStrata - 1; i > 0; --i) std::swap(order_[i], order_[rng.below(i + 1)]);
    at_ = 0;
  }

  std::vector<std::uint32_t> order_;
  std::size_t at_ = 0;
};

// A session between two of its turns.
struct Session {
  std::uint32_t number = 0;
  std::uint32_t turn = 1;
  bool chatty = false;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> ids = {};  // Of the last prompt.
};

class Conversation {
 public:
  explicit Conversation(std::uint64_t seed) : rng_(seed) {}

  Result<Trace> make(std::uint32_t count) {
    for (const std::int64_t at_ns : arrival_times(rng_, count)) {
      Session session =
          waiting_.empty() || waiting_.top().due_ns > at_ns ? open_session() : next_turn();
      const NewRequest request{.arrival_ns = at_ns,
                               .input_tokens = session.input_tokens,
                               .output_tokens = session.output_tokens,
                               .ids = session.ids,
                               .session = session.number};
      TIERCEL_TRY_VOID(builder_.add(request));
      maybe_return(std::move(session), at_ns);
    }
    Trace trace = builder_.finish();
    trace.format = "tiercel";
    trace.block_tokens = kBlockTokens;
    trace.has_blocks = true;
    number_turns(trace, sessions_);
    return trace;
  }

 private:
  struct Waiting {
    std::int64_t due_ns = 0;
    Session session;
    bool operator>(const Waiting& other) const {
      return due_ns != other.due_ns ? due_ns > other.due_ns : session.number > other.session.number;
    }
  };

  Session open_session() {
    Session session{
        .number = sessions_++,
        .chatty = rng_.chance(kChattySession),
        .input_tokens = as_tokens(at_quantile(kFirstPrompt, prompts_.next(rng_), true))};
    session.output_tokens = draw_answer();
    const std::size_t full = session.input_tokens / kBlockTokens;
    if (!openings_.empty() && rng_.chance(kOpensLikeAnother)) {
      const auto& other = openings_[rng_.below(openings_.size())];
      const std::size_t shared = 1 + rng_.below(std::max<std::size_t>(other.size(), 1));
      session.ids.assign(
          other.begin(),
          other.begin() + static_cast<std::ptrdiff_t>(std::min({shared, other.size(), full})));
    } else {
      session.ids.assign(1, kSystemPromptId);
    }
    fill_ids(session);
    if (openings_.size() < kOpeningsRemembered) {
      openings_.emplace_back();
      next_opening_ = openings_.size() - 1;
    }
    openings_[next_opening_].assign(session.ids.begin(),
                                    session.ids.begin() + static_cast<std::ptrdiff_t>(full));
    next_opening_ = (next_opening_ + 1) % kOpeningsRemembered;
    return session;
  }

  Session next_turn() {
    Session session = waiting_.top().session;
    waiting_.pop();
    session.ids.resize(session.input_tokens /
                       kBlockTokens);  // The partial block became part of a full one.
    const std::uint32_t question =
        as_tokens(rng_.lognormal(kQuestionTokensMedian, kQuestionTokensSigma));
    session.input_tokens =
        std::min(kPromptTokensMax, session.input_tokens + session.output_tokens + question);
    session.output_tokens = draw_answer();
    ++session.turn;
    fill_ids(session);
    return session;
  }

  void maybe_return(Session session, std::int64_t now_ns) {
    const double chance = session.turn == 1 ? kSecondTurn
                          : session.chatty  ? kNextTurnChatty
                                            : kNextTurnOther;
    if (!rng_.chance(chance)) return;
    const double gap_s = rng_.lognormal(kGapSMedian, kGapSigma);
    waiting_.push({.due_ns = now_ns + static_cast<std::int64_t>(gap_s * 1e3) * kNsPerMs,
                   .session = std::move(session)});
  }

  std::uint32_t draw_answer() {
    return as_tokens(at_quantile(kAnswer, answers_.next(rng_), false));
  }

  void fill_ids(Session& session) {
    const std::size_t wanted = (session.input_tokens + kBlockTokens - 1) / kBlockTokens;
    while (session.ids.size() < wanted) session.ids.push_back(next_id_++);
  }

  static constexpr std::uint64_t kSystemPromptId = 0;

  Rng rng_;
  StratifiedUniform prompts_, answers_;
  TraceBuilder builder_;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  std::vector<std::vector<std::uint64_t>> openings_;  // Full blocks of first prompts, a ring.
  std::size_t next_opening_ = 0;
  std::uint32_t sessions_ = 0;
  std::uint64_t next_id_ = 1;
};

}  // namespace

Result<Trace> synthesize(const SynthOptions& options) {
  if (options.kind != "conversation") {
    return fail(Errc::invalid,
                fmt::format("kind \"{}\" is unknown; there is: conversation", options.kind));
  }
  const std::uint32_t count = options.requests > 0 ? options.requests : kRequests;
  if (count > kTraceRequestsMax) {
    return fail(Errc::invalid,
                fmt::format("{} requests are too many; at most {}", count, kTraceRequestsMax));
  }
  return Conversation(options.seed).make(count);
}

}  // namespace tiercel
