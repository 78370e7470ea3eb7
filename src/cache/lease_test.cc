#include "cache/lease.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tiercel {
namespace {

std::vector<Pin> pins(std::initializer_list<BlockId> ids) {
  std::vector<Pin> result;
  for (const BlockId id : ids) result.push_back({.id = id, .tier = TierId::warm});
  return result;
}

bool alive(const LeaseOwner& owner) { return is_alive(owner); }

TEST(Lease, EndsOnceByReleaseOrByItsDeadline) {
  LeaseTable table;
  const LeaseId first = table.take(this_process(), 0, 100, pins({1, 2}));
  const LeaseId second = table.take(this_process(), 0, 50, pins({3}));
  EXPECT_EQ(table.next_deadline_ns(), 50);
  EXPECT_TRUE(table.expire(49).empty());
  EXPECT_EQ(table.expire(50).size(), 1U);
  EXPECT_TRUE(table.release(second).empty()) << "it has ended: its pins are not given back twice";
  EXPECT_EQ(table.release(first).size(), 2U);
  EXPECT_TRUE(table.expire(1000).empty());
  EXPECT_EQ(table.held(), 0U);
  EXPECT_EQ(table.leaked(), 1U);
}

TEST(Lease, ALeakIsReportedByNameOfItsOwner) {
  LeaseTable table;
  LeaseOwner owner = this_process();
  EXPECT_EQ(owner.pid, ::getpid());
  EXPECT_GT(owner.process_start, 0U);
  owner.name = "decoder 3";
  table.take(owner, 0, 2'000'000'000, pins({7, 8}));
  table.take(owner, 0, 2'000'000'000, pins({}));
  table.expire(3'000'000'000);
  ASSERT_EQ(table.leaked_names().size(), 2U);
  const std::string& text = table.leaked_names()[0];
  EXPECT_NE(text.find("decoder 3"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(::getpid())), std::string::npos) << text;
  EXPECT_NE(text.find("2 blocks"), std::string::npos) << text;
  EXPECT_NE(text.find("2.000 s"), std::string::npos) << text;
}

TEST(Lease, EndsWithItsProcessAlsoBeforeAnybodyHasWaitedForIt) {
  LeaseTable table;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  LeaseOwner owner = process_of(child);
  owner.name = "decoder 4";
  EXPECT_GT(owner.process_start, 0U);
  table.take(this_process(), 0, 1000, pins({1}));
  table.take(owner, 0, 1000, pins({2, 3}));
  table.take(owner, 0, 1000, pins({4}));
  EXPECT_TRUE(table.reap(this_process(), alive).empty()) << "it lives";
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(table.reap(this_process(), alive).size(), 3U)
      << "dead, and still in the table of processes";
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_alive(owner));
  EXPECT_EQ(table.held(), 1U);
  EXPECT_EQ(table.leaked(), 2U);
  ASSERT_FALSE(table.leaked_names().empty());
  EXPECT_NE(table.leaked_names()[0].find("decoder 4"), std::string::npos);
  EXPECT_NE(table.leaked_names()[0].find("its process has ended"), std::string::npos);
}

TEST(Lease, AnotherProcessOfTheSameNumberIsNotTheOwner) {
  LeaseOwner reused = this_process();
  EXPECT_TRUE(is_alive(reused));
  --reused.process_start;
  EXPECT_FALSE(is_alive(reused));
  LeaseTable table;
  int asked = 0;
  for (int i = 0; i < 5; ++i) table.take(reused, 0, 1000, pins({1}));
  const auto pins = table.reap(this_process(), [&](const LeaseOwner& owner) {
    ++asked;
    return is_alive(owner);
  });
  EXPECT_EQ(pins.size(), 5U);
  EXPECT_EQ(asked, 1) << "once per process, not per lease";
}

TEST(Lease, AProcessOfWhichTheSystemDoesNotTellIsTakenForAlive) {
  const LeaseOwner owner = this_process();
  EXPECT_TRUE(is_alive(owner, "/nonexistent")) << "it may be that no file could be opened";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  LeaseOwner gone = process_of(child);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  gone.process_start = 1;
  EXPECT_FALSE(is_alive(gone, "/nonexistent")) << "there is no such process";
}

TEST(Lease, RemembersTheLastLeaksOnly) {
  LeaseTable table;
  for (int i = 0; i < 100; ++i) table.take({.pid = i}, 0, i, {});
  table.expire(1000);
  EXPECT_EQ(table.leaked(), 100U);
  ASSERT_EQ(table.leaked_names().size(), LeaseTable::kLeakedNames);
  EXPECT_NE(table.leaked_names().back().find("pid 99 "), std::string::npos);
}

TEST(Lease, WhatIsLeftAtTheEndIsNoLeak) {
  LeaseTable table;
  table.take(this_process(), 0, 10, pins({1}));
  table.take(this_process(), 0, 20, pins({2}));
  EXPECT_EQ(table.release_all().size(), 2U);
  EXPECT_EQ(table.leaked(), 0U);
  EXPECT_FALSE(table.next_deadline_ns().has_value());
}

}  // namespace
}  // namespace tiercel
