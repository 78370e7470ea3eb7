// Whose directory it is: lock, superblock, purpose, and what a start may remove.
#include "tier/nvme_restart_testing.h"

namespace tiercel {
namespace {

TEST(NvmeRestart, ASecondOpenerIsToldWhoHoldsTheStore) {
  NvmeHarness harness;
  const auto second = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_NE(second.error().what.find(fmt::format("pid {}", ::getpid())), std::string::npos)
      << second.error().what;
  harness.close();
  EXPECT_TRUE(NvmeTier::open(harness.disk(), harness.directory(), harness.options()));
}

TEST(NvmeRestart, AForeignDirectoryIsRefusedUntouched) {
  NvmeHarness harness;
  const std::string foreign = harness.directory() + "-foreign";
  std::filesystem::create_directory(foreign);
  std::ofstream(foreign + "/thesis.tex") << "years of work";
  for (const StoreStart start : {StoreStart::recover, StoreStart::empty}) {
    NvmeOptions options = harness.options();
    options.start = start;
    const auto opened = NvmeTier::open(harness.disk(), foreign, options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid);
    EXPECT_NE(opened.error().what.find("thesis.tex"), std::string::npos);
  }
  EXPECT_EQ(harness.disk().list(foreign)->size(), 1U) << "not even a lock was left";
}

TEST(NvmeRestart, ANewerFormatAndADamagedSuperblockAreRefusedUntouched) {
  NvmeHarness harness;
  write_records(harness, 3);
  harness.commit();
  harness.close();
  const std::string path = harness.directory() + "/store.meta";
  auto page = *read_file(harness.disk(), path, 4096);
  const auto original = page;
  page[8] = std::byte{2};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  auto opened = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::invalid);
  EXPECT_NE(opened.error().what.find("newer"), std::string::npos) << opened.error().what;
  EXPECT_EQ(*read_file(harness.disk(), path, 4096), page);
  page = original;
  page[50] ^= std::byte{1};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  opened = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::corrupt);
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", original));
  EXPECT_EQ(harness.reopen().segments.size(), 1U) << "nothing was touched";
}

TEST(NvmeRestart, AnotherGeometryIsRefusedAndNoneMeansTheStoresOwn) {
  NvmeHarness harness;
  const Written written = write_records(harness, 3);
  harness.commit();
  harness.close();
  NvmeOptions options = harness.options();
  options.geometry.segment_bytes *= 2;
  options.geometry.capacity_bytes *= 2;
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::invalid);
  options = harness.options();
  options.geometry.capacity_bytes = NvmeHarness::kSegmentBytes;
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::invalid);
  options = harness.options();
  options.geometry.segment_bytes = options.geometry.record_bytes_max = 0;
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_EQ(opened->recovered.segments[0].records.size(), 3U);
}

TEST(NvmeRestart, StartingEmptyRemovesOnlyOurOwnSegments) {
  NvmeHarness harness;
  write_records(harness, 3);
  harness.commit();
  harness.close();
  std::ofstream(harness.directory() + "/notes.txt") << "somebody's";
  NvmeOptions options = harness.options();
  options.start = StoreStart::empty;
  options.geometry.segment_bytes = 16 << 20;  // Empty, so it may change.
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_TRUE(opened->recovered.segments.empty());
  EXPECT_FALSE(std::filesystem::exists(harness.segment_path(0)));
  EXPECT_TRUE(std::filesystem::exists(harness.directory() + "/notes.txt"));
}

TEST(NvmeRestart, ADamagedSuperblockIsReplacedOnlyByAStartThatEmpties) {
  NvmeHarness harness;
  write_records(harness, 3);
  harness.close();
  auto page = *read_file(harness.disk(), harness.directory() + "/store.meta", 4096);
  page[60] ^= std::byte{1};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  NvmeOptions options = harness.options();
  EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
            Errc::corrupt);
  options.start = StoreStart::empty;
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_TRUE(opened->recovered.segments.empty());
}

