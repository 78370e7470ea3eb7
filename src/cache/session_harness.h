// A session store on a directory of its own, for tests: drafts whose bytes follow from their keys, everything read is compared.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "cache/session_store.h"
#include "io/faulty_disk.h"
#include "io/posix_disk.h"
#include "io/temporary_directory.h"
#include "kv/chain.h"

namespace tiercel {

inline constexpr std::uint64_t kBlockPayload = 12'000;  // Not of whole pages; a record has 16 KiB.
inline constexpr std::uint32_t kSessionTokens = 16;

inline std::vector<std::byte> session_bytes(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> content(bytes);
  Rng rng(seed);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = rng.next();
    std::memcpy(content.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return content;
}

// A session as an engine has it: a prompt of blocks, by seeds; the block of a seed has the same key and bytes everywhere.
struct TestSession {
  std::string name;
  SessionDraft draft;
  std::vector<std::uint32_t> tokens;
  std::vector<std::byte> state;
  std::uint64_t reads = 0;  // Blocks that the store asked for.

  explicit TestSession(std::string name_) : name(std::move(name_)) {
    draft.name = name;
    draft.block_tokens = kSessionTokens;
    draft.now_unix_s = 1000;
  }
  TestSession(const TestSession&) = delete;

  TestSession& add(std::uint64_t seed, std::uint32_t index, Kind kind = {},
                   std::uint64_t bytes = kBlockPayload) {
    SessionSource source{.head = {}, .index = index, .bytes = bytes};
    source.head.fingerprint.bytes.fill(static_cast<std::uint8_t>(7 + kind.id));
    source.head.prefix.bytes.fill(static_cast<std::uint8_t>(seed));
    std::memcpy(source.head.prefix.bytes.data(), &seed, sizeof seed);
    source.head.key = make_key(source.head.prefix, source.head.fingerprint, kind);
    source.head.kind = kind;
    source.head.token_count = kSessionTokens;
    draft.blocks.push_back(source);
    draft.position = std::max(draft.position, index + 1);
    draft.token_count = std::uint64_t{draft.position} * kSessionTokens;
    return *this;
  }
  TestSession& add_run(std::uint64_t first_seed, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) add(first_seed + i, draft.position);
    return *this;
  }
  TestSession& with_state(std::uint64_t seed, std::uint64_t bytes, std::size_t token_count = 0) {
    state = session_bytes(seed, bytes);
    tokens.resize(token_count);
    Rng rng(seed + 1);
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(rng.next());
    return *this;
  }

  Result<SessionManifest> suspend(SessionStore& store, std::int64_t deadline_ns = 0) {
    draft.tokens = tokens;
    draft.state = state;
    draft.read = [this](std::size_t block, std::span<std::byte> payload) -> Result<void> {
      ++reads;
      const auto content = session_bytes(draft.blocks[block].head.key.low64(), payload.size());
      std::ranges::copy(content, payload.begin());
      return {};
    };
    return store.suspend(draft, deadline_ns);
  }
};

struct SessionRead {
  std::size_t delivered = 0, missed = 0, failed = 0, wrong = 0;
  std::vector<std::size_t> failed_blocks;
  bool operator==(const SessionRead&) const = default;
};

inline SessionRead read_session(SessionStore& store, const SessionManifest& manifest,
                                std::int64_t deadline_ns = 0) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<ScatterList> lists;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < manifest.blocks.size(); ++i) {
    const std::span<std::byte> all(memory.emplace_back(manifest.blocks[i].bytes));
    lists.push_back({host_piece(all.first(33)), host_piece(all.subspan(33))});
    which.push_back(i);
  }
  SessionRead read;
  std::size_t next = 0;
  const auto outcome = store.read(manifest, which, lists, deadline_ns,
                                  [&](std::size_t i, Outcome how, const Error&) {
                                    EXPECT_EQ(i, next++) << "in order";
                                    if (how == Outcome::miss) ++read.missed;
                                    if (how == Outcome::error) {
                                      ++read.failed;
                                      read.failed_blocks.push_back(i);
                                    }
                                    if (how != Outcome::delivered) return;
                                    ++read.delivered;
                                    const SessionBlock& block = manifest.blocks[i];
                                    if (memory[i] != session_bytes(block.key.low64(), block.bytes))
                                      ++read.wrong;
                                  });
  EXPECT_TRUE(outcome) << outcome.error().what;
  return read;
}

class SessionHarness {
 public:
  explicit SessionHarness(std::uint64_t capacity_bytes = 4 * kMiB) : disk_(real_disk_) {
    options_.directory = temporary_.path() + "/sessions";
    options_.capacity_bytes = capacity_bytes;
    options_.record_bytes_max = record_bytes(kBlockPayload);
    options_.clock = &clock_;
    reopen();
  }

  // The store, or the error of its last open.
  Result<void> try_reopen() {
    store_.reset();
    auto opened = SessionStore::open(disk_, options_);
    if (!opened) return opened.error();
    store_ = std::move(*opened);
    return {};
  }
  void reopen() {
    const auto opened = try_reopen();
    ASSERT_TRUE(opened) << opened.error().what;
  }
  void close() { store_.reset(); }

  SessionStore& store() { return *store_; }
  FaultyDisk& disk() { return disk_; }
  ManualClock& clock() { return clock_; }
  SessionStore::Options& options() { return options_; }
  const std::string& directory() const { return options_.directory; }
  std::string manifest_path(const std::string& name) const {
    return options_.directory + "/" + manifest_file_name(name);
  }

  // The session is there, whole, and its bytes are what they were.
  void expect_whole(const TestSession& session) {
    SCOPED_TRACE(session.name);
    const auto manifest = store_->find(session.name);
    ASSERT_TRUE(manifest) << manifest.error().what;
    ASSERT_EQ(manifest->blocks.size(), session.draft.blocks.size());
    for (std::size_t i = 0; i < manifest->blocks.size(); ++i)
      EXPECT_EQ(manifest->blocks[i].key, session.draft.blocks[i].head.key);
    EXPECT_EQ(store_->missing(*manifest), 0U);
    EXPECT_EQ(read_session(*store_, *manifest),
              (SessionRead{.delivered = session.draft.blocks.size()}));
    const auto tokens = store_->read_tokens(*manifest);
    ASSERT_TRUE(tokens) << tokens.error().what;
    EXPECT_EQ(*tokens, session.tokens);
    const auto state = store_->read_state(*manifest);
    ASSERT_TRUE(state) << state.error().what;
    EXPECT_EQ(*state, session.state);
  }

  // What the directory takes, as the disk counts it.
  std::uint64_t disk_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
      struct stat status {};
      EXPECT_EQ(::stat(entry.path().c_str(), &status), 0);
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
  }
  static void flip_bit(const std::string& path, std::uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 8);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    EXPECT_TRUE(file.good()) << path;
  }

 private:
  TemporaryDirectory temporary_;
  PosixDisk real_disk_;
  FaultyDisk disk_;
  ManualClock clock_;
  SessionStore::Options options_;
  std::unique_ptr<SessionStore> store_;
};

}  // namespace tiercel
