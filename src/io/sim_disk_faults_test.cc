// The simulated disk: the order of its queue, and every fault it knows.
#include <fmt/format.h>

#include <thread>

#include "io/sim_disk_testing.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kPage = kSimTestPage;
using Memory = SimTestMemory;

struct QueueRun {
  std::vector<std::uint64_t> order;
  std::vector<std::size_t> batches;
};
QueueRun run_queue(std::uint64_t seed) {
  SimDisk disk({.seed = seed});
  const auto file = open_for_write(disk, "/f");
  EXPECT_TRUE(file->allocate(64 * kPage));
  const auto queue = std::move(*disk.make_queue({.depth = 8}));
  const Memory memory(kPage, 'x');
  QueueRun run;
  std::uint64_t submitted = 0;
  std::vector<IoCompletion> done;
  while (done.size() < 64) {
    while (submitted < 64 && queue->submit({.type = IoType::write,
                                            .file = file.get(),
                                            .offset = submitted * kPage,
                                            .pieces = {{memory.span().data(), kPage}},
                                            .tag = submitted})) {
      ++submitted;
    }
    EXPECT_LE(queue->in_flight(), 8U);
    const std::size_t got = queue->wait(done, 1);
    EXPECT_GT(got, 0U) << "wait makes progress";
    run.batches.push_back(got);
  }
  for (const IoCompletion& completion : done) {
    EXPECT_TRUE(completion.result);
    run.order.push_back(completion.tag);
  }
  EXPECT_EQ(queue->wait(done, 1), 0U) << "nothing in flight";
  return run;
}

TEST(SimDisk, AQueueCompletesInAnOrderOfItsSeed) {
  const QueueRun first = run_queue(1), again = run_queue(1), other = run_queue(2);
  EXPECT_EQ(std::set(first.order.begin(), first.order.end()).size(), 64U);
  EXPECT_FALSE(std::ranges::is_sorted(first.order));
  EXPECT_EQ(first.order, again.order);
  EXPECT_EQ(first.batches, again.batches);
  EXPECT_NE(first.order, other.order);
}

// A sync that was submitted while a write was in flight says nothing about it, whichever ended first.
TEST(SimDisk, ASyncCoversOnlyWritesThatCompletedBeforeItWasSubmitted) {
  bool lost = false;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimDisk disk({.seed = seed});
    make_durable(disk, "/f", std::string(2 * kPage, 'a'));
    const auto file = open_for_write(disk, "/f");
    const auto queue = std::move(*disk.make_queue({}));
    const Memory memory(kPage, 'b');
    std::vector<IoCompletion> done;
    const auto write = [&](std::uint64_t page) {
      ASSERT_TRUE(queue->submit({.type = IoType::write,
                                 .file = file.get(),
                                 .offset = page * kPage,
                                 .pieces = {{memory.span().data(), kPage}}}));
    };
    write(0);
    while (queue->in_flight() > 0) queue->wait(done, 1);
    write(1);
    ASSERT_TRUE(queue->submit({.type = IoType::sync, .file = file.get()}));
    while (queue->in_flight() > 0) queue->wait(done, 1);
    const std::string found = content_of(*disk.restarted(seed, LossMode::drop), "/f");
    EXPECT_EQ(found[0], 'b');
    lost = lost || found[kPage] == 'a';
    EXPECT_NE(found[kPage], 'b');
  }
  EXPECT_TRUE(lost);
}

TEST(SimDisk, AWriteInFlightAtTheCutMayHaveLandedOrNot) {
  std::set<char> found;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimDisk disk;
    make_durable(disk, "/f", std::string(kPage, 'a'));
    const auto file = open_for_write(disk, "/f");
    const auto queue = std::move(*disk.make_queue({}));
    const Memory memory(kPage, 'b');
    ASSERT_TRUE(queue->submit({.type = IoType::write,
                               .file = file.get(),
                               .offset = 0,
                               .pieces = {{memory.span().data(), kPage}}}));
    disk.cut_power();
    std::fill_n(memory.span().data(), kPage, std::byte{'x'});  // Nobody's any more.
    std::vector<IoCompletion> done;
    ASSERT_EQ(queue->wait(done, 1), 1U);
    EXPECT_FALSE(done[0].result);
    EXPECT_EQ(content_of(*disk.restarted(seed, LossMode::drop), "/f")[0], 'a');
    EXPECT_EQ(content_of(*disk.restarted(seed, LossMode::keep), "/f")[0], 'b');
    disk.restart(seed, LossMode::reorder);
    found.insert(content_of(disk, "/f")[0]);
  }
  EXPECT_EQ(found, (std::set<char>{'a', 'b'}));
}

