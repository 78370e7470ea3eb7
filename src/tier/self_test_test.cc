#include "tier/self_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/byte_size.h"
#include "io/posix_disk.h"
#include "io/temporary_directory.h"
#include "tier/nvme_tier.h"

namespace tiercel {
namespace {

SelfTestOptions modest(const std::string& directory) {
  return {.directory = directory,
          .filesystem = "ext4",
          .cold_bytes = 64 * kMiB,
          .segment_bytes = 4 * kMiB,
          .memory_bytes = kMiB};
}

Finding of(const std::vector<Finding>& findings, const std::string& name) {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  if (found != findings.end()) return *found;
  ADD_FAILURE() << "nothing about " << name;
  return {};
}

TEST(SelfTest, ThisMachineCanRunAModestPlacement) {
  const TemporaryDirectory temporary;
  PosixDisk disk;
  const auto findings = self_test(disk, modest(temporary.path()));
  for (const Finding& finding : findings) {
    EXPECT_NE(finding.status, FindingStatus::failed) << finding.name << ": " << finding.detail;
    EXPECT_FALSE(finding.detail.empty()) << finding.name << " says nothing";
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path())) << "the probe was left behind";
}

TEST(SelfTest, ADirectoryThatDoesNotExistYetIsAskedThroughItsParent) {
  const TemporaryDirectory temporary;
  PosixDisk disk;
  const auto findings = self_test(disk, modest(temporary.path() + "/a/b"));
  EXPECT_NE(of(findings, "direct I/O").status, FindingStatus::failed);
  EXPECT_FALSE(std::filesystem::exists(temporary.path() + "/a"));
}

// A store that cannot be written is found before it is needed.
TEST(SelfTest, AReadOnlyDirectoryFails) {
  PosixDisk disk;
  const Finding finding = of(self_test(disk, modest("/proc/self")), "direct I/O");
  EXPECT_EQ(finding.status, FindingStatus::failed);
  EXPECT_NE(finding.detail.find("/proc/self"), std::string::npos) << finding.detail;
}

TEST(SelfTest, WhatTheDiskCannotHoldFails) {
  const TemporaryDirectory temporary;
  PosixDisk disk;
  SelfTestOptions options = modest(temporary.path());
  options.cold_bytes = 1ULL << 60;
  options.segment_bytes = 1ULL << 40;
  EXPECT_EQ(of(self_test(disk, options), "free space").status, FindingStatus::failed);
  options.reusable_bytes = 1ULL << 60;  // A store of ours lies there already.
  EXPECT_EQ(of(self_test(disk, options), "free space").status, FindingStatus::used);
}

TEST(SelfTest, MoreSegmentsThanFilesMayBeOpenFail) {
  const TemporaryDirectory temporary;
  PosixDisk disk;
  SelfTestOptions options = modest(temporary.path());
  options.cold_bytes = 1ULL << 50;
  options.segment_bytes = 4 * kKiB;
  const Finding finding = of(self_test(disk, options), "open files");
  EXPECT_EQ(finding.status, FindingStatus::failed) << finding.detail;
}

TEST(SelfTest, MemoryIsHeldAgainstWhatThereIs) {
  PosixDisk disk;
  SelfTestOptions options = modest(".");
  options.memory_bytes = 1ULL << 60;
  EXPECT_EQ(of(self_test(disk, options), "memory").status, FindingStatus::failed);
}

TEST(SelfTest, AControlGroupLimitsMemoryBelowTheMachine) {
  const TemporaryDirectory root;
  std::filesystem::create_directories(root.path() + "/sys/fs/cgroup");
  std::filesystem::create_directories(root.path() + "/proc");
  std::ofstream(root.path() + "/proc/meminfo")
      << "MemTotal: 100000000 kB\nMemAvailable: 90000000 kB\n";
  std::ofstream(root.path() + "/sys/fs/cgroup/memory.max") << "1048576\n";
  PosixDisk disk;
  SelfTestOptions options = modest(".");
  options.root = root.path();
  options.memory_bytes = 2 * kMiB;
  const Finding tight = of(self_test(disk, options), "memory");
  EXPECT_EQ(tight.status, FindingStatus::failed);
  EXPECT_NE(tight.detail.find("control group"), std::string::npos) << tight.detail;
  std::ofstream(root.path() + "/sys/fs/cgroup/memory.max") << "max\n";
  EXPECT_EQ(of(self_test(disk, options), "memory").status, FindingStatus::used);
}

TEST(SelfTest, VolatileAndRemoteFileSystemsAreNamed) {
  const TemporaryDirectory temporary;
  PosixDisk disk;
  SelfTestOptions options = modest(temporary.path());
  for (const char* name : {"tmpfs", "nfs"}) {
    options.filesystem = name;
    EXPECT_EQ(of(self_test(disk, options), "directory").status, FindingStatus::warning) << name;
  }
}

TEST(SelfTest, AClockThatWasSetBackIsNoticed) {
  const TemporaryDirectory temporary;
  std::ofstream(temporary.path() + "/store.meta") << "x";
  PosixDisk disk;
  EXPECT_EQ(of(self_test(disk, modest(temporary.path())), "clock").status, FindingStatus::used);
  std::filesystem::last_write_time(
      temporary.path() + "/store.meta",
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(48));
  EXPECT_EQ(of(self_test(disk, modest(temporary.path())), "clock").status, FindingStatus::warning);
}

TEST(SelfTest, WithoutAColdTierTheDiskIsNotAsked) {
  PosixDisk disk;
  SelfTestOptions options = modest("/does/not/matter");
  options.cold_bytes = 0;
  const auto findings = self_test(disk, options);
  EXPECT_EQ(std::ranges::find(findings, std::string("free space"), &Finding::name), findings.end());
}

// A doctor that was killed leaves its probe behind: neither an empty directory nor a store minds, and the store removes it.
TEST(SelfTest, AProbeLeftBehindIsALeftOver) {
  const TemporaryDirectory temporary;
  const std::string probe = temporary.path() + "/" + kSelfTestName;
  std::ofstream(probe) << "x";
  PosixDisk disk;
  ManualClock clock;
  const NvmeOptions options{.geometry = {.capacity_bytes = store_bytes(kMiB, 4),
                                         .segment_bytes = kMiB,
                                         .record_bytes_max = 64 * kKiB},
                            .clock = &clock};
  const auto opened = NvmeTier::open(disk, temporary.path(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_FALSE(std::filesystem::exists(probe));
  EXPECT_EQ(opened->recovered.leftovers_removed, 1U);
}

}  // namespace
}  // namespace tiercel
