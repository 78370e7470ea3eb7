// The cold tier: conformance over ring, threads and buffered I/O; requests, commits, the cap, faults of the disk.
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "tier/nvme_harness.h"

namespace tiercel {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Cold, TierConformance,
    testing::Values(
        HarnessFactory{"ring", [] { return std::make_unique<NvmeHarness>(IoEngine::ring); }},
        HarnessFactory{"threads", [] { return std::make_unique<NvmeHarness>(IoEngine::threads); }},
        HarnessFactory{"buffered",
                       [] { return std::make_unique<NvmeHarness>(IoEngine::ring, false); }}),
    [](const auto& factory) { return factory.param.name; });

struct Request {
  IoType type;
  std::string path;
  std::uint64_t offset, bytes;
};

// Writes down every request from now on.
std::shared_ptr<std::vector<Request>> record_requests(NvmeHarness& harness) {
  auto list = std::make_shared<std::vector<Request>>();
  harness.disk().hooks.on_request = [list](const IoRequest& request) {
    std::uint64_t bytes = 0;
    for (const IoPiece& piece : request.pieces) bytes += piece.bytes;
    list->push_back({request.type, request.file->path(), request.offset, bytes});
    return std::optional<Error>();
  };
  return list;
}

std::vector<Op> store_ops(NvmeHarness& harness, const std::vector<TestRecord>& records,
                          std::vector<Place>* places = nullptr) {
  std::vector<Op> ops;
  for (const TestRecord& record : records) {
    ops.push_back(record.store(harness.place(record.bytes.size())));
    if (places != nullptr) places->push_back(ops.back().place);
  }
  return ops;
}

std::vector<TestRecord> make_records(std::size_t count, std::uint64_t payload,
                                     std::uint64_t seed = 1) {
  std::vector<TestRecord> records;
  for (std::size_t i = 0; i < count; ++i) records.push_back(make_test_record(seed + i, payload));
  return records;
}

TEST(NvmeTier, AdjacentStoresAndLoadsBecomeLargeRequests) {
  NvmeHarness harness;
  const auto requests = record_requests(harness);
  const auto records = make_records(60, 65536);
  std::vector<Place> places;
  for (const Completion& completion : harness.run(store_ops(harness, records, &places))) {
    ASSERT_EQ(completion.outcome, Outcome::delivered);
  }
  EXPECT_LE(requests->size(), 5U) << "60 records of 68 KiB in requests of up to 1 MiB";
  for (const Request& request : *requests)
    EXPECT_LE(request.bytes, (1U << 20) + kSegmentHeaderBytes);
  requests->clear();
  std::vector<AlignedBytes> back;
  std::vector<Op> loads;
  for (std::size_t i = 0; i < records.size(); ++i) {
    back.emplace_back(records[i].bytes.size());
    loads.push_back(records[i].load(places[i], back[i].span()));
  }
  for (const Completion& completion : harness.run(loads))
    ASSERT_EQ(completion.outcome, Outcome::delivered);
  EXPECT_LE(requests->size(), 5U);
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(back[i].span(), records[i].bytes.span()));
}

TEST(NvmeTier, OneDamagedRecordInALargeReadSpoilsOnlyItself) {
  NvmeHarness harness;
  const auto records = make_records(10, 65536);
  std::vector<Place> places;
  harness.run(store_ops(harness, records, &places));
  harness.flip_bit(places[4], 30'000);
  std::vector<AlignedBytes> back;
  std::vector<Op> loads;
  for (std::size_t i = 0; i < records.size(); ++i) {
    back.emplace_back(records[i].bytes.size());
    loads.push_back(records[i].load(places[i], back[i].span()));
  }
  const auto done = harness.run(loads);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].outcome, i == 4 ? Outcome::error : Outcome::delivered) << i;
  }
}

TEST(NvmeTier, ACommitSyncsEachTouchedFileOnceAfterItsWrites) {
  NvmeHarness harness;
  const auto records = make_records(6, 65536);
  std::vector<Op> ops;
  for (std::size_t i = 0; i < 6; ++i) {
    if (i % 3 == 0) harness.log().start_segment(static_cast<std::uint32_t>(i));
    ops.push_back(records[i].store(harness.place(records[i].bytes.size())));
  }
  std::size_t writes_open = 0, syncs = 0, directory_syncs = 0;
  bool sync_too_early = false;
  harness.disk().hooks.on_request = [&](const IoRequest& request) {
    if (request.type == IoType::write) ++writes_open;
    if (request.type == IoType::sync) {
      sync_too_early = sync_too_early || writes_open > 0;
      ++(request.file->path() == harness.directory() ? directory_syncs : syncs);
    }
    return std::optional<Error>();
  };
  harness.disk().hooks.on_completion = [&](const IoCompletion&, IoType type, const std::string&) {
    if (type == IoType::write) --writes_open;
  };
  ops.push_back({.type = OpType::commit});
  for (const Completion& completion : harness.run(ops))
    EXPECT_EQ(completion.outcome, Outcome::delivered);
  EXPECT_EQ(syncs, 2U);
  EXPECT_EQ(directory_syncs, 1U) << "the files are new";
  EXPECT_FALSE(sync_too_early);
  harness.commit();
  EXPECT_EQ(syncs, 2U) << "nothing was written since";
  harness.store(records[0]);
  harness.commit();
  EXPECT_EQ(syncs, 3U);
  EXPECT_EQ(directory_syncs, 1U);
}

