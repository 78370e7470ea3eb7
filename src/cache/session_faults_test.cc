// Sessions on a disk that refuses, fills up, flips bits or loses the process at any step: a session is there as it was, or as it
// was to become, never half; the others are whole.
#include "base/checksum.h"
#include "cache/session_harness.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

namespace fs = std::filesystem;

// --- Damage ---

TEST(SessionFaults, ADamagedManifestCostsItsSessionAlone) {
  SessionHarness harness;
  TestSession good("good"), bad("bad");
  good.add_run(1, 3);
  bad.add_run(10, 3);
  ASSERT_TRUE(good.suspend(harness.store()));
  ASSERT_TRUE(bad.suspend(harness.store()));
  harness.close();
  SessionHarness::flip_bit(harness.manifest_path("bad"), 100);
  harness.reopen();
  EXPECT_EQ(harness.store().stats().damaged_manifests, 1U);
  ASSERT_FALSE(harness.store().notes().empty());
  EXPECT_NE(harness.store().notes()[0].find("checksum"), std::string::npos);
  EXPECT_TRUE(fs::exists(harness.manifest_path("bad") + ".damaged"));
  EXPECT_FALSE(harness.store().find("bad"));
  harness.expect_whole(good);
  ASSERT_TRUE(bad.suspend(harness.store())) << "the name can be used again";
  harness.reopen();
  EXPECT_EQ(harness.store().stats().damaged_manifests, 0U) << "counted once";
  harness.expect_whole(bad);
}

TEST(SessionFaults, AManifestUnderAnotherSessionsFileNameIsNotBelieved) {
  SessionHarness harness;
  TestSession a("a");
  a.add_run(1, 3);
  ASSERT_TRUE(a.suspend(harness.store()));
  harness.close();
  fs::copy_file(harness.manifest_path("a"), harness.manifest_path("b"));
  harness.reopen();
  EXPECT_EQ(harness.store().stats().damaged_manifests, 1U);
  EXPECT_EQ(harness.store().list()->size(), 1U);
  harness.expect_whole(a);
}

