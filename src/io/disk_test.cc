// The disk of this machine, against real files: what the store takes for granted.
#include "io/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/posix_disk.h"
#include "io/temporary_directory.h"

namespace tiercel {
namespace {

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>(i * 7);
  return content;
}

// The paths that were synced, in order: this program's own fdatasync stands before the C library's.
std::vector<std::string> synced_paths;
const std::thread::id synced_by = std::this_thread::get_id();  // Queue threads are not asked.

TEST(PosixDisk, EveryDirectoryItMakesIsMadeDurableInItsParent) {
  const TemporaryDirectory directory;
  PosixDisk disk;
  synced_paths.clear();
  ASSERT_TRUE(disk.make_directory(directory.path() + "/a/b/c"));
  EXPECT_EQ(synced_paths, (std::vector<std::string>{directory.path(), directory.path() + "/a",
                                                    directory.path() + "/a/b"}));
  synced_paths.clear();
  ASSERT_TRUE(disk.make_directory(directory.path() + "/a/b/c"));
  EXPECT_TRUE(synced_paths.empty()) << "nothing was made";
}

TEST(PosixDisk, AFifoIsRefusedNotWaitedFor) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
  ::alarm(10);  // Ends the program where it waits after all.
  PosixDisk disk;
  for (const OpenMode mode : {OpenMode{}, OpenMode{.write = true}, OpenMode{.direct = true}}) {
    const auto opened = disk.open(path, mode);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid) << opened.error().what;
  }
  static_cast<void>(disk.lock_shared(path));
  ::alarm(0);
}

TEST(PosixDisk, WritesReadsAndTellsWhatAFileTakes) {
  const TemporaryDirectory directory;
  PosixDisk disk;
  auto file = disk.open(directory.path() + "/a", {.write = true, .create = true});
  ASSERT_TRUE(file) << file.error().what;
  ASSERT_TRUE((*file)->allocate(1 << 20));
  EXPECT_EQ((*file)->status()->bytes, 1U << 20);
  EXPECT_GE((*file)->status()->allocated_bytes, 1U << 20);
  const auto content = pattern(10000);
  ASSERT_TRUE((*file)->write(777, content));
  std::vector<std::byte> back(10000);
  ASSERT_TRUE((*file)->read(777, back));
  EXPECT_EQ(back, content);
  EXPECT_TRUE((*file)->sync());
  const auto beyond = (*file)->read((1 << 20) - 5, back);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().what.find("ends"), std::string::npos);
}

TEST(PosixDisk, AMissingFileIsToldFromOtherErrors) {
  const TemporaryDirectory directory;
  PosixDisk disk;
  EXPECT_TRUE(is_missing(disk.open(directory.path() + "/none", {}).error()));
  EXPECT_FALSE(is_missing(disk.open(directory.path(), {}).error()));  // A directory.
  ASSERT_EQ(::mkfifo((directory.path() + "/fifo").c_str(), 0600), 0);
  const auto fifo = disk.open(directory.path() + "/fifo", {.write = true});
  ASSERT_FALSE(fifo);
  EXPECT_EQ(fifo.error().code, Errc::invalid);
}

TEST(PosixDisk, ReplacesAFileWholeAndListsSorted) {
  const TemporaryDirectory directory;
  PosixDisk disk;
  ASSERT_TRUE(disk.make_directory(directory.path() + "/x/y"));
  const std::string path = directory.path() + "/x/y";
  ASSERT_TRUE(replace_file(disk, path, "meta", pattern(5000)));
  ASSERT_TRUE(replace_file(disk, path, "meta", pattern(10)));
  EXPECT_EQ(*read_file(disk, path + "/meta", 100), pattern(10));
  EXPECT_FALSE(read_file(disk, path + "/meta", 9));
  ASSERT_TRUE(replace_file(disk, path, "a", pattern(1)));
  EXPECT_EQ(*disk.list(path), (std::vector<std::string>{"a", "meta"}));
  ASSERT_TRUE(disk.remove(path + "/a"));
  EXPECT_EQ(disk.list(path)->size(), 1U);
  EXPECT_GT(disk.space(path)->free_bytes, 0U);
}

TEST(PosixDisk, ALockNamesItsHolderAndEndsWithIt) {
  const TemporaryDirectory directory;
  PosixDisk disk;
  const std::string path = directory.path() + "/lock";
  {
    const auto held = disk.lock(path, "pid 4711");
    ASSERT_TRUE(held);
    const auto second = disk.lock(path, "pid 4712");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::busy);
    EXPECT_NE(second.error().what.find("pid 4711"), std::string::npos);
    EXPECT_FALSE(disk.lock_shared(path));
  }
  const auto reader = disk.lock_shared(path);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(disk.lock_shared(path));
  EXPECT_FALSE(disk.lock(path, "pid 4713"));
}

TEST(PosixDisk, TheLockOfAProcessThatDiedIsFree) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    PosixDisk disk;
    const auto held = disk.lock(path, "child");
    if (held && ::write(ready[1], "y", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  PosixDisk disk;
  EXPECT_FALSE(disk.lock(path, "parent"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(disk.lock(path, "parent"));
}

TEST(PosixDisk, DirectIsToldAndForcedOffLoudly) {
  const TemporaryDirectory directory;
  PosixDisk buffered({.direct = false});
  const auto file =
      buffered.open(directory.path() + "/a", {.write = true, .create = true, .direct = true});
  ASSERT_TRUE(file);
  EXPECT_FALSE((*file)->direct());
  ASSERT_EQ(buffered.notes().size(), 1U);
  EXPECT_NE(buffered.notes()[0].find("buffered"), std::string::npos);
  PosixDisk direct;
  const auto other = direct.open(directory.path() + "/a", {.write = true, .direct = true});
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->direct(), direct.notes().empty());
  if ((*other)->direct()) {
    EXPECT_LE((*other)->alignment().offset, 4096U);
  }
}

TEST(PosixDisk, AFullDiskIsNoSpaceAndGivesBackWhatItTook) {
  const TemporaryDirectory directory;
  PosixDisk disk;
  const auto file = disk.open(directory.path() + "/a", {.write = true, .create = true});
  ASSERT_TRUE(file);
  const auto space = disk.space(directory.path());
  const auto outcome = (*file)->allocate(space->total_bytes * 2);
  ASSERT_FALSE(outcome);
  EXPECT_TRUE(outcome.error().code == Errc::no_space || outcome.error().os_errno == EFBIG)
      << outcome.error().what;
  EXPECT_EQ((*file)->status()->allocated_bytes, 0U);
}

void remember_sync(int descriptor) {
  if (std::this_thread::get_id() != synced_by) return;
  std::error_code error;
  const auto path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error);
  if (!error) synced_paths.push_back(path.string());
}

}  // namespace

void test_remember_sync(int descriptor);
void test_remember_sync(int descriptor) { remember_sync(descriptor); }

}  // namespace tiercel

extern "C" int fdatasync(int descriptor) {
  tiercel::test_remember_sync(descriptor);
  return static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}
