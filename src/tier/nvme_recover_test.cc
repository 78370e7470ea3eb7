// A restart over what it cannot trust or cannot read: foreign indices, sectors that are gone, files that were cut. One bad
// segment never costs what the others hold.
#include "tier/nvme_sim_testing.h"

namespace tiercel {
namespace {

using NvmeRecover = SimStoreTest;

std::string sim_segment(std::uint32_t segment) {
  return std::string(kSimStorePath) + "/" + segment_file_name(segment);
}

// The footer of segment 0, changed and with a good checksum.
void edit_footer(SimDisk& disk, const std::function<void(Footer&)>& change) {
  const auto file = *disk.open(sim_segment(0), {.write = true});
  std::vector<std::byte> page(kPageBytes);
  ASSERT_TRUE(file->read(SimStore::kSegmentBytes - kPageBytes, page));
  auto footer = parse_footer(page, SimStore::kSegmentBytes);
  ASSERT_TRUE(footer) << footer.error().what;
  change(*footer);
  ASSERT_TRUE(file->write(SimStore::kSegmentBytes - kPageBytes, encode_footer(*footer)));
}

// A record larger than any of this store would not fit the memory that reads it: such a footer is no index of ours.
TEST_F(NvmeRecover, AFooterThatNamesARecordTooLargeForTheStoreIsNotBelieved) {
  const SimWritten written = store_durably(store_, 6);
  open();
  edit_footer(disk_, [](Footer& footer) {
    footer.entries[1].bytes += footer.entries[2].bytes;
    footer.entries.erase(footer.entries.begin() + 2);
  });
  open();
  EXPECT_EQ(store_.recovered().walked_segments, 1U);
  EXPECT_EQ(look_for(store_, written).delivered, 6U);
}

// The same footer put there under a scrub that is under way: it is counted, and read no further.
TEST_F(NvmeRecover, AFooterThatGrowsTooLargeUnderTheScrubIsCounted) {
  store_.options().scrub_bytes_per_s = 1 * kMiB;
  store_.options().staging = {};
  store_durably(store_, 12);
  open();
  edit_footer(disk_, [](Footer& footer) {
    footer.entries[0].bytes = 120 * kPageBytes / 4;
    footer.entries.resize(1);
    footer.data_end = kSegmentHeaderBytes + footer.entries[0].bytes;
  });
  std::vector<Completion> done;
  for (int step = 0; step < 100; ++step) {
    store_.clock().advance_ns(100'000'000);
    store_.tier().poll(done);
  }
  EXPECT_GE(store_.tier().stats().corrupt, 1U);
  EXPECT_TRUE(store_.tier().take_findings().empty());
}

}  // namespace
}  // namespace tiercel
