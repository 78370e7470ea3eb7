// The arena: what it says it got, and that a handle of another life leads nowhere.
#include "tier/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/temporary_directory.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kBytes = 8 << 20;

TEST(Arena, SaysWhichPagesItGotAndWhyNotBetter) {
  const auto arena = Arena::create({.bytes = kBytes});
  ASSERT_TRUE(arena);
  const ArenaReport& report = (*arena)->report();
  EXPECT_EQ(report.reason.empty(), report.pages == PageKind::hugetlb) << report.reason;
  if (report.pages == PageKind::small) {
    EXPECT_EQ((*arena)->huge_bytes(), 0U);
  }
  EXPECT_GT(report.warm_up_s, 0);
  EXPECT_TRUE(std::ranges::all_of(std::span((*arena)->base(), kBytes),
                                  [](std::byte b) { return b == std::byte{0}; }));
  std::printf("pages %s, %llu of %llu bytes huge, warm-up %.3f s; %s\n",
              page_kind_name(report.pages), static_cast<unsigned long long>((*arena)->huge_bytes()),
              static_cast<unsigned long long>(kBytes), report.warm_up_s, report.reason.c_str());
}

TEST(Arena, HugePagesThatArePromisedButNotToBeHadCostTheNextKindNotTheArena) {
  const TemporaryDirectory settings;
  std::filesystem::create_directories(settings.path() + "/hugepages/hugepages-2048kB");
  std::ofstream(settings.path() + "/hugepages/hugepages-2048kB/free_hugepages") << "1048576\n";
  const auto really = Arena::create({.bytes = kBytes});
  ASSERT_TRUE(really);
  if ((*really)->report().pages == PageKind::hugetlb)
    GTEST_SKIP() << "this machine has huge pages reserved";
  const auto arena = Arena::create({.bytes = kBytes, .settings = settings.path()});
  ASSERT_TRUE(arena) << arena.error().what;
  EXPECT_EQ((*arena)->report().pages, PageKind::small);
  EXPECT_NE((*arena)->report().reason.find("hugetlb: 1048576 of 4 pages"), std::string::npos);
  EXPECT_NE((*arena)->report().reason.find(", but arena: "), std::string::npos)
      << (*arena)->report().reason;
}

TEST(Arena, AShareableOneIsSeenThroughItsDescriptor) {
  const auto arena = Arena::create({.bytes = kBytes, .shareable = true});
  ASSERT_TRUE(arena);
  ASSERT_GE((*arena)->descriptor(), 0);
  (*arena)->base()[12345] = std::byte{42};
  void* const other = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, (*arena)->descriptor(), 0);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(static_cast<const std::byte*>(other)[12345], std::byte{42});
  ::munmap(other, kBytes);
}

TEST(Arena, HugePagesCanBeSwitchedOff) {
  const auto arena = Arena::create({.bytes = kBytes, .huge_pages = false});
  ASSERT_TRUE(arena);
  EXPECT_EQ((*arena)->report().pages, PageKind::small);
  EXPECT_NE((*arena)->report().reason.find("switched off"), std::string::npos);
}

TEST(Arena, PartsAreAlignedAndEndWithTheArena) {
  const auto arena = Arena::create({.bytes = kBytes});
  ASSERT_TRUE(arena);
  const auto first = (*arena)->take(1000);
  const auto second = (*arena)->take(kBytes - 4096);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->size(), 1000U);
  EXPECT_EQ(second->data() - first->data(), 4096);
  const auto more = (*arena)->take(1);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::no_space);
}

TEST(Arena, AHandleOfAnotherArenaLifeOrRangeLeadsNowhere) {
  const auto arena = Arena::create({.bytes = kBytes, .id = 3});
  const auto other = Arena::create({.bytes = kBytes, .id = 3});
  ASSERT_TRUE(arena && other);
  const Handle handle = (*arena)->handle((*arena)->base() + 8192);
  EXPECT_EQ((*arena)->resolve(handle, 100), (*arena)->base() + 8192);
  EXPECT_EQ((*arena)->resolve(handle, kBytes), nullptr) << "past the end";
  EXPECT_EQ((*other)->resolve(handle, 100), nullptr) << "same number, another generation";
  Handle far = handle;
  far.offset = ~0ULL;
  EXPECT_EQ((*arena)->resolve(far, 100), nullptr);
  far = handle;
  far.arena = 4;
  EXPECT_EQ((*arena)->resolve(far, 100), nullptr);
}

TEST(Arena, MoreThanThereIsIsNoSpaceNotACrash) {
  const auto arena = Arena::create({.bytes = 1ULL << 50});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().code, Errc::no_space);
}

}  // namespace
}  // namespace tiercel
