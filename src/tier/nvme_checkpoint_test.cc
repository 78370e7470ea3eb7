// The checkpointed index: what it saves a restart, and that losing or doubting it loses nothing.
#include "tier/nvme_restart_testing.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kSlotBytes = checkpoint_slot_bytes(NvmeHarness::kSegmentBytes);

std::string checkpoint_path(const NvmeHarness& harness) {
  return harness.directory() + "/" + kCheckpointName;
}

void checkpoint(NvmeHarness& harness) {
  EXPECT_EQ(harness.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
}

CheckpointRead read_back(NvmeHarness& harness) {
  auto read = read_checkpoint(harness.disk(), harness.directory(),
                              harness.nvme().superblock().store, NvmeHarness::kSegmentBytes);
  EXPECT_TRUE(read) << read.error().what;
  return *std::move(read);
}

void edit(const std::string& path, std::uint64_t offset,
          const std::function<void(std::span<std::byte>)>& change, std::size_t bytes = kPageBytes) {
  std::vector<std::byte> content(bytes);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<long>(offset));
  file.read(reinterpret_cast<char*>(content.data()), static_cast<long>(bytes));
  change(content);
  file.seekp(static_cast<long>(offset));
  file.write(reinterpret_cast<const char*>(content.data()), static_cast<long>(bytes));
  ASSERT_TRUE(file.good());
}

// 60 records of an unsealed segment that a checkpoint lists, and 10 behind them that it does not.
struct Listed {
  NvmeHarness harness;
  Written written;
  Listed() {
    written = write_records(harness, 30);
    harness.commit();
    checkpoint(harness);
    append(30);
    checkpoint(harness);
    append(10);
    harness.close();
  }
  void append(std::size_t count) {
    Written more = write_records(harness, count, 1000 + written.records.size());
    std::ranges::move(more.records, std::back_inserter(written.records));
    std::ranges::move(more.places, std::back_inserter(written.places));
    harness.commit();
  }
};

TEST(NvmeCheckpoint, AWalkBeginsWhereItsListEnds) {
  Listed listed;
  const Recovered& recovered = listed.harness.reopen();
  EXPECT_TRUE(recovered.checkpoint_used);
  EXPECT_TRUE(recovered.checkpoint_note.empty()) << recovered.checkpoint_note;
  EXPECT_EQ(recovered.walked_segments, 1U);
  expect_found(listed.harness, recovered, listed.written);
  const std::uint64_t listed_bytes = listed.written.places[60].offset;
  listed.harness.close();
  // Counted anew, without the loads above: the segment has a footer now, so both are taken away.
  const auto read_without = [&](bool without_checkpoint) {
    listed.harness.zero_page(0, NvmeHarness::kSegmentBytes - kPageBytes);
    if (without_checkpoint) std::filesystem::remove(checkpoint_path(listed.harness));
    EXPECT_EQ(listed.harness.reopen().walked_segments, 1U);
    const std::uint64_t bytes = listed.harness.nvme().stats().bytes_read;
    EXPECT_EQ(places_of(listed.harness.reopen()).size(), 70U);
    listed.harness.close();
    return bytes;
  };
  const std::uint64_t with = read_without(false), without = read_without(true);
  EXPECT_GE(without, NvmeHarness::kSegmentBytes);
  EXPECT_LE(with, NvmeHarness::kSegmentBytes - listed_bytes + 8 * kPageBytes);
}

