// A session in a file: from one store to another, whole or not at all. Flipped bits: cache_session_limits_test.cc.
#include "cache/session_export.h"

#include <sstream>

#include "base/checksum.h"
#include "cache/session_harness.h"
#include "cache/session_listing.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Many sessions on few blocks: their manifests take more than a 64th of what the segments suggest.
TEST(SessionListing, AStoreIsOpenedByItsDirectoryAloneHoweverManyManifestsItHas) {
  SessionHarness harness(64 * kMiB);
  for (int n = 0; n < 100; ++n) {
    TestSession session("session " + std::to_string(n));
    ASSERT_TRUE(session.add_run(1, 1).suspend(harness.store()));
  }
  harness.close();
  const std::string store = fs::path(harness.directory()).parent_path();
  auto options = options_of_existing(harness.disk(), store);
  ASSERT_TRUE(options) << options.error().what;
  const ManualClock clock;
  options->clock = &clock;
  const auto opened = SessionStore::open(harness.disk(), *options);
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_EQ((*opened)->list()->size(), 100U);
}

class SessionExport : public testing::Test {
 protected:
  std::string file() const { return directory_.path() + "/session"; }
  Result<SessionManifest> import(SessionHarness& harness, const std::string& name = "") {
    return import_session(harness.store(), harness.disk(), file(), name, 2000);
  }

  TemporaryDirectory directory_;
  SessionHarness from_,
      to_{16 * kMiB};  // Whose records may be larger: tokens and state are cut anew.
};

TEST_F(SessionExport, ComesBackWholeInAnotherStore) {
  TestSession session("s");
  session.add_run(1, 7).with_state(4, 200'000, 5000);
  session.state.insert(session.state.end(), 300'000, std::byte{0});  // Equal pieces: stored once.
  session.draft.expires_unix_s = 5000;
  ASSERT_TRUE(session.suspend(from_.store()));
  const auto exported = export_session(from_.store(), from_.disk(), "s", file());
  ASSERT_TRUE(exported) << exported.error().what;
  EXPECT_FALSE(fs::exists(file() + ".tmp"));
  TestSession morning("morning");
  morning.add_run(1, 7).with_state(4, 200'000, 5000);
  morning.state = session.state;
  const auto imported = import(to_, "morning");
  ASSERT_TRUE(imported) << imported.error().what;
  EXPECT_EQ(imported->expires_unix_s, 5000);
  EXPECT_EQ(imported->version, 1U);
  ASSERT_TRUE(import(to_)) << "also under the name it had";
  to_.reopen();
  to_.expect_whole(morning);
  to_.expect_whole(session);
}

TEST_F(SessionExport, OneThatIsNotWholeIsNotExported) {
  TestSession session("s");
  session.add_run(1, 3);
  ASSERT_TRUE(session.suspend(from_.store()));
  from_.close();
  fs::remove(from_.directory() + "/segment-00000000");
  from_.reopen();
  const auto refused = export_session(from_.store(), from_.disk(), "s", file());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::corrupt);
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

TEST_F(SessionExport, ANewerVersionACutFileAndAnExpiredTtlAreRefused) {
  TestSession session("s");
  session.add_run(1, 2);
  session.draft.expires_unix_s = 1999;
  ASSERT_TRUE(session.suspend(from_.store()));
  ASSERT_TRUE(export_session(from_.store(), from_.disk(), "s", file()));
  EXPECT_EQ(import(to_).error().code, Errc::invalid);
  const std::vector<std::byte> good = bytes_of(file());
  auto newer = good;
  put_number<std::uint32_t>(newer, 8, 2);
  put_number<std::uint64_t>(newer, 56, checksum64(std::span(newer).first(56)));
  write_bytes(file(), newer);
  const auto refused = import(to_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_NE(refused.error().what.find("newer build"), std::string::npos);
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{63}, std::size_t{64}, good.size() / 2, good.size() - 1}) {
    write_bytes(file(), std::span(good).first(length));
    EXPECT_EQ(import(to_).error().code, Errc::corrupt) << length;
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  write_bytes(file(), longer);
  EXPECT_EQ(import(to_).error().code, Errc::corrupt);
  EXPECT_TRUE(to_.store().list()->empty());
}

TEST_F(SessionExport, RecordsOfAnotherSessionInItsPlaceAreNotBelieved) {
  TestSession a("a"), b("a");
  a.add_run(1, 3);
  b.add_run(10, 3);
  ASSERT_TRUE(a.suspend(from_.store()));
  ASSERT_TRUE(b.suspend(to_.store()));
  const std::string other = directory_.path() + "/other";
  ASSERT_TRUE(export_session(from_.store(), from_.disk(), "a", file()));
  ASSERT_TRUE(export_session(to_.store(), to_.disk(), "a", other));
  auto bytes = bytes_of(file());
  const auto foreign = bytes_of(other);
  ASSERT_EQ(bytes.size(), foreign.size());
  std::copy(foreign.begin() + 4096, foreign.begin() + 4096 + 16384, bytes.begin() + 4096);
  put_number<std::uint64_t>(bytes, bytes.size() - 8,
                            checksum64(std::span(bytes).first(bytes.size() - 8)));
  write_bytes(file(), bytes);
  const auto refused = import(to_, "mixed");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("not the one that the manifest lists"), std::string::npos);
}

}  // namespace
}  // namespace tiercel