TEST(NvmeTier, AFailedSyncEndsStoringButNotLoading) {
  NvmeHarness harness;
  const auto records = make_records(3, 65536);
  const Place place = harness.store(records[0]);
  harness.commit();
  harness.store(records[1]);
  bool fail_syncs = true;
  harness.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
    if (request.type == IoType::sync && fail_syncs) return fail_errno("sync", EIO);
    return std::nullopt;
  };
  const Completion commit = harness.run_one({.type = OpType::commit});
  EXPECT_EQ(commit.outcome, Outcome::error);
  EXPECT_EQ(commit.error.code, Errc::io);
  fail_syncs = false;  // A disk that says it is well again proves nothing about what it lost.
  EXPECT_EQ(harness.run_one({.type = OpType::commit}).outcome, Outcome::error);
  EXPECT_EQ(harness.run_one(records[2].store(harness.place(records[2].bytes.size()))).outcome,
            Outcome::error);
  EXPECT_EQ(harness.load(records[0], place).outcome, Outcome::delivered);
}

TEST(NvmeTier, AFailedWriteIsAnErrorOfItsStoresAndHidesNoOthers) {
  NvmeHarness harness;
  const auto first = make_records(3, 65536), second = make_records(3, 65536, 10),
             third = make_records(3, 65536, 20);
  harness.run(store_ops(harness, first));
  bool fail_writes = true;
  harness.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
    if (request.type == IoType::write && fail_writes)
      return fail(Errc::no_space, "write: no space", ENOSPC);
    return std::nullopt;
  };
  for (const Completion& completion : harness.run(store_ops(harness, second))) {
    EXPECT_EQ(completion.outcome, Outcome::error);
    EXPECT_EQ(completion.error.code, Errc::no_space);
  }
  fail_writes = false;
  std::vector<Place> places;
  for (const Completion& completion : harness.run(store_ops(harness, third, &places))) {
    EXPECT_EQ(completion.outcome, Outcome::delivered);
  }
  harness.commit();
  const Recovered& recovered = harness.reopen();
  ASSERT_EQ(recovered.segments.size(), 1U);
  EXPECT_EQ(recovered.segments[0].records.size(), 6U) << "acknowledged records lie behind the hole";
  EXPECT_EQ(harness.load(third[2], places[2]).outcome, Outcome::delivered);
}

TEST(NvmeTier, AFullDiskIsNoSpaceForThatStoreOnly) {
  NvmeHarness harness;
  const auto records = make_records(4, 65536);
  const Place kept = harness.store(records[0]);
  bool full = true;
  harness.disk().hooks.on_allocate = [&](const std::string& path,
                                         std::uint64_t) -> std::optional<Error> {
    if (full) return fail(Errc::no_space, "allocate " + path, ENOSPC);
    return std::nullopt;
  };
  harness.log().start_segment(1);
  const Completion refused =
      harness.run_one(records[1].store(harness.place(records[1].bytes.size())));
  EXPECT_EQ(refused.outcome, Outcome::error);
  EXPECT_EQ(refused.error.code, Errc::no_space);
  EXPECT_EQ(harness.load(records[0], kept).outcome, Outcome::delivered);
  harness.commit();
  full = false;
  const Place later = harness.store(
      records[2]);  // The segment's first store never came to be: its header goes alone.
  harness.commit();
  EXPECT_EQ(harness.load(records[2], later).outcome, Outcome::delivered);
  const Recovered& recovered = harness.reopen();
  ASSERT_EQ(recovered.segments.size(), 2U);
  EXPECT_EQ(recovered.segments[1].records[0].place, later);
}