TEST(NvmeCheckpoint, LostTornFlippedForeignOrCutOffItCostsAWalkNotARecord) {
  NvmeHarness stranger;
  write_records(stranger, 5);
  stranger.commit();
  checkpoint(stranger);
  stranger.close();
  struct Case {
    const char* name;
    std::function<void(const std::string& path)> damage;
    bool used;
    std::uint32_t damaged;
  };
  const auto flip = [](std::span<std::byte> bytes) { bytes[200] ^= std::byte{1}; };
  const std::vector<Case> cases{
      {"untouched", [](const std::string&) {}, true, 0},
      {"lost", [](const std::string& path) { std::filesystem::remove(path); }, false, 0},
      {"its newer slot torn",
       [](const std::string& path) {
         edit(path, kSlotBytes + kPageBytes,
              [](auto bytes) { std::ranges::fill(bytes, std::byte{}); });
       },
       true, 1},
      {"a bit flipped in the older slot", [&](const std::string& path) { edit(path, 0, flip); },
       true, 1},
      {"a bit flipped in both slots",
       [&](const std::string& path) {
         edit(path, 0, flip);
         edit(path, kSlotBytes, flip);
       },
       false, 2},
      {"of another store",
       [&](const std::string& path) {
         std::filesystem::copy_file(checkpoint_path(stranger), path,
                                    std::filesystem::copy_options::overwrite_existing);
       },
       false, 1},
      {"cut off in its newer slot",
       [](const std::string& path) { std::filesystem::resize_file(path, kSlotBytes + 100); }, true,
       1},
      {"emptied", [](const std::string& path) { std::filesystem::resize_file(path, 0); }, false, 0},
      {"full of noise",
       [](const std::string& path) {
         std::ofstream(path, std::ios::binary) << std::string(2 * kSlotBytes + 77, 'x');
       },
       false, 2}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Listed listed;
    one.damage(checkpoint_path(listed.harness));
    const Recovered& recovered = listed.harness.reopen();
    EXPECT_EQ(recovered.checkpoint_used, one.used);
    EXPECT_EQ(recovered.checkpoint_damaged, one.damaged);
    EXPECT_EQ(recovered.checkpoint_note.empty(), one.used && one.damaged == 0);
    expect_found(listed.harness, recovered, listed.written);
    EXPECT_EQ(std::filesystem::file_size(checkpoint_path(listed.harness)), 2 * kSlotBytes);
    checkpoint(listed.harness);  // And the next one is good again.
    EXPECT_TRUE(read_back(listed.harness).newest);
  }
}

TEST(NvmeCheckpoint, ANewerVersionIsRefusedAndNothingIsTouched) {
  Listed listed;
  NvmeHarness& harness = listed.harness;
  const auto make_newer = [](std::span<std::byte> page) {
    page[8] = std::byte{2};
    put_number<std::uint64_t>(page, 88, checksum64(page.first(88)));
  };
  edit(checkpoint_path(harness), 0, make_newer);  // Already one of two slots is enough.
  std::filesystem::resize_file(harness.segment_path(0), 1 << 20);
  const auto superblock = *read_file(harness.disk(), harness.directory() + "/store.meta", 4096);
  for (const StoreStart start : {StoreStart::recover, StoreStart::empty}) {
    NvmeOptions options = harness.options();
    options.start = start;
    const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid);
    EXPECT_NE(opened.error().what.find("newer"), std::string::npos) << opened.error().what;
    EXPECT_NE(opened.error().what.find(harness.directory()), std::string::npos);
  }
  EXPECT_EQ(*read_file(harness.disk(), harness.directory() + "/store.meta", 4096), superblock);
  EXPECT_EQ(std::filesystem::file_size(harness.segment_path(0)), 1U << 20);
  // The control: the same number without its sum is only damage.
  edit(checkpoint_path(harness), 0, [](auto page) { page[88] ^= std::byte{1}; });
  EXPECT_EQ(harness.reopen().checkpoint_damaged, 1U);
}

TEST(NvmeCheckpoint, AListOfAnEarlierLifeIsNotBelieved) {
  Listed listed;  // Its checkpoint lists 60 records of segment 0.
  NvmeHarness& harness = listed.harness;
  harness.reopen();
  ASSERT_EQ(harness.run_one({.type = OpType::reclaim, .place = {.segment = 0}}).outcome,
            Outcome::delivered);
  harness.log().start_segment(0);
  const Written fresh = write_records(harness, 3, 500);
  harness.commit();
  const Recovered& recovered = harness.reopen();
  EXPECT_TRUE(recovered.checkpoint_used) << "it is good, and stale";
  EXPECT_FALSE(recovered.segments[0].sealed);
  expect_found(harness, recovered, fresh);
}

