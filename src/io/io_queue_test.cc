// Both queues against real files: the same suite, so a fallback behaves like the ring.
#include "io/io_queue.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/random.h"
#include "io/posix_disk.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

struct Setup {
  const char* name;
  IoEngine engine;
  bool direct;
};

class IoQueueTest : public testing::TestWithParam<Setup> {
 protected:
  IoQueueTest() : disk_({.direct = GetParam().direct}) {
    auto queue = disk_.make_queue({.depth = 8, .engine = GetParam().engine, .threads = 3});
    EXPECT_TRUE(queue) << queue.error().what;
    queue_ = std::move(*queue);
    auto file =
        disk_.open(directory_.path() + "/f", {.write = true, .create = true, .direct = true});
    EXPECT_TRUE(file);
    file_ = std::move(*file);
    memory_ = static_cast<std::byte*>(std::aligned_alloc(4096, kMemoryBytes));
  }
  ~IoQueueTest() override {
    queue_.reset();  // Before the memory it may still write to.
    std::free(memory_);
  }

  Result<void> run(IoRequest request) {
    EXPECT_TRUE(queue_->submit(std::move(request)));
    std::vector<IoCompletion> done;
    while (done.empty()) queue_->wait(done, 1'000'000'000);
    EXPECT_EQ(done.size(), 1U);
    return done[0].result;
  }

  static constexpr std::size_t kMemoryBytes = 4 << 20;
  const TemporaryDirectory directory_;
  PosixDisk disk_;
  std::unique_ptr<IoQueue> queue_;
  std::unique_ptr<File> file_;
  std::byte* memory_ = nullptr;
};

TEST_P(IoQueueTest, ScatteredWritesReadBackFromOtherPieces) {
  Rng rng(1);
  for (std::size_t i = 0; i < kMemoryBytes / 2; ++i)
    memory_[i] = static_cast<std::byte>(rng.next());
  std::vector<IoPiece> out, in;
  for (std::size_t i = 0; i < 16; ++i) out.push_back({memory_ + i * 8192, 4096});
  for (std::size_t i = 0; i < 4; ++i) in.push_back({memory_ + kMemoryBytes / 2 + i * 32768, 16384});
  ASSERT_TRUE(run({.type = IoType::write, .file = file_.get(), .offset = 8192, .pieces = out}));
  ASSERT_TRUE(run({.type = IoType::sync, .file = file_.get()}));
  ASSERT_TRUE(run({.type = IoType::read, .file = file_.get(), .offset = 8192, .pieces = in}));
  for (std::size_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(out[i / 4096].data[i % 4096], in[i / 16384].data[i % 16384]) << i;
  }
}

TEST_P(IoQueueTest, AReadPastTheEndIsAnErrorNotAShortSuccess) {
  ASSERT_TRUE(
      run({.type = IoType::write, .file = file_.get(), .offset = 0, .pieces = {{memory_, 8192}}}));
  const auto outcome =
      run({.type = IoType::read, .file = file_.get(), .offset = 4096, .pieces = {{memory_, 8192}}});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Errc::io);
  EXPECT_NE(outcome.error().what.find("ends"), std::string::npos) << outcome.error().what;
}

TEST_P(IoQueueTest, AWriteToAReadOnlyFileIsAnErrorThatNamesIt) {
  ASSERT_TRUE(
      run({.type = IoType::write, .file = file_.get(), .offset = 0, .pieces = {{memory_, 4096}}}));
  const auto file = disk_.open(directory_.path() + "/f", {.direct = true});
  ASSERT_TRUE(file);
  const auto outcome =
      run({.type = IoType::write, .file = file->get(), .offset = 0, .pieces = {{memory_, 4096}}});
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().what.find("/f"), std::string::npos);
}

TEST_P(IoQueueTest, FullIsRefusedAndEveryTagComesBackOnce) {
  ASSERT_TRUE(file_->allocate(kMemoryBytes));
  std::map<std::uint64_t, int> seen;
  std::uint64_t submitted = 0;
  std::vector<IoCompletion> done;
  while (submitted < 200) {
    while (submitted < 200 &&
           queue_->submit({.type = submitted % 3 == 0 ? IoType::read : IoType::write,
                           .file = file_.get(),
                           .offset = submitted % 64 * 4096,
                           .pieces = {{memory_ + submitted % 64 * 4096, 4096}},
                           .tag = submitted})) {
      ++submitted;
    }
    EXPECT_LE(queue_->in_flight(), 8U);
    queue_->wait(done, 1'000'000'000);
  }
  while (queue_->in_flight() > 0) queue_->wait(done, 1'000'000'000);
  for (const IoCompletion& completion : done) {
    EXPECT_TRUE(completion.result);
    ++seen[completion.tag];
  }
  EXPECT_EQ(seen.size(), 200U);
  EXPECT_EQ(done.size(), 200U);
  EXPECT_EQ(queue_->wait(done, 1'000'000'000), 0U) << "nothing in flight: returns at once";
}

TEST_P(IoQueueTest, SaysWhatItRunsOn) {
  if (GetParam().engine == IoEngine::threads) {
    EXPECT_STREQ(queue_->engine_name(), "threads");
    EXPECT_FALSE(queue_->fallback_reason().empty());
  } else {
    EXPECT_STREQ(queue_->engine_name(), "io_uring");
    EXPECT_TRUE(queue_->fallback_reason().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, IoQueueTest,
                         testing::Values(Setup{"ring", IoEngine::ring, true},
                                         Setup{"threads", IoEngine::threads, true},
                                         Setup{"ring_buffered", IoEngine::ring, false},
                                         Setup{"threads_buffered", IoEngine::threads, false}),
                         [](const auto& setup) { return std::string(setup.param.name); });

}  // namespace
}  // namespace tiercel