TEST(NvmeRestart, NoStoreIsOpenedForAnotherPurposeThanItsOwn) {
  constexpr std::array kPurposes{StorePurpose::cache, StorePurpose::replay, StorePurpose::session};
  const std::map<StorePurpose, std::byte> flags{{StorePurpose::cache, std::byte{1}},
                                                {StorePurpose::replay, std::byte{3}},
                                                {StorePurpose::session, std::byte{5}}};
  for (const StorePurpose owner : kPurposes) {
    NvmeHarness harness;
    harness.close();
    const std::string directory = harness.directory() + "-" + store_purpose_name(owner);
    NvmeOptions options = harness.options();
    options.geometry.purpose = owner;
    {
      const auto made = NvmeTier::open(harness.disk(), directory, options);
      ASSERT_TRUE(made) << made.error().what;
    }
    const auto superblock = *read_file(harness.disk(), directory + "/store.meta", 4096);
    EXPECT_EQ(superblock[12], flags.at(owner));
    const std::string segment = directory + "/" + segment_file_name(0);
    std::ofstream(segment) << "years of cache";
    for (const StorePurpose other : kPurposes) {
      if (other == owner) continue;
      options.geometry.purpose = other;
      for (const StoreStart start : {StoreStart::recover, StoreStart::empty}) {
        options.start = start;
        const auto opened = NvmeTier::open(harness.disk(), directory, options);
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, Errc::invalid);
        EXPECT_NE(opened.error().what.find(directory), std::string::npos) << opened.error().what;
        EXPECT_NE(opened.error().what.find("another directory"), std::string::npos);
        EXPECT_TRUE(std::filesystem::exists(segment));
        EXPECT_EQ(*read_file(harness.disk(), directory + "/store.meta", 4096), superblock);
      }
    }
    options.geometry.purpose = owner;  // The owner may, also empty.
    options.start = StoreStart::empty;
    EXPECT_TRUE(NvmeTier::open(harness.disk(), directory, options));
    EXPECT_FALSE(std::filesystem::exists(segment));
  }
}

TEST(NvmeRestart, AReplayDoesNotReplaceADamagedSuperblockAndNobodyOpensUnknownFlags) {
  NvmeHarness harness;
  harness.close();
  const auto original = *read_file(harness.disk(), harness.directory() + "/store.meta", 4096);
  NvmeOptions options = harness.options();
  options.start = StoreStart::empty;
  auto page = original;
  page[60] ^= std::byte{1};
  ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
  for (const StorePurpose purpose : {StorePurpose::replay, StorePurpose::session}) {
    options.geometry.purpose = purpose;
    EXPECT_EQ(NvmeTier::open(harness.disk(), harness.directory(), options).error().code,
              Errc::corrupt);
  }
  options.geometry.purpose = StorePurpose::cache;
  for (const std::byte flags : {std::byte{0}, std::byte{7}, std::byte{9}, std::byte{0x81}}) {
    page = original;
    page[12] = flags;
    put_number<std::uint64_t>(page, 56, checksum64(std::span(page).first(56)));
    ASSERT_TRUE(replace_file(harness.disk(), harness.directory(), "store.meta", page));
    const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid);
    EXPECT_NE(opened.error().what.find("flags"), std::string::npos) << opened.error().what;
  }
}

TEST(NvmeRestart, NothingIsRemovedOrChangedBeforeEveryRefusalHasBeenDecided) {
  NvmeHarness harness;
  write_records(harness, 150);  // Two segments.
  harness.commit();
  harness.close();
  std::filesystem::resize_file(harness.segment_path(0), 1 << 20);
  std::ofstream(harness.segment_path(3)).close();
  std::ofstream(harness.directory() + "/store.meta.tmp") << "half";
  std::ofstream(harness.segment_path(99)) << "from a larger store";  // Beyond the capacity.
  const auto superblock = *read_file(harness.disk(), harness.directory() + "/store.meta", 4096);
  const auto opened = NvmeTier::open(harness.disk(), harness.directory(), harness.options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::invalid);
  EXPECT_NE(opened.error().what.find("segment-00000099"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(harness.segment_path(0)), 1U << 20);
  EXPECT_TRUE(std::filesystem::exists(harness.segment_path(3)));
  EXPECT_TRUE(std::filesystem::exists(harness.directory() + "/store.meta.tmp"));
  EXPECT_EQ(*read_file(harness.disk(), harness.directory() + "/store.meta", 4096), superblock);
  std::filesystem::remove(
      harness.segment_path(99));  // The control: without it all of it is tidied.
  const Recovered& recovered = harness.reopen();
  EXPECT_EQ(recovered.resized_segments, 1U);
  EXPECT_EQ(recovered.leftovers_removed, 2U);
}

TEST(NvmeRestart, LeftOversOfACrashedStartAreCleanedUp) {
  NvmeHarness harness;
  harness.close();
  std::ofstream(harness.directory() + "/store.meta.tmp") << "half";
  std::ofstream(harness.segment_path(3)).close();
  EXPECT_EQ(harness.reopen().leftovers_removed, 2U);
  EXPECT_FALSE(std::filesystem::exists(harness.directory() + "/store.meta.tmp"));
  EXPECT_FALSE(std::filesystem::exists(harness.segment_path(3)));
  EXPECT_EQ(harness.reopen().leftovers_removed, 0U);
  const std::string young = harness.directory() + "-young";  // Died between lock and superblock.
  std::filesystem::create_directory(young);
  std::ofstream(young + "/lock") << "tiercel pid 1";
  EXPECT_TRUE(NvmeTier::open(harness.disk(), young, harness.options()));
}

}  // namespace
}  // namespace tiercel