TEST(SessionFaults, AManifestOfANewerVersionStopsTheOpenAndIsNotTouched) {
  SessionHarness harness;
  TestSession a("a");
  a.add_run(1, 3);
  ASSERT_TRUE(a.suspend(harness.store()));
  auto bytes = encode_manifest(*harness.store().find("a"));
  harness.close();
  bytes[8] = std::byte{2};
  const std::uint64_t sum = checksum64(std::span(bytes).first(bytes.size() - 8));
  std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
  std::ofstream(harness.manifest_path("a"), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const auto refused = harness.try_reopen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_NE(refused.error().what.find("newer build"), std::string::npos) << refused.error().what;
  EXPECT_EQ(fs::file_size(harness.manifest_path("a")), bytes.size());
}

TEST(SessionFaults, OneFlippedBitInABlockIsAnErrorForThatBlockAloneAndCanBeMended) {
  SessionHarness harness;
  TestSession session("s"), sharer("t");
  session.add_run(1, 8);
  sharer.add_run(1, 8).add_run(70, 1);
  ASSERT_TRUE(session.suspend(harness.store()));
  ASSERT_TRUE(sharer.suspend(harness.store()));
  harness.close();
  // Blocks lie in order: header page, then 16 KiB each.
  SessionHarness::flip_bit(harness.directory() + "/" + segment_file_name(0),
                           kPageBytes + 5 * record_bytes(kBlockPayload) + 6000);
  harness.reopen();
  const SessionManifest manifest = *harness.store().find("s");
  const SessionRead read = read_session(harness.store(), manifest);
  EXPECT_EQ(read.delivered, 7U);
  EXPECT_EQ(read.wrong, 0U);
  EXPECT_EQ(read.failed_blocks, std::vector<std::size_t>{5});
  EXPECT_EQ(harness.store().missing(manifest), 1U) << "not whole, and says so";
  EXPECT_FALSE(harness.store().holds(manifest.blocks[5].key));
  TestSession again("s");
  again.add_run(1, 8);
  ASSERT_TRUE(again.suspend(harness.store()));
  EXPECT_EQ(again.reads, 1U) << "only the bad one";
  harness.expect_whole(session);
  harness.expect_whole(sharer);
  harness.reopen();
  harness.expect_whole(session);
  harness.expect_whole(sharer);
}

TEST(SessionFaults, ASessionWhoseSegmentIsGoneIsListedAsNotWhole) {
  SessionHarness harness;
  TestSession session("s");
  session.add_run(1, 5).with_state(1, 100);
  ASSERT_TRUE(session.suspend(harness.store()));
  harness.close();
  fs::remove(harness.directory() + "/" + segment_file_name(0));
  harness.reopen();
  const auto manifest = harness.store().find("s");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(harness.store().missing(*manifest), 6U);
  EXPECT_EQ(read_session(harness.store(), *manifest).failed, 5U);
  EXPECT_EQ(harness.store().read_state(*manifest).error().code, Errc::corrupt);
  ASSERT_TRUE(session.suspend(harness.store()));
  harness.expect_whole(session);
  ASSERT_TRUE(harness.store().forget("s"));
  EXPECT_EQ(harness.store().stats().live_bytes, 0U);
}

TEST(SessionFaults, LeftoversOfACrashAreRemovedAndCountedAndStrangersAreNotTouched) {
  SessionHarness harness;
  TestSession session("s");
  session.add_run(1, 2);
  ASSERT_TRUE(session.suspend(harness.store()));
  harness.close();
  std::ofstream(harness.manifest_path("s") + ".tmp") << "half";
  std::ofstream(harness.manifest_path("never") + ".tmp") << "";
  std::ofstream(harness.directory() + "/notes.tmp") << "mine";
  harness.reopen();
  EXPECT_EQ(harness.store().stats().leftovers_removed, 2U);
  EXPECT_FALSE(fs::exists(harness.manifest_path("s") + ".tmp"));
  EXPECT_TRUE(fs::exists(harness.directory() + "/notes.tmp"));
  harness.expect_whole(session);
}

TEST(SessionFaults, OnlyOneOpensAStore) {
  SessionHarness harness;
  const auto second = SessionStore::open(harness.disk(), harness.options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
}

// --- A disk that refuses ---

struct Refusals {
  bool syncs = false, writes = false, reads = false, full = false;
};

void refuse(SessionHarness& harness, const Refusals& refusals) {
  harness.disk().hooks.on_request = [&](const IoRequest& request) -> std::optional<Error> {
    const bool refused = (request.type == IoType::sync && refusals.syncs) ||
                         (request.type == IoType::write && refusals.writes) ||
                         (request.type == IoType::read && refusals.reads);
    if (!refused) return std::nullopt;
    return fail(Errc::io, "the disk was told to refuse", 5);
  };
  harness.disk().hooks.on_allocate = [&](const std::string&,
                                         std::uint64_t) -> std::optional<Error> {
    if (!refusals.full) return std::nullopt;
    return fail(Errc::no_space, "the disk was told to be full", 28);
  };
}

TEST(SessionFaults, ACommitThatFailedEndsAllChangesUntilTheNextOpenAndReadsGoOn) {
  SessionHarness harness;
  Refusals refusals;
  refuse(harness, refusals);
  TestSession before("before"), after("after");
  before.add_run(1, 3);
  after.add_run(10, 3);
  ASSERT_TRUE(before.suspend(harness.store()));
  refusals.syncs = true;
  EXPECT_EQ(after.suspend(harness.store()).error().code, Errc::io);
  refusals.syncs = false;
  EXPECT_EQ(after.suspend(harness.store()).error().code, Errc::io) << "trying again proves nothing";
  EXPECT_EQ(harness.store().forget("before").error().code, Errc::io);
  EXPECT_FALSE(harness.store().find("after"));
  harness.expect_whole(before);
  harness.reopen();
  harness.expect_whole(before);
  ASSERT_TRUE(after.suspend(harness.store()));
}

TEST(SessionFaults, AWriteThatFailsCostsThatSuspendAlone) {
  SessionHarness harness;
  Refusals refusals;
  refuse(harness, refusals);
  TestSession before("before"), after("after");
  before.add_run(1, 3);
  after.add_run(10, 8);  // In the segment that has its header: without one the tier takes no more.
  ASSERT_TRUE(before.suspend(harness.store()));
  refusals.writes = true;
  EXPECT_EQ(after.suspend(harness.store()).error().code, Errc::io);
  refusals.writes = false;
  EXPECT_FALSE(harness.store().find("after"));
  harness.expect_whole(before);
  ASSERT_TRUE(after.suspend(harness.store()));
  harness.expect_whole(after);
  harness.reopen();
  harness.expect_whole(before);
  harness.expect_whole(after);
}

// A quota smaller than the cap: the disk is full in the middle of a batch.
TEST(SessionFaults, ADiskThatIsFullBeforeTheCapIsNoSpaceAndRoomIsUsedOnceThereIsSome) {
  SessionHarness harness;
  Refusals refusals;
  refuse(harness, refusals);
  TestSession before("before"), gone("gone");
  before.add_run(1, 3);
  gone.add_run(5000, 40);
  ASSERT_TRUE(before.suspend(harness.store()));
  ASSERT_TRUE(gone.suspend(harness.store()));
  ASSERT_TRUE(harness.store().forget("gone"));
  const std::uint64_t on_disk = harness.disk_bytes();
  refusals.full = true;
  for (std::uint64_t n = 0; n < 20; ++n) {
    TestSession large("large"), small("small");
    large.add_run(1000 * n, 100);
    const auto refused = large.suspend(harness.store());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::no_space);
    small.add_run(70'000 + n, 1);  // The segments that are there have room for it.
    const auto suspended = small.suspend(harness.store());
    EXPECT_TRUE(suspended) << n << ": " << suspended.error().what;
    EXPECT_LE(harness.disk_bytes(), on_disk + 2 * kPageBytes);
  }
  harness.expect_whole(before);
  refusals.full = false;
  TestSession large("large");
  large.add_run(100'000, 100);
  ASSERT_TRUE(large.suspend(harness.store()));
  harness.reopen();
  harness.expect_whole(before);
  harness.expect_whole(large);
}

TEST(SessionFaults, AReadThatTheDiskRefusesIsAnErrorNowAndNoLossLater) {
  SessionHarness harness;
  Refusals refusals;
  refuse(harness, refusals);
  TestSession session("s");
  session.add_run(1, 4).with_state(3, 10);
  ASSERT_TRUE(session.suspend(harness.store()));
  refusals.reads = true;
  const SessionManifest manifest = *harness.store().find("s");
  EXPECT_EQ(read_session(harness.store(), manifest).failed, 4U);
  EXPECT_EQ(harness.store().read_state(manifest).error().code, Errc::io);
  refusals.reads = false;
  harness.expect_whole(session);
}

TEST(SessionFaults, AManifestThatCannotBeWrittenLeavesTheSessionAsItWas) {
  SessionHarness harness;
  TestSession session("s"), grown("s"), other("other");
  session.add_run(1, 3);
  grown.add_run(1, 3).add_run(50, 2);
  other.add_run(80, 2);
  ASSERT_TRUE(session.suspend(harness.store()));
  fs::create_directory(harness.manifest_path("s") + ".tmp");  // Nobody can open this for writing.
  EXPECT_FALSE(grown.suspend(harness.store()));
  harness.expect_whole(session);
  ASSERT_TRUE(other.suspend(harness.store())) << "it was that session's own misfortune";
  fs::remove(harness.manifest_path("s") + ".tmp");
  ASSERT_TRUE(grown.suspend(harness.store()));
  harness.expect_whole(grown);
}

// --- The process dies at any step ---

// Copies the directory at every request to the disk and at every opening of a file: what kill -9 would leave at that moment.
class Snapshots {
 public:
  Snapshots(SessionHarness& harness, int at_most) : harness_(harness), at_most_(at_most) {
    harness.disk().hooks.on_open = [this](const std::string& path) {
      if (path.ends_with(".tmp")) take();
    };
    harness.disk().hooks.on_request = [this](const IoRequest&) -> std::optional<Error> {
      take();
      return std::nullopt;
    };
    harness.disk().hooks.on_completion = [this](const IoCompletion&, IoType type,
                                                const std::string&) {
      if (type == IoType::sync) take();
    };
  }
  ~Snapshots() { harness_.disk().hooks = {}; }

  void take() {
    if (count_ == at_most_) return;
    const std::string to = directory_.path() + "/" + std::to_string(count_++);
    fs::create_directory(to);
    for (const auto& entry : fs::directory_iterator(harness_.directory()))
      fs::copy(entry.path(), to + "/" + entry.path().filename().string());
    suspended_.push_back(now_);
  }
  void set_now(int now) { now_ = now; }
  int count() const { return count_; }
  int now_at(int n) const { return suspended_[static_cast<std::size_t>(n)]; }
  std::string path(int n) const { return directory_.path() + "/" + std::to_string(n); }

 private:
  SessionHarness& harness_;
  const int at_most_;
  TemporaryDirectory directory_;
  int count_ = 0, now_ = 0;
  std::vector<int> suspended_;
};

void expect_whole_in(SessionStore& store, const TestSession& session) {
  const auto manifest = store.find(session.name);
  ASSERT_TRUE(manifest) << session.name;
  ASSERT_EQ(store.missing(*manifest), 0U) << session.name;
  ASSERT_EQ(manifest->blocks.size(), session.draft.blocks.size());
  EXPECT_EQ(read_session(store, *manifest),
            (SessionRead{.delivered = session.draft.blocks.size()}));
  EXPECT_EQ(*store.read_state(*manifest), session.state);
}

TEST(SessionFaults, KilledAtAnyStepOfASuspendLeavesTheOldSessionOrTheNewOne) {
  SessionHarness harness;
  TestSession other("other"), old_one("s"), new_one("s");
  other.add_run(500, 4);
  old_one.add_run(1, 6).with_state(1, 30'000);
  new_one.add_run(1, 5).add_run(90, 20).with_state(2, 50'000);
  ASSERT_TRUE(other.suspend(harness.store()));
  ASSERT_TRUE(old_one.suspend(harness.store()));
  Snapshots snapshots(harness, 1000);
  ASSERT_TRUE(new_one.suspend(harness.store()));
  snapshots.set_now(1);
  snapshots.take();
  ASSERT_GE(snapshots.count(), 8);
  int old_ones = 0, new_ones = 0;
  for (int n = 0; n < snapshots.count(); ++n) {
    SCOPED_TRACE(testing::Message() << "step " << n);
    SessionStore::Options options = harness.options();
    options.directory = snapshots.path(n);
    PosixDisk disk;
    auto store = SessionStore::open(disk, options);
    ASSERT_TRUE(store) << store.error().what;
    expect_whole_in(**store, other);
    const bool is_new = (*store)->find("s")->version == 2;
    EXPECT_TRUE(is_new || snapshots.now_at(n) == 0) << "it was acknowledged";
    ++(is_new ? new_ones : old_ones);
    expect_whole_in(**store, is_new ? new_one : old_one);
  }
  EXPECT_GT(old_ones, 5);
  EXPECT_GT(new_ones, 0);
}

// The share is full, and half of every segment is dead: room comes from moving what lives, through the only spare. A crash may
// come when the spare has got some of it, and must not leave a store that has no spare any more.
TEST(SessionFaults, KilledAtAnyStepOfACompactionTheStoreIsWholeAndStillHasRoom) {
  SessionHarness harness(16 * kMiB);
  std::vector<std::unique_ptr<TestSession>> kept;
  const auto add_small = [](TestSession& session, std::uint64_t first_seed, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) session.add(first_seed + i, i, {}, 4000);
  };
  for (std::uint64_t n = 0;; ++n) {
    auto keep = std::make_unique<TestSession>("keep " + std::to_string(n));
    TestSession go("go " + std::to_string(n));
    add_small(*keep, 1000 * n, 40);
    add_small(go, 1000 * n + 500, 40);
    if (!keep->suspend(harness.store())) break;
    kept.push_back(std::move(keep));
    if (!go.suspend(harness.store())) break;
  }
  ASSERT_GT(kept.size(), 15U);
  const auto sessions = *harness.store().list();
  for (const SessionManifest& session : sessions) {
    if (!session.name.starts_with("go")) continue;
    ASSERT_TRUE(harness.store().forget(session.name));
  }
  TestSession fresh("fresh");
  add_small(fresh, 900'000, 400);
  Snapshots snapshots(harness, 24);
  const auto suspended = fresh.suspend(harness.store());
  ASSERT_TRUE(suspended) << suspended.error().what;
  EXPECT_GT(harness.store().stats().compactions, 3U);
  ASSERT_EQ(snapshots.count(), 24);
  for (int n = 0; n < snapshots.count(); ++n) {
    SCOPED_TRACE(testing::Message() << "step " << n);
    SessionStore::Options options = harness.options();
    options.directory = snapshots.path(n);
    PosixDisk disk;
    auto store = SessionStore::open(disk, options);
    ASSERT_TRUE(store) << store.error().what;
    for (const auto& session : kept) expect_whole_in(**store, *session);
    TestSession again("fresh");
    add_small(again, 900'000, 400);
    const auto retried = again.suspend(**store);
    ASSERT_TRUE(retried) << retried.error().what;
    expect_whole_in(**store, again);
    for (const auto& session : kept) expect_whole_in(**store, *session);
  }
}

}  // namespace
}  // namespace tiercel
