// Weka agent sessions: read one by one, merged to 512-token blocks, and composed into one arrival
// stream.
//
// The composition is ours, because sessions have no common clock; docs/formats/traces.md states it
// step by step.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trace/formats.h"
#include "trace/json_records.h"
#include "trace/limits.h"
#include "trace/sessions.h"
#include "trace/tar_reader.h"
#include "trace/trace_builder.h"

namespace tiercel {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;
constexpr std::int64_t kGapNsMax =
    600 * kNsPerS;  // Longer pauses are cut: nobody's cache waits overnight.
constexpr std::int64_t kUserStepNs = 7 * kNsPerS;  // User u starts its first session at 7 * u s.
constexpr std::int64_t kBetweenSessionsNs = 5 * kNsPerS;
constexpr std::uint32_t kIdsPerBlock = kMooncakeBlockTokens / kWekaIdTokens;

// Takes the sessions in order and lays them out over the users. One thread.
class Composer {
 public:
  explicit Composer(std::uint32_t users) : users_(users) {}

  // Refuses (and leaves out) a session that repeats an id within a request.
  Result<void> check(const WekaSession& session) {
    for (const WekaSession::Request& request : session.requests) {
      if (has_duplicate(std::span(session.ids).subspan(request.id_first, request.id_count),
                        scratch_)) {
        return fail(
            Errc::invalid,
            "field \"hash_ids\": an id occurs twice in one request; ids name a whole prefix, so a "
            "prompt never repeats one");
      }
    }
    return {};
  }

  // Fails only at a limit, which is final.
  Result<void> add(const WekaSession& session) {
    TIERCEL_TRY_VOID(check_trace_size(trace_.requests.size() + session.requests.size(),
                                      trace_.block_ids.size() + session.ids.size() / kIdsPerBlock));
    order_.resize(session.requests.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(), [&session](std::uint32_t a, std::uint32_t b) {
      return session.requests[a].at_ns < session.requests[b].at_ns;
    });
    const std::size_t user = pick_user();
    std::int64_t at_ns = start_of(user);
    std::int64_t before_ns = session.requests[order_.front()].at_ns;
    local_.clear();
    for (const std::uint32_t index : order_) {
      const WekaSession::Request& request = session.requests[index];
      at_ns += std::min(request.at_ns - before_ns, kGapNsMax);
      before_ns = request.at_ns;
      add_request(session, request, at_ns);
    }
    if (at_ns > kTraceTimeNsMax)
      return fail(Errc::invalid,
                  "the sessions add up to more than a hundred years; split the trace");
    if (user == last_arrival_ns_.size()) last_arrival_ns_.push_back(0);
    last_arrival_ns_[user] = at_ns;
    unique_ += local_.size();
    ++sessions_;
    return {};
  }

  Trace finish();

 private:
  // The first sessions go to one user each, in order; then to whoever is free first.
  std::size_t pick_user() const {
    if (last_arrival_ns_.size() < users_) return last_arrival_ns_.size();
    return static_cast<std::size_t>(
        std::min_element(last_arrival_ns_.begin(), last_arrival_ns_.end()) -
        last_arrival_ns_.begin());
  }

  std::int64_t start_of(std::size_t user) const {
    if (user == last_arrival_ns_.size()) return static_cast<std::int64_t>(user) * kUserStepNs;
    return last_arrival_ns_[user] + kBetweenSessionsNs;
  }

  void add_request(const WekaSession& session, const WekaSession::Request& request,
                   std::int64_t at_ns) {
    Request added{.arrival_ns = at_ns,
                  .input_tokens = request.input_tokens,
                  .output_tokens = request.output_tokens,
                  .block_first = trace_.block_ids.size(),
                  .session = sessions_};
    // The last id of each full group of eight names the block; a shorter rest is dropped.
    for (std::uint64_t k = kIdsPerBlock; k <= request.id_count; k += kIdsPerBlock) {
      const std::uint32_t number = local_.number(session.ids[request.id_first + k - 1]);
      trace_.block_ids.push_back(static_cast<std::uint32_t>(unique_) + number);
    }
    added.block_count = static_cast<std::uint32_t>(trace_.block_ids.size() - added.block_first);
    trace_.requests.push_back(added);
  }

