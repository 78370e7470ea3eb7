// What is durable when the disk refuses at the very end: a rename, a removal, the sync of the directory that makes them last.
#include "cache/session_harness.h"

namespace tiercel {
namespace {

// Hands everything on, and refuses what it is told to.
class EntryRefuser final : public Disk {
 public:
  explicit EntryRefuser(Disk& real) : real_(real) {}

  bool renames_fail = false, directory_syncs_fail = false;

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    return real_.open(path, mode);
  }
  Result<std::unique_ptr<File>> open_directory(const std::string& path) override {
    if (directory_syncs_fail) return fail(Errc::io, "the directory was told to refuse", 5);
    return real_.open_directory(path);
  }
  Result<void> make_directory(const std::string& path) override {
    return real_.make_directory(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return real_.list(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    if (renames_fail) return fail(Errc::io, "the rename was told to fail", 5);
    return real_.rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return real_.remove(path); }
  Result<DiskSpace> space(const std::string& path) override { return real_.space(path); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                         const std::string& note) override {
    return real_.lock(path, note);
  }
  Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) override {
    return real_.lock_shared(path);
  }
  Result<std::unique_ptr<IoQueue>> make_queue(const IoQueueOptions& options) override {
    return real_.make_queue(options);
  }
  std::vector<std::string> notes() const override { return real_.notes(); }

 private:
  Disk& real_;
};

class SessionDurability : public testing::Test {
 protected:
  SessionDurability() : refuser_(posix_) {
    harness_.close();
    reopen();
  }
  void reopen() {
    store_.reset();
    auto store = SessionStore::open(refuser_, harness_.options());
    EXPECT_TRUE(store) << store.error().what;
    store_ = std::move(*store);
  }
  void expect_whole(const TestSession& session) {
    const auto manifest = store_->find(session.name);
    ASSERT_TRUE(manifest) << manifest.error().what;
    EXPECT_EQ(read_session(*store_, *manifest),
              (SessionRead{.delivered = session.draft.blocks.size()}));
  }

  PosixDisk posix_;
  EntryRefuser refuser_;
  SessionHarness harness_;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionDurability, ARenameThatFailsLeavesTheSessionAsItWasAndTheStoreInService) {
  TestSession session("s"), grown("s");
  session.add_run(1, 3);
  grown.add_run(1, 2).add_run(50, 4);
  ASSERT_TRUE(session.suspend(*store_));
  refuser_.renames_fail = true;
  EXPECT_EQ(grown.suspend(*store_).error().code, Errc::io);
  refuser_.renames_fail = false;
  expect_whole(session);
  ASSERT_TRUE(grown.suspend(*store_)) << "the rename did not happen: nothing is in doubt";
  expect_whole(grown);
  reopen();
  EXPECT_EQ(store_->stats().leftovers_removed, 0U);
  expect_whole(grown);
}

// Renamed, and perhaps not durable: old or new, only a restart tells. Until then the records of both must stay.
TEST_F(SessionDurability, ARenameThatMayNotLastEndsAllChangesAndARestartFindsTheNewOneWhole) {
  TestSession session("s"), grown("s"), other("other");
  session.add_run(1, 3);
  grown.add_run(1, 2).add_run(50, 4);
  other.add_run(90, 1);
  ASSERT_TRUE(session.suspend(*store_));
  refuser_.directory_syncs_fail = true;
  EXPECT_EQ(grown.suspend(*store_).error().code, Errc::io);
  refuser_.directory_syncs_fail = false;
  expect_whole(session);
  EXPECT_EQ(other.suspend(*store_).error().code, Errc::io);
  EXPECT_EQ(store_->forget("s").error().code, Errc::io);
  reopen();
  EXPECT_EQ(store_->find("s")->version, 2U);
  expect_whole(grown);
  ASSERT_TRUE(other.suspend(*store_));
}

TEST_F(SessionDurability, ARemovalThatMayNotLastEndsAllChangesToo) {
  TestSession session("s"), other("other");
  session.add_run(1, 3);
  other.add_run(90, 1);
  ASSERT_TRUE(session.suspend(*store_));
  refuser_.directory_syncs_fail = true;
  EXPECT_EQ(store_->forget("s").error().code, Errc::io);
  refuser_.directory_syncs_fail = false;
  EXPECT_EQ(other.suspend(*store_).error().code, Errc::io)
      << "a power cut may bring the session back, so its records stay";
  reopen();
  ASSERT_TRUE(other.suspend(*store_));
}

}  // namespace
}  // namespace tiercel