TEST(NvmeTier, NeverTakesMoreOfTheDiskThanItsCap) {
  NvmeHarness harness;
  const auto records = make_records(1, 1'000'000);
  const std::uint64_t bytes = records[0].bytes.size();
  for (std::uint32_t i = 0; i < harness.nvme().segment_count_max(); ++i) {
    harness.log().start_segment(i);
    harness.store(records[0]);
  }
  harness.commit();
  for (int i = 0; i < 3; ++i)  // Both slots, and one again.
    EXPECT_EQ(harness.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
  std::uint64_t physical = 0;
  const auto names = harness.disk().list(harness.directory());
  for (const auto& name : *names) {
    physical +=
        (*harness.disk().open(harness.directory() + "/" + name, {}))->status()->allocated_bytes;
  }
  EXPECT_LE(physical, NvmeHarness::kCapacity);
  EXPECT_GE(physical,
            8 * NvmeHarness::kSegmentBytes + checkpoint_file_bytes(NvmeHarness::kSegmentBytes))
      << "all of it is under the one cap";
  EXPECT_LE(harness.nvme().physical_bytes(), NvmeHarness::kCapacity);
  EXPECT_GE(harness.nvme().physical_bytes(), physical);
  const Op beyond = records[0].store({.segment = 8, .offset = kSegmentHeaderBytes, .bytes = bytes});
  EXPECT_EQ(harness.nvme().submit(std::span(&beyond, 1)).error().code, Errc::invalid);
}

TEST(NvmeTier, ALogGoesForwardAndStopsBeforeItsFooter) {
  NvmeHarness harness;
  const auto record = make_test_record(1, 65536);
  const std::uint64_t bytes = record.bytes.size();
  const auto refused = [&](const Place& place) {
    const Op op = record.store(place);
    return harness.nvme().submit(std::span(&op, 1)).error().code;
  };
  EXPECT_EQ(refused({.segment = 0, .offset = 8192, .bytes = bytes}), Errc::invalid)
      << "a life starts at its first page";
  harness.store(record);
  EXPECT_EQ(refused({.segment = 0, .offset = kSegmentHeaderBytes, .bytes = bytes}), Errc::invalid)
      << "written already";
  EXPECT_EQ(refused({.segment = 0, .offset = NvmeHarness::kSegmentBytes - bytes, .bytes = bytes}),
            Errc::invalid)
      << "over the footer";
  EXPECT_EQ(refused({.segment = 0, .offset = 0, .bytes = bytes}), Errc::invalid)
      << "over the header";
}

TEST(NvmeTier, ACommitCoversWhatCameBeforeItNotWhatComesAfter) {
  NvmeHarness harness;
  const auto records = make_records(40, 65536);
  auto ops = store_ops(harness, records);
  ops.insert(ops.begin() + 20, {.type = OpType::commit});
  ops.push_back({.type = OpType::commit});
  for (const Completion& completion : harness.run(ops))
    EXPECT_EQ(completion.outcome, Outcome::delivered);
  EXPECT_EQ(harness.nvme().stats().commits, 2U);
}

TEST(NvmeTier, UrgentLoadsGoFirst) {
  NvmeHarness harness(IoEngine::ring);
  const auto records = make_records(30, 900'000);
  std::vector<Place> places;
  harness.run(store_ops(harness, records, &places));
  const auto requests = record_requests(harness);
  std::vector<AlignedBytes> back;
  std::vector<Op> loads;
  for (std::size_t i = 0; i < records.size(); ++i) {
    back.emplace_back(records[i].bytes.size());
    loads.push_back(records[i].load(places[i], back[i].span()));
    loads[i].priority = i == 29 ? 0 : 5;
  }
  harness.run(loads);
  ASSERT_GT(requests->size(), 20U);
  EXPECT_EQ(requests->front().offset, places[29].offset)
      << "all of one submit are queued before the first starts";
}

TEST(NvmeTier, ReclaimWithAnOpUnderWayIsABrokenInvariant) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto reclaim_too_early = [] {
    NvmeHarness harness;
    const auto record = make_test_record(1, 65536);
    const Op ops[] = {record.store(harness.place(record.bytes.size())), {.type = OpType::reclaim}};
    static_cast<void>(harness.nvme().submit(ops));
  };
  EXPECT_DEATH(reclaim_too_early(), "broken invariant");
}

// The counters against what the kernel says about this process.
TEST(NvmeTier, CountedBytesAreTheDevicesBytes) {
  const auto kernel = [](const char* name) {
    std::ifstream file("/proc/self/io");
    std::string key;
    for (std::uint64_t value = 0; file >> key >> value;) {
      if (key == name) return value;
    }
    return std::uint64_t{0};
  };
  NvmeHarness harness;
  if (!harness.disk().notes().empty())
    GTEST_SKIP() << "no direct I/O here, so the kernel's counters lag: "
                 << harness.disk().notes()[0];
  const TierStats before = harness.nvme().stats();
  const std::uint64_t read_before = kernel("read_bytes:"), written_before = kernel("write_bytes:");
  std::vector<Place> places;
  for (int round = 0; round < 5; ++round) {
    const auto records = make_records(60, 200'000, 100U * round);
    places.clear();
    harness.run(store_ops(harness, records, &places));
    for (std::size_t i = 0; i < records.size(); ++i) harness.load(records[i], places[i]);
  }
  harness.commit();
  const TierStats after = harness.nvme().stats();
  const auto read = static_cast<double>(kernel("read_bytes:") - read_before);
  const auto written = static_cast<double>(kernel("write_bytes:") - written_before);
  EXPECT_NEAR(static_cast<double>(after.bytes_read - before.bytes_read) / read, 1.0, 0.02);
  EXPECT_NEAR(static_cast<double>(after.bytes_written + after.bytes_format - before.bytes_written -
                                  before.bytes_format) /
                  written,
              1.0, 0.02);
}

}  // namespace
}  // namespace tiercel