  const std::uint32_t users_;
  Trace trace_;                                // Requests session after session until finish().
  std::vector<std::int64_t> last_arrival_ns_;  // Per user that has a session.
  std::uint64_t unique_ = 0;  // Ids of the sessions before: ids are local to a session.
  std::uint32_t sessions_ = 0;
  IdMap local_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint64_t> scratch_;
};

Trace Composer::finish() {
  std::stable_sort(trace_.requests.begin(), trace_.requests.end(),
                   [](const Request& a, const Request& b) { return a.arrival_ns < b.arrival_ns; });
  // The pool follows the new order, and ids are numbered again by first appearance in it.
  constexpr std::uint32_t kUnnumbered = ~std::uint32_t{0};
  std::vector<std::uint32_t> renumbered(unique_, kUnnumbered);
  std::vector<std::uint32_t> pool;
  pool.reserve(trace_.block_ids.size());
  std::uint32_t next = 0;
  for (Request& request : trace_.requests) {
    const auto blocks = trace_.blocks(request);
    request.block_first = pool.size();
    for (const std::uint32_t id : blocks) {
      if (renumbered[id] == kUnnumbered) renumbered[id] = next++;
      pool.push_back(renumbered[id]);
    }
  }
  trace_.block_ids = std::move(pool);
  trace_.format = "weka";
  trace_.block_tokens = kMooncakeBlockTokens;
  trace_.has_blocks = true;
  trace_.unique_blocks = unique_;
  if (!trace_.requests.empty()) {
    trace_.duration_s = static_cast<double>(trace_.requests.back().arrival_ns -
                                            trace_.requests.front().arrival_ns) /
                        1e9;
  }
  number_turns(trace_, sessions_);
  return std::move(trace_);
}

// One session's text into the composer, or one more bad entry.
Result<void> add_session(const std::string& entry, std::string_view text, JsonRecords& json,
                         WekaSession& session, Composer& composer, BadEntries& bad) {
  if (const auto read = json.read_weka(text, session); !read)
    return bad.add(entry, read.error().what);
  if (const auto fits = composer.check(session); !fits) return bad.add(entry, fits.error().what);
  return composer.add(session);
}

// The source as text, cut at `bytes_max`. Grows as the bytes come: most sessions are a thousandth of the limit.
Result<std::string> read_up_to(ByteSource& source, std::size_t bytes_max) {
  std::string text;
  std::size_t have = 0;
  for (;;) {
    text.resize(std::min(bytes_max, std::max<std::size_t>(have * 2, std::size_t{64} << 10)));
    TIERCEL_TRY(const std::size_t count, read_full(source, std::span(text).subspan(have)));
    have += count;
    if (have == text.size() && have < bytes_max) continue;
    text.resize(have);
    return text;
  }
}

std::string too_large() {
  return fmt::format("is larger than {} MiB", kTraceSessionBytesMax >> 20);
}

}  // namespace

Result<Trace> read_weka_tar(std::unique_ptr<ByteSource> source, const TraceOptions& options,
                            BadEntries& bad) {
  const std::string archive_name = source->name();
  TarReader tar(std::move(source));
  JsonRecords json;
  WekaSession session;
  Composer composer(options.weka_users);
  std::string name, text;
  std::uint64_t position = 0;
  for (;;) {
    TIERCEL_TRY(const bool more, tar.next(name));
    if (!more) break;
    if (!name.ends_with(".json")) continue;
    if (position++ % options.every != 0) continue;
    const std::string entry = archive_name + "(" + name + ")";
    TIERCEL_TRY(const bool whole, tar.read_all(text, kTraceSessionBytesMax));
    if (!whole) {
      TIERCEL_TRY_VOID(bad.add(entry, too_large()));
      continue;
    }
    TIERCEL_TRY_VOID(add_session(entry, text, json, session, composer, bad));
  }
  return composer.finish();
}

Result<Trace> read_weka_session(ByteSource& source, const TraceOptions& options, BadEntries& bad) {
  TIERCEL_TRY(const std::string text, read_up_to(source, kTraceSessionBytesMax + 1));
  JsonRecords json;
  WekaSession session;
  Composer composer(options.weka_users);
  if (text.size() > kTraceSessionBytesMax) {
    TIERCEL_TRY_VOID(bad.add(source.name(), too_large()));
  } else {
    TIERCEL_TRY_VOID(add_session(source.name(), text, json, session, composer, bad));
  }
  return composer.finish();
}

}  // namespace tiercel