TEST(SimDisk, AFaultHitsWhatItNamesAsOftenAsItSays) {
  SimDisk disk;
  const auto file = open_for_write(disk, "/bad"), other = open_for_write(disk, "/good");
  disk.add_fault({.op = SimOp::write, .path_part = "bad", .skip = 1, .times = 2});
  EXPECT_TRUE(other->write(0, as_bytes("a")));
  EXPECT_TRUE(file->write(0, as_bytes("a"))) << "skipped";
  EXPECT_EQ(file->write(0, as_bytes("b")).error().os_errno, EIO);
  EXPECT_TRUE(other->write(0, as_bytes("b")));
  EXPECT_FALSE(file->write(0, as_bytes("c")));
  EXPECT_TRUE(file->write(1, as_bytes("d")));
  EXPECT_EQ(content_of(disk, "/bad"), "ad");
  disk.add_fault({.op = SimOp::read, .times = kForever});
  Memory back(2);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(file->read(0, back.span()));
  disk.clear_faults();
  EXPECT_TRUE(file->read(0, back.span()));
  disk.add_fault({.op = SimOp::sync, .from_step = disk.steps() + 1});
  EXPECT_TRUE(file->sync());
  EXPECT_FALSE(file->sync());
}

// nixl#1696: the device took a part, the caller was told that it took all.
TEST(SimDisk, AShortWriteMayBeToldAsDone) {
  SimDisk disk;
  const auto file = open_for_write(disk, "/f");
  ASSERT_TRUE(file->allocate(2 * kPage));
  disk.add_fault({.op = SimOp::write, .os_errno = 0, .bytes_done = 512});
  EXPECT_TRUE(file->write(0, as_bytes(std::string(kPage, 'a'))));
  EXPECT_EQ(content_of(disk, "/f"), std::string(512, 'a') + std::string(2 * kPage - 512, '\0'));
}

TEST(SimDisk, ALyingSyncLosesWhatItSaidWasSafe) {
  SimDisk disk;
  make_durable(disk, "/f", "old");
  const auto file = open_for_write(disk, "/f");
  disk.add_fault({.op = SimOp::sync, .times = kForever, .os_errno = 0});
  ASSERT_TRUE(file->write(0, as_bytes("new")));
  ASSERT_TRUE(file->sync());
  disk.restart(1, LossMode::drop);
  EXPECT_EQ(content_of(disk, "/f"), "old");
}

// As Linux does it: after a failed sync the pages count as clean, and a good one later proves nothing.
TEST(SimDisk, AfterAFailedSyncALaterOneProvesNothing) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimDisk disk({.seed = seed});
    make_durable(disk, "/f", "old");
    const auto file = open_for_write(disk, "/f");
    ASSERT_TRUE(file->write(0, as_bytes("new")));
    disk.add_fault({.op = SimOp::sync});
    ASSERT_FALSE(file->sync());
    ASSERT_TRUE(file->sync());
    found.insert(content_of(*disk.restarted(seed, LossMode::drop), "/f"));
  }
  EXPECT_EQ(found, (std::set<std::string>{"old", "new"}));
}

TEST(SimDisk, AFullDiskAndAQuotaAreToldApart) {
  SimDisk disk({.total_bytes = 100 * kPage, .quota_bytes = 60 * kPage});
  const auto file = open_for_write(disk, "/f");
  EXPECT_EQ(disk.space("/")->free_bytes, 100 * kPage) << "the file system does not tell";
  const auto over_quota = file->allocate(61 * kPage);
  ASSERT_FALSE(over_quota);
  EXPECT_EQ(over_quota.error().code, Errc::no_space);
  EXPECT_EQ(over_quota.error().os_errno, EDQUOT);
  EXPECT_EQ(file->status()->allocated_bytes, 0U) << "the file is as before";
  EXPECT_EQ(file->allocate(101 * kPage).error().os_errno, ENOSPC);
  ASSERT_TRUE(file->allocate(58 * kPage));
  const auto other = open_for_write(disk, "/g");
  const auto half = other->write(0, as_bytes(std::string(4 * kPage, 'a')));
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, Errc::no_space);
  EXPECT_EQ(content_of(disk, "/g"), std::string(2 * kPage, 'a')) << "what fitted landed";
  EXPECT_EQ(disk.allocated_bytes("/"), 60 * kPage);
  EXPECT_TRUE(file->write(0, as_bytes(std::string(kPage, 'b')))) << "reserved before";
}

TEST(SimDisk, AFlippedBitIsThereBeforeAndAfterARestart) {
  SimDisk disk;
  make_durable(disk, "/f", "abc");
  disk.flip("/f", 1, 0);
  EXPECT_EQ(content_of(disk, "/f"), "acc");
  const auto file = open_for_write(disk, "/f");
  ASSERT_TRUE(file->write(2, as_bytes("e")));
  disk.flip("/f", 2, 1);
  ASSERT_TRUE(file->sync());
  disk.restart(1, LossMode::drop);
  EXPECT_EQ(content_of(disk, "/f"), "acg");
  disk.cut_file("/f", 1);
  EXPECT_EQ(content_of(*disk.restarted(1, LossMode::drop), "/f"), "a");
}

