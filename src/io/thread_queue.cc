#include "io/thread_queue.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "base/mutex.h"
#include "io/transfer.h"

namespace tiercel {
namespace {

IoCompletion carry_out(IoRequest request) {
  Transfer transfer;
  transfer.start(std::move(request));
  Result<void> result;
  for (;;) {
    std::int64_t outcome = 0;
    switch (transfer.type()) {
      case IoType::read:
        outcome = ::preadv(transfer.descriptor(), transfer.vectors(),
                           static_cast<int>(transfer.vector_count()),
                           static_cast<off_t>(transfer.offset()));
        break;
      case IoType::write:
        outcome = ::pwritev(transfer.descriptor(), transfer.vectors(),
                            static_cast<int>(transfer.vector_count()),
                            static_cast<off_t>(transfer.offset()));
        break;
      case IoType::sync:
        outcome = ::fdatasync(transfer.descriptor());
        break;
    }
    if (outcome < 0) outcome = -errno;
    if (transfer.advance(outcome, result) == Transfer::Next::finished) break;
  }
  return {.tag = transfer.tag(), .result = std::move(result)};
}

class ThreadQueue final : public IoQueue {
 public:
  ThreadQueue(const IoQueueOptions& options, std::string reason)
      : depth_(options.depth), reason_(std::move(reason)) {
    const std::uint32_t count = std::clamp(options.threads, 1U, std::max(options.depth, 1U));
    for (std::uint32_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }

  ~ThreadQueue() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();  // Each takes what is waiting first.
  }

  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;

  bool submit(IoRequest request) override {
    if (in_flight_ == depth_) return false;
    ++in_flight_;
    {
      const MutexLock lock(mutex_);
      waiting_.push_back(std::move(request));
    }
    work_.notify_one();
    return true;
  }

  std::size_t in_flight() const override { return in_flight_; }

  std::size_t poll(std::vector<IoCompletion>& out) override {
    const MutexLock lock(mutex_);
    return take(out);
  }

  std::size_t wait(std::vector<IoCompletion>& out, std::int64_t timeout_ns) override {
    if (in_flight_ == 0) return 0;
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    const MutexLock lock(mutex_);
    while (done_.empty()) {
      if (finished_.wait_until(mutex_, until) == std::cv_status::timeout) break;
    }
    return take(out);
  }

  const char* engine_name() const override { return "threads"; }
  const std::string& fallback_reason() const override { return reason_; }

 private:
  std::size_t take(std::vector<IoCompletion>& out) REQUIRES(mutex_) {
    const std::size_t count = done_.size();
    std::ranges::move(done_, std::back_inserter(out));
    done_.clear();
    in_flight_ -= count;
    return count;
  }

  void work() {
    for (;;) {
      IoRequest request;
      {
        const MutexLock lock(mutex_);
        while (waiting_.empty() && !stopping_) work_.wait_for(mutex_, std::chrono::seconds(1));
        if (waiting_.empty()) return;
        request = std::move(waiting_.front());
        waiting_.pop_front();
      }
      IoCompletion completion = carry_out(std::move(request));
      {
        const MutexLock lock(mutex_);
        done_.push_back(std::move(completion));
      }
      finished_.notify_one();
    }
  }

  const std::size_t depth_;
  const std::string reason_;
  std::size_t in_flight_ = 0;  // Touched by the owner's thread alone.

  Mutex mutex_;
  ConditionVariable work_, finished_;
  std::deque<IoRequest> waiting_ GUARDED_BY(mutex_);
  std::vector<IoCompletion> done_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_thread_queue(const IoQueueOptions& options,
                                                   std::string reason) {
  return std::make_unique<ThreadQueue>(options, std::move(reason));
}

}  // namespace tiercel
