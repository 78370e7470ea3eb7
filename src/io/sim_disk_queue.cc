#include <algorithm>

#include "base/check.h"
#include "io/sim_disk_state.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kCompletionsMax = 3;  // Per call.

class SimQueue final : public IoQueue {
 public:
  SimQueue(std::shared_ptr<SimState> state, std::uint32_t depth)
      : state_(std::move(state)), depth_(depth), rng_(0) {
    const MutexLock lock(state_->mutex);
    number_ = state_->queues_made++;
    rng_ = Rng(mix64(state_->options.seed) + number_);
    state_->in_flight[number_].reserve(depth);
  }

  // As a kernel does: what was handed over is still carried out.
  ~SimQueue() override {
    const MutexLock lock(state_->mutex);
    std::vector<IoCompletion> dropped;
    while (!waiting().empty()) complete(pick(), dropped);
    state_->in_flight.erase(number_);
  }

  SimQueue(const SimQueue&) = delete;
  SimQueue& operator=(const SimQueue&) = delete;

  bool submit(IoRequest request) override {
    TIERCEL_CHECK(request.pieces.size() <= kIoPiecesMax);
    const MutexLock lock(state_->mutex);
    if (waiting().size() >= depth_) return false;
    std::uint64_t bytes = 0;
    for (const IoPiece& piece : request.pieces) bytes += piece.bytes;
    const SimHandle& handle = static_cast<const SimFile*>(request.file)->handle();
    SimTransfer transfer{
        .request = std::move(request), .handle = handle, .sequence = state_->sequence};
    if (state_->bytes_per_second != 0) transfer.due_ns = state_->pace(bytes);
    waiting().push_back(std::move(transfer));
    return true;
  }

  std::size_t in_flight() const override {
    const MutexLock lock(state_->mutex);
    return waiting().size();
  }

  std::size_t poll(std::vector<IoCompletion>& out) override {
    const MutexLock lock(state_->mutex);
    return state_->bytes_per_second != 0 ? complete_due(out)
                                         : complete_some(rng_.below(kCompletionsMax + 1), out);
  }

  std::size_t wait(std::vector<IoCompletion>& out, std::int64_t timeout_ns) override {
    const MutexLock lock(state_->mutex);
    if (waiting().empty()) return 0;
    if (state_->bytes_per_second == 0) return complete_some(1 + rng_.below(kCompletionsMax), out);
    const std::int64_t now_ns = state_->clock->now_ns();
    const std::int64_t due_ns = std::ranges::min(waiting(), {}, &SimTransfer::due_ns).due_ns;
    if (due_ns > now_ns) state_->clock->advance_ns(std::min(due_ns - now_ns, timeout_ns));
    return complete_due(out);
  }

  const char* engine_name() const override { return "simulated"; }
  const std::string& fallback_reason() const override { return none_; }

 private:
  std::vector<SimTransfer>& waiting() const REQUIRES(state_->mutex) {
    return state_->in_flight[number_];
  }

  std::size_t pick() REQUIRES(state_->mutex) {
    return static_cast<std::size_t>(rng_.below(waiting().size()));
  }

  // Taken out first: a power cut at its own step finds it done, not in flight.
  void complete(std::size_t index, std::vector<IoCompletion>& out) REQUIRES(state_->mutex) {
    SimTransfer transfer = std::move(waiting()[index]);
    waiting().erase(waiting().begin() + static_cast<std::ptrdiff_t>(index));
    Result<void> result = state_->carry_out(transfer);
    out.push_back({.tag = transfer.request.tag, .result = std::move(result)});
  }

  std::size_t complete_some(std::uint64_t count, std::vector<IoCompletion>& out)
      REQUIRES(state_->mutex) {
    count = std::min<std::uint64_t>(count, waiting().size());
    for (std::uint64_t i = 0; i < count; ++i) complete(pick(), out);
    return count;
  }

  std::size_t complete_due(std::vector<IoCompletion>& out) REQUIRES(state_->mutex) {
    const std::size_t before = out.size();
    const std::int64_t now_ns = state_->clock->now_ns();
    for (std::size_t i = 0; i < waiting().size();) {
      if (waiting()[i].due_ns > now_ns && state_->powered) {
        ++i;
      } else {
        complete(i, out);
      }
    }
    return out.size() - before;
  }

  const std::shared_ptr<SimState> state_;
  const std::size_t depth_;
  std::uint64_t number_ = 0;
  Rng rng_;
  const std::string none_;
};

}  // namespace

std::unique_ptr<IoQueue> make_sim_queue(std::shared_ptr<SimState> state,
                                        const IoQueueOptions& options) {
  return std::make_unique<SimQueue>(std::move(state), std::max(options.depth, 1U));
}

}  // namespace tiercel