TEST(NvmeCheckpoint, AStartThatEmptiesTakesItAway) {
  Listed listed;
  NvmeOptions options = listed.harness.options();
  options.start = StoreStart::empty;
  const auto opened = NvmeTier::open(listed.harness.disk(), listed.harness.directory(), options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_FALSE(opened->recovered.checkpoint_used);
  EXPECT_TRUE(opened->recovered.segments.empty());
}

// Whatever the order of stores, commits and checkpoints: what is listed is durable, and below its end nothing durable is missing.
TEST(NvmeCheckpoint, ListsOnlyWhatACompletedCommitCovers) {
  NvmeHarness harness;
  Rng rng(7);
  std::map<std::uint64_t, bool> committed;  // By offset in segment 0.
  std::uint64_t seed = 1, checks = 0, listed_total = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<TestRecord> records;
    std::vector<Op> ops;
    for (std::uint64_t i = rng.below(4); i > 0; --i) {
      records.push_back(make_test_record(seed++, 5000 + rng.below(40'000)));
      ops.push_back(records.back().store(harness.place(records.back().bytes.size())));
    }
    ASSERT_EQ(harness.log().segment(), 0U);
    const bool commits = rng.chance(0.4), in_one = rng.chance(0.5);
    for (const Op& op : ops) committed[op.place.offset] = false;
    if (commits) ops.push_back({.type = OpType::commit});
    // In one submit with what it must not list: the stores are under way then.
    if (in_one) ops.push_back({.type = OpType::checkpoint});
    for (const Completion& completion : harness.run(ops))
      ASSERT_EQ(completion.outcome, Outcome::delivered);
    if (commits && !in_one) {
      for (auto& [offset, durable] : committed) durable = true;
    }
    if (!in_one) checkpoint(harness);
    const CheckpointRead read = read_back(harness);
    ASSERT_TRUE(read.newest);
    std::set<std::uint64_t> listed;
    std::uint64_t end = kSegmentHeaderBytes;
    for (const CheckpointSegment& row : read.newest->segments) {
      end = row.data_end;
      for (const FooterEntry& entry : row.entries) listed.insert(entry.offset);
    }
    for (const auto& [offset, durable] : committed) {
      EXPECT_TRUE(durable || !listed.contains(offset)) << "not committed, and listed: " << offset;
      EXPECT_TRUE(!durable || offset >= end || listed.contains(offset))
          << "passed over: " << offset;
      EXPECT_TRUE(durable || offset >= end) << "the walk would pass over " << offset;
    }
    ++checks;
    listed_total += listed.size();
    if (commits && in_one) {
      for (auto& [offset, durable] : committed) durable = true;
    }
  }
  EXPECT_EQ(checks, 40U);
  EXPECT_GT(listed_total, 100U) << "hardly anything was listed: this shows nothing";
}

TEST(NvmeCheckpoint, IsDueAfterAQuarterOfASegmentOrABadRecord) {
  NvmeHarness harness;
  EXPECT_FALSE(harness.nvme().checkpoint_due());
  const std::uint64_t quarter = NvmeHarness::kSegmentBytes / 4;
  const std::size_t few = quarter / record_bytes(kPayload);
  Written written = write_records(harness, few);
  harness.commit();
  EXPECT_FALSE(harness.nvme().checkpoint_due());
  write_records(harness, 2, 500);
  EXPECT_FALSE(harness.nvme().checkpoint_due()) << "not committed yet";
  harness.commit();
  EXPECT_TRUE(harness.nvme().checkpoint_due());
  checkpoint(harness);
  EXPECT_FALSE(harness.nvme().checkpoint_due());
  EXPECT_EQ(harness.nvme().stats().checkpoints, 1U);
  harness.flip_bit(written.places[3], 50'000);
  EXPECT_EQ(harness.load(written.records[3], written.places[3]).error.code, Errc::corrupt);
  EXPECT_TRUE(harness.nvme().checkpoint_due());
  checkpoint(harness);
  EXPECT_FALSE(harness.nvme().checkpoint_due());
}

TEST(NvmeCheckpoint, AFailedWriteIsCountedFailsNoStoreAndLeavesTheLastGoodOne) {
  for (const IoType fails : {IoType::write, IoType::sync}) {
    NvmeHarness harness;
    Written written = write_records(harness, 10);
    harness.commit();
    checkpoint(harness);
    const std::uint64_t good = read_back(harness).newest->sequence;
    harness.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
      if (request.type == fails && request.file->path() == checkpoint_path(harness))
        return fail_errno("checkpoint", EIO);
      return std::nullopt;
    };
    EXPECT_EQ(harness.run_one({.type = OpType::checkpoint}).outcome, Outcome::error);
    EXPECT_EQ(harness.nvme().stats().checkpoint_errors, 1U);
    Written more = write_records(harness, 10, 100);
    harness.commit();
    harness.disk().hooks.on_request = {};
    const std::uint64_t newest = read_back(harness).newest->sequence;
    EXPECT_TRUE(newest == good || (fails == IoType::sync && newest == good + 1));
    checkpoint(harness);
    EXPECT_EQ(read_back(harness).newest->sequence, good + 1);
    const auto places = places_of(harness.reopen());
    EXPECT_EQ(places.size(), 20U);
  }
}

// The sealed segment's footer may be torn by a power cut until a commit has covered it: its records stay listed until then.
TEST(NvmeCheckpoint, ListsASealedSegmentUntilItsFooterIsDurable) {
  NvmeHarness harness;
  const Written written = write_records(harness, 20);
  harness.commit();
  harness.run_one({.type = OpType::seal, .place = {.segment = 0}});
  std::vector<Completion> none;
  harness.nvme().wait(none, 1'000'000'000);  // The footer is written, and not synced.
  checkpoint(harness);
  EXPECT_EQ(read_back(harness).newest->segments.at(0).entries.size(), 20U);
  harness.commit();
  checkpoint(harness);
  const CheckpointRead read = read_back(harness);
  EXPECT_TRUE(read.newest->segments.at(0).sealed);
  EXPECT_TRUE(read.newest->segments.at(0).entries.empty());
  harness.close();
  harness.zero_page(0, NvmeHarness::kSegmentBytes - kPageBytes);  // Lost all the same: a walk.
  expect_found(harness, harness.reopen(), written);
}

TEST(NvmeCheckpoint, SeveralThreadsFindWhatOneFinds) {
  NvmeHarness harness;
  write_records(harness, 700);  // Seven segments.
  harness.commit();
  harness.reopen();
  harness.close();
  harness.zero_page(3, NvmeHarness::kSegmentBytes - kPageBytes);
  harness.flip_bit_at(5, 40);
  std::vector<std::string> told;
  for (const std::uint32_t threads : {1U, 3U, 8U, 1000U}) {
    NvmeOptions options = harness.options();
    options.recovery_threads = threads;
    const auto opened = NvmeTier::open(harness.disk(), harness.directory(), options);
    ASSERT_TRUE(opened) << opened.error().what;
    std::string text;
    for (const RecoveredSegment& segment : opened->recovered.segments) {
      text += fmt::format("{} {}:", segment.segment, segment.sequence);
      for (const RecoveredRecord& record : segment.records) text += hex(record.key);
    }
    told.push_back(std::move(text));
  }
  for (const std::string& text : told) EXPECT_EQ(text, told.front());
  EXPECT_GT(told.front().size(), 700U * 32);
}

}  // namespace
}  // namespace tiercel