TEST(SimDisk, AReadOnlyDirectoryRefusesChangesAndServesReads) {
  SimDisk disk;
  ASSERT_TRUE(disk.make_directory("/d"));
  make_durable(disk, "/d/f", "abc");
  ASSERT_TRUE(disk.lock("/d/lock", "x"));
  const auto file = open_for_write(disk, "/d/f");
  disk.set_read_only("/d", true);
  EXPECT_EQ(file->write(0, as_bytes("x")).error().os_errno, EROFS);
  EXPECT_EQ(disk.open("/d/f", {.write = true}).error().os_errno, EROFS);
  EXPECT_EQ(disk.open("/d/g", {.write = true, .create = true}).error().os_errno, EROFS);
  EXPECT_EQ(disk.remove("/d/f").error().os_errno, EROFS);
  EXPECT_EQ(disk.rename("/d/f", "/d/g").error().os_errno, EROFS);
  EXPECT_EQ(disk.make_directory("/d/e").error().os_errno, EROFS);
  EXPECT_FALSE(disk.lock("/d/lock", "x"));
  EXPECT_TRUE(disk.lock_shared("/d/lock"));
  EXPECT_EQ(content_of(disk, "/d/f"), "abc");
  EXPECT_TRUE(disk.open("/dd", {.write = true, .create = true})) << "a neighbour";
}

TEST(SimDisk, ADirectoryRemovedWhileOpenLeavesItsHandlesAlive) {
  SimDisk disk({.total_bytes = kMiB});
  ASSERT_TRUE(disk.make_directory("/d/e"));
  make_durable(disk, "/d/e/f", std::string(kPage, 'a'));
  auto file = open_for_write(disk, "/d/e/f");
  const auto directory = std::move(*disk.open_directory("/d/e"));
  disk.remove_tree("/d");
  EXPECT_TRUE(disk.files().empty());
  EXPECT_TRUE(is_missing(disk.open("/d/e/g", {.write = true, .create = true}).error()));
  EXPECT_TRUE(file->write(0, as_bytes("b")));
  EXPECT_TRUE(file->sync());
  EXPECT_TRUE(directory->sync());
  EXPECT_EQ(disk.space("/")->free_bytes, kMiB - kPage);
  file.reset();
  EXPECT_EQ(disk.space("/")->free_bytes, kMiB);
  EXPECT_TRUE(disk.restarted(1, LossMode::keep)->files().empty());
}

TEST(SimDisk, APaceMovesTheClockAsTransfersComplete) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  ManualClock clock;
  SimDisk disk;
  const auto file = open_for_write(disk, "/f");
  ASSERT_TRUE(file->allocate(kMiB));
  disk.set_pace(1000 * kPage, &clock);  // A page a millisecond.
  Memory memory(10 * kPage);
  ASSERT_TRUE(file->read(0, memory.span()));
  EXPECT_EQ(clock.now_ns(), 10 * kMillisecond);
  const auto queue = std::move(*disk.make_queue({}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(queue->submit({.type = IoType::read,
                               .file = file.get(),
                               .pieces = {{memory.span().data(), 10 * kPage}}}));
  }
  std::vector<IoCompletion> done;
  EXPECT_EQ(queue->poll(done), 0U);
  EXPECT_EQ(queue->wait(done, 4 * kMillisecond), 0U) << "too slow for that";
  EXPECT_EQ(clock.now_ns(), 14 * kMillisecond);
  EXPECT_EQ(queue->wait(done, 100 * kMillisecond), 1U);
  EXPECT_EQ(clock.now_ns(), 20 * kMillisecond);
  EXPECT_EQ(queue->wait(done, 100 * kMillisecond), 1U);
  EXPECT_EQ(clock.now_ns(), 30 * kMillisecond) << "one after the other";
}

TEST(SimDisk, DirectFilesRefuseWhatDirectIoWould) {
  SimDisk disk;
  const auto file = disk.open("/f", {.write = true, .create = true, .direct = true});
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->direct());
  ASSERT_TRUE((*file)->allocate(4 * kPage));
  Memory memory(2 * kPage);
  EXPECT_TRUE((*file)->write(kPage, memory.span().first(kPage)));
  EXPECT_EQ((*file)->write(0, memory.span().first(100)).error().os_errno, EINVAL);
  EXPECT_EQ((*file)->write(100, memory.span().first(kPage)).error().os_errno, EINVAL);
  EXPECT_EQ((*file)->read(0, memory.span().subspan(8, kPage)).error().os_errno, EINVAL);
}

TEST(SimDisk, ManyThreadsMayReadAtOnce) {
  SimDisk disk;
  for (int i = 0; i < 4; ++i)
    make_durable(disk, fmt::format("/f{}", i), std::string(50 * kPage, static_cast<char>('a' + i)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&disk, i] {
      for (int round = 0; round < 20; ++round) {
        const std::string found = content_of(disk, fmt::format("/f{}", i));
        ASSERT_EQ(found, std::string(50 * kPage, static_cast<char>('a' + i)));
        const auto file = open_for_write(disk, fmt::format("/g{}", i));
        ASSERT_TRUE(file->write(0, as_bytes(found)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(disk.files().size(), 8U);
}

}  // namespace
}  // namespace tiercel
