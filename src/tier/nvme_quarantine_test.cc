// A record that proves bad: never given out again, also not by the next process; and what ends that.
#include "tier/nvme_restart_testing.h"

namespace tiercel {
namespace {

// 20 records in a sealed segment, the footer durable.
struct Sealed {
  NvmeHarness harness;
  Written written;
  Sealed() {
    written = write_records(harness, 20);
    harness.commit();
    harness.reopen();
  }
  void spoil(std::size_t i) { harness.flip_bit(written.places[i], 50'000); }
  Errc load(std::size_t i) {
    return harness.load(written.records[i], written.places[i]).error.code;
  }
  void checkpoint() {
    EXPECT_EQ(harness.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
  }
};

TEST(NvmeQuarantine, ABadRecordDoesNotComeBackWithTheNextProcess) {
  for (const bool kept : {true, false}) {  // Without the checkpoint: the control.
    SCOPED_TRACE(kept ? "with a checkpoint" : "without one");
    Sealed sealed;
    sealed.spoil(7);
    EXPECT_EQ(sealed.load(7), Errc::corrupt);
    EXPECT_EQ(sealed.harness.nvme().stats().quarantined, 1U);
    if (kept) sealed.checkpoint();
    const Recovered& recovered = sealed.harness.reopen();
    EXPECT_EQ(recovered.quarantined, kept ? 1U : 0U);
    EXPECT_TRUE(recovered.segments[0].sealed) << "the footer still lists it";
    if (kept) {
      expect_found(sealed.harness, recovered, sealed.written, {7});
      EXPECT_EQ(sealed.harness.reopen().quarantined, 1U) << "and it stays so";
    } else {
      EXPECT_TRUE(places_of(recovered).contains(sealed.written.records[7].head.key));
      EXPECT_EQ(sealed.load(7), Errc::corrupt) << "found bad once more, never given out";
    }
  }
}

TEST(NvmeQuarantine, EveryWayToBeBadIsOne) {
  for (const std::uint64_t byte : {std::uint64_t{0}, kPlacementOffset + 20, std::uint64_t{40},
                                   kRecordHeaderBytes + 40, kPageBytes + 77}) {
    SCOPED_TRACE(byte);  // Magic, place echo, head, chunk table, body.
    Sealed sealed;
    sealed.harness.flip_bit(sealed.written.places[3], byte);
    EXPECT_EQ(sealed.load(3), Errc::corrupt);
    sealed.checkpoint();
    expect_found(sealed.harness, sealed.harness.reopen(), sealed.written, {3});
  }
}

TEST(NvmeQuarantine, VerifyTellsItWithItsReasonAndNotAsNewDamage) {
  Sealed sealed;
  sealed.spoil(7);
  EXPECT_EQ(sealed.load(7), Errc::corrupt);
  sealed.checkpoint();
  sealed.spoil(9);  // Bad too, and nobody knows yet.
  sealed.harness.close();
  for (const StoreReading reading : {StoreReading::inspect, StoreReading::verify}) {
    const auto report = read_store(sealed.harness.disk(), sealed.harness.directory(), reading);
    ASSERT_TRUE(report) << report.error().what;
    const bool verify = reading == StoreReading::verify;
    EXPECT_EQ(report->damaged, verify ? 1U : 0U);
    EXPECT_EQ(report->records, verify ? 18U : 19U);
    ASSERT_EQ(report->quarantined.size(), 1U);
    EXPECT_EQ(report->quarantined[0].key, sealed.written.records[7].head.key);
    EXPECT_EQ(report->quarantined[0].offset, sealed.written.places[7].offset);
    EXPECT_NE(report->quarantined[0].reason.find("checksum of chunk 0"), std::string::npos);
    EXPECT_GT(report->quarantined[0].unix_s, 1'700'000'000);
    EXPECT_EQ(report->checkpoint_sequence, 1U);
    EXPECT_TRUE(report->other_files.empty());
  }
}

TEST(NvmeQuarantine, VerifyTellsADamagedCheckpoint) {
  Sealed sealed;
  sealed.checkpoint();
  sealed.harness.close();
  std::filesystem::create_directory(sealed.harness.directory() + "/sessions");
  const auto verify = [&] {
    return *read_store(sealed.harness.disk(), sealed.harness.directory(), StoreReading::verify);
  };
  EXPECT_EQ(verify().damaged, 0U);
  EXPECT_TRUE(verify().other_files.empty()) << "the sessions are ours";
  const std::string path = sealed.harness.directory() + "/" + kCheckpointName;
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(300) << 'x';
  const StoreReport report = verify();
  EXPECT_EQ(report.damaged, 1U);
  ASSERT_EQ(report.complaints.size(), 1U);
  EXPECT_NE(report.complaints[0].find("index.checkpoint, slot 0"), std::string::npos);
}

TEST(NvmeQuarantine, ANewLifeOfTheSegmentEndsIt) {
  Sealed sealed;
  NvmeHarness& harness = sealed.harness;
  sealed.spoil(7);
  EXPECT_EQ(sealed.load(7), Errc::corrupt);
  sealed.checkpoint();
  harness.run_one({.type = OpType::reclaim, .place = {.segment = 0}});
  harness.log().start_segment(0);
  const Written fresh = write_records(harness, 20);  // The same keys at the same offsets.
  harness.commit();
  const Recovered& recovered = harness.reopen();  // The checkpoint still names the old place.
  EXPECT_TRUE(recovered.checkpoint_used);
  EXPECT_EQ(recovered.quarantined, 0U);
  expect_found(harness, recovered, fresh);
  harness.close();
  EXPECT_TRUE(
      read_store(harness.disk(), harness.directory(), StoreReading::verify)->quarantined.empty());
}

// A caller that asks for the wrong key must not take the right record from those who will ask for it.
TEST(NvmeQuarantine, AskingForTheWrongKeyHidesNothing) {
  Sealed sealed;
  const Place& place = sealed.written.places[4];
  const TestRecord stranger = make_test_record(999, kPayload);
  EXPECT_EQ(sealed.harness.load(stranger, place).error.code, Errc::corrupt);
  sealed.checkpoint();
  expect_found(sealed.harness, sealed.harness.reopen(), sealed.written);
}

// And the right record, bad in its turn, is quarantined although a wrong one was asked for there before.
TEST(NvmeQuarantine, AWrongKeyDoesNotStandForTheRightOne) {
  Sealed sealed;
  EXPECT_EQ(
      sealed.harness.load(make_test_record(999, kPayload), sealed.written.places[4]).error.code,
      Errc::corrupt);
  sealed.spoil(4);
  EXPECT_EQ(sealed.load(4), Errc::corrupt);
  EXPECT_EQ(sealed.harness.nvme().stats().quarantined, 2U);
  sealed.checkpoint();
  expect_found(sealed.harness, sealed.harness.reopen(), sealed.written, {4});
}

TEST(NvmeQuarantine, ASegmentOfWhichEveryRecordIsQuarantinedKeepsItsPlaces) {
  NvmeHarness harness;
  const Written written = write_records(harness, 2);
  harness.commit();
  harness.reopen();
  for (std::size_t i = 0; i < 2; ++i) {
    harness.flip_bit(written.places[i], 50'000);
    EXPECT_EQ(harness.load(written.records[i], written.places[i]).error.code, Errc::corrupt);
  }
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(harness.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
    expect_found(harness, harness.reopen(), written, {0, 1});
  }
  // A new life ends it here too.
  harness.log().start_segment(0);
  const Written fresh = write_records(harness, 2);
  harness.commit();
  EXPECT_EQ(harness.run_one({.type = OpType::checkpoint}).outcome, Outcome::delivered);
  expect_found(harness, harness.reopen(), fresh);
}

TEST(NvmeQuarantine, IsBoundedAndTheOldestGoFirst) {
  Quarantine quarantine(3);
  for (std::uint64_t i = 1; i <= 4; ++i)
    EXPECT_TRUE(quarantine.add({.segment = 0, .life = {}, .offset = i * kPageBytes}));
  EXPECT_FALSE(quarantine.add({.segment = 0, .life = {}, .offset = 4 * kPageBytes})) << "known";
  EXPECT_EQ(quarantine.places().size(), 3U);
  EXPECT_FALSE(quarantine.holds(0, kPageBytes, {}));
  EXPECT_TRUE(quarantine.holds(0, 2 * kPageBytes, {}));
  quarantine.end_life(0);
  EXPECT_TRUE(quarantine.places().empty());
}

}  // namespace
}  // namespace tiercel
