#include "io/ring_queue.h"

#include <fmt/format.h>
#include <liburing.h>

#include <cerrno>
#include <cstring>

#include "io/transfer.h"

namespace tiercel {
namespace {

class RingQueue final : public IoQueue {
 public:
  RingQueue(const io_uring& ring, std::uint32_t depth) : ring_(ring), slots_(depth) {
    for (std::uint32_t i = depth; i > 0; --i) free_.push_back(i - 1);
  }

  ~RingQueue() override {
    std::vector<IoCompletion> dropped;
    while (in_flight() > 0) wait(dropped, 1'000'000'000);
    io_uring_queue_exit(&ring_);
  }

  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;

  bool submit(IoRequest request) override {
    if (free_.empty()) return false;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot].start(std::move(request));
    push(slot);
    return true;
  }

  std::size_t in_flight() const override { return slots_.size() - free_.size(); }

  std::size_t poll(std::vector<IoCompletion>& out) override {
    const std::size_t before = out.size();
    flush();
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) take(cqe, out);
    return out.size() - before;
  }

  std::size_t wait(std::vector<IoCompletion>& out, std::int64_t timeout_ns) override {
    const std::size_t before = out.size();
    poll(out);
    while (out.size() == before && in_flight() > 0) {
      __kernel_timespec timeout{.tv_sec = timeout_ns / 1'000'000'000,
                                .tv_nsec = timeout_ns % 1'000'000'000};
      io_uring_cqe* cqe = nullptr;
      const int outcome = io_uring_wait_cqe_timeout(&ring_, &cqe, &timeout);
      if (outcome == -EINTR) continue;
      if (outcome != 0) break;  // -ETIME: the time is over.
      poll(out);                // May find only partial transfers, which go on.
    }
    return out.size() - before;
  }

  const char* engine_name() const override { return "io_uring"; }
  const std::string& fallback_reason() const override { return none_; }

 private:
  // There are as many entries as slots, and each slot has at most one: an entry is always to be
  // had.
  void push(std::uint32_t slot) {
    Transfer& transfer = slots_[slot];
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      flush();
      sqe = io_uring_get_sqe(&ring_);
    }
    TIERCEL_CHECK(sqe != nullptr);
    switch (transfer.type()) {
      case IoType::read:
        io_uring_prep_readv(sqe, transfer.descriptor(), transfer.vectors(), transfer.vector_count(),
                            transfer.offset());
        break;
      case IoType::write:
        io_uring_prep_writev(sqe, transfer.descriptor(), transfer.vectors(),
                             transfer.vector_count(), transfer.offset());
        break;
      case IoType::sync:
        io_uring_prep_fsync(sqe, transfer.descriptor(), IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data64(sqe, slot);
    flush();
  }

  // A refusal for now (no memory, completions to be reaped first) leaves the entries in the ring
  // for the next call.
  void flush() {
    if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
  }

  void take(io_uring_cqe* cqe, std::vector<IoCompletion>& out) {
    const auto slot = static_cast<std::uint32_t>(io_uring_cqe_get_data64(cqe));
    const std::int64_t outcome = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    Result<void> result;
    if (slots_[slot].advance(outcome, result) == Transfer::Next::again) {
      push(slot);
      return;
    }
    out.push_back({.tag = slots_[slot].tag(), .result = std::move(result)});
    free_.push_back(slot);
  }

  io_uring ring_;
  std::vector<Transfer> slots_;
  std::vector<std::uint32_t> free_;
  const std::string none_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_ring_queue(const IoQueueOptions& options) {
  io_uring ring{};
  // Completions wait for our next call instead of interrupting this thread; kernels before 5.19 do
  // not know the flags.
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  int outcome = io_uring_queue_init_params(options.depth, &ring, &parameters);
  if (outcome == -EINVAL) outcome = io_uring_queue_init(options.depth, &ring, 0);
  if (outcome != 0) {
    return fail(Errc::unavailable,
                fmt::format("io_uring is not to be had: {}", std::strerror(-outcome)), -outcome);
  }
  return std::make_unique<RingQueue>(ring, options.depth);
}

}  // namespace tiercel
