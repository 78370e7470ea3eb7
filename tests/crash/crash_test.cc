// kill -9 of a real process that writes to a cold store, again and again on the same directory, at moments nobody chose:
// while it opens, writes, commits, seals, reclaims. Whatever it had acknowledged as synced must be back with its bytes.
//
// The writer tells on a pipe: 'S' record place once a commit that covers it is complete, 'E' segment before it reclaims it.
// TIERCEL_SEED=n runs with other moments and sizes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "io/posix_disk.h"
#include "io/temporary_directory.h"
#include "tier/nvme_tier.h"
#include "tier/test_record.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kRecordMax = 132 * 1024;
constexpr std::uint64_t kSegmentBytes = 4 << 20;
constexpr std::uint32_t kSegments = 5;

struct Message {
  char type = 0;
  std::uint64_t seed = 0;
  std::uint64_t payload = 0;
  Place place;
};

NvmeOptions store_options(const Clock& clock) {
  return {.geometry = {.capacity_bytes = store_bytes(kSegmentBytes, kSegments),
                       .segment_bytes = kSegmentBytes,
                       .record_bytes_max = kRecordMax},
          .clock = &clock,
          .bytes_in_flight_max = 2 << 20};
}

std::uint64_t payload_of(std::uint64_t seed) { return 1 + Rng(seed * 31).below(128 * 1024); }

// The child: never returns.
class Writer {
 public:
  Writer(const std::string& directory, int pipe, std::uint64_t first_seed)
      : pipe_(pipe), seed_(first_seed), rng_(first_seed) {
    auto opened = NvmeTier::open(disk_, directory, store_options(clock_));
    if (!opened) ::_exit(3);
    tier_ = std::move(opened->tier);
    std::vector<std::uint32_t> order;  // Free ones first, then by age.
    for (const RecoveredSegment& segment : opened->recovered.segments)
      order.push_back(segment.segment);
    for (std::uint32_t i = 0; i < kSegments; ++i) {
      if (std::ranges::find(order, i) == order.end()) segments_.push_back({i, false});
    }
    for (const std::uint32_t segment : order) segments_.push_back({segment, true});
  }

  [[noreturn]] void run() {
    start_segment();
    for (;;) {
      std::vector<TestRecord> records;
      std::vector<Op> ops;
      const std::uint64_t count = 1 + rng_.below(12);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t payload = payload_of(seed_);
        const std::uint64_t bytes = record_bytes(payload);
        if (!segment_has_room(kSegmentBytes, end_, bytes, in_segment_ + 1)) break;
        records.push_back(make_test_record(seed_, payload));
        const Place place{.segment = segments_.front().first, .offset = end_, .bytes = bytes};
        ops.push_back(records.back().store(place));
        unsynced_.push_back({'S', seed_, payload, place});
        ++seed_;
        end_ += bytes;
        ++in_segment_;
      }
      if (ops.empty()) {
        run_ops({{.type = OpType::seal, .place = {.segment = segments_.front().first}}});
        commit();  // Nothing unsynced may lie in a segment that the next turn reclaims.
        segments_.push_back({segments_.front().first, true});
        segments_.pop_front();
        start_segment();
        continue;
      }
      run_ops(ops);
      if (rng_.chance(0.4)) commit();
    }
  }

 private:
  void start_segment() {
    const auto [segment, used] = segments_.front();
    if (used) {
      tell({'E', 0, 0, {.segment = segment}});
      run_ops({{.type = OpType::reclaim, .place = {.segment = segment}}});
    }
    end_ = kSegmentHeaderBytes;
    in_segment_ = 0;
  }
  void commit() {
    run_ops({{.type = OpType::commit}});
    for (const Message& message : unsynced_) tell(message);
    unsynced_.clear();
  }
  void run_ops(const std::vector<Op>& ops) {
    if (!tier_->submit(ops)) ::_exit(4);
    std::vector<Completion> done;
    while (done.size() < ops.size()) tier_->wait(done, 1'000'000'000);
    for (const Completion& completion : done) {
      if (completion.outcome != Outcome::delivered) ::_exit(5);
    }
  }
  void tell(const Message& message) {
    if (::write(pipe_, &message, sizeof message) != sizeof message)
      ::_exit(6);  // Atomic: shorter than PIPE_BUF.
  }

  const int pipe_;
  PosixDisk disk_;
  SystemClock clock_;
  std::unique_ptr<NvmeTier> tier_;
  std::deque<std::pair<std::uint32_t, bool>>
      segments_;  // The front is the open one; true: must be reclaimed first.
  std::vector<Message> unsynced_;
  std::uint64_t seed_;
  Rng rng_;
  std::uint64_t end_ = 0, in_segment_ = 0;
};

struct Audit {
  std::uint64_t acknowledged = 0, missing = 0, wrong = 0, found = 0, torn = 0;
};

// Opens the store and reads everything it claims to have.
Audit audit(const std::string& directory, const std::map<std::uint64_t, Message>& acknowledged) {
  Audit result{.acknowledged = acknowledged.size()};
  PosixDisk disk;
  SystemClock clock;
  auto opened = NvmeTier::open(disk, directory, store_options(clock));
  EXPECT_TRUE(opened) << opened.error().what;
  if (!opened) return result;
  result.torn = opened->recovered.torn;
  std::map<Key, Place> places;
  for (const RecoveredSegment& segment : opened->recovered.segments) {
    for (const RecoveredRecord& record : segment.records) places[record.key] = record.place;
  }
  result.found = places.size();
  for (const auto& [seed, message] : acknowledged) {
    const TestRecord expected = make_test_record(seed, message.payload);
    const auto place = places.find(expected.head.key);
    if (place == places.end()) {
      ++result.missing;
      continue;
    }
    AlignedBytes back(place->second.bytes);
    const Op op = expected.load(place->second, back.span());
    std::vector<Completion> done;
    EXPECT_TRUE(opened->tier->submit(std::span(&op, 1)));
    while (done.empty()) opened->tier->wait(done, 1'000'000'000);
    if (done[0].outcome != Outcome::delivered) {
      ++result.missing;
    } else if (!std::ranges::equal(back.span(), expected.bytes.span())) {
      ++result.wrong;
    }
  }
  return result;
}

TEST(Crash, WhatWasAcknowledgedAsSyncedSurvivesKillNine) {
  const char* const given = std::getenv("TIERCEL_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  SCOPED_TRACE(testing::Message() << "TIERCEL_SEED=" << seed);
  Rng rng(seed);
  const TemporaryDirectory temporary;
  const std::string directory = temporary.path() + "/store";
  std::map<std::uint64_t, Message> acknowledged;
  std::uint64_t next_seed = 1000, reclaims = 0, syncs = 0;
  for (int round = 0; round < 30; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      Writer(directory, ends[1], next_seed).run();
    }
    ::close(ends[1]);
    std::this_thread::sleep_for(
        std::chrono::microseconds(rng.below(round % 5 == 0 ? 30'000 : 400'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
    for (Message message; ::read(ends[0], &message, sizeof message) == sizeof message;) {
      if (message.type == 'S') {
        acknowledged[message.seed] = message;
        ++syncs;
      } else {
        ++reclaims;
        std::erase_if(acknowledged, [&](const auto& entry) {
          return entry.second.place.segment == message.place.segment;
        });
      }
    }
    ::close(ends[0]);
    next_seed += 100'000;
    const Audit result = audit(directory, acknowledged);
    ASSERT_EQ(result.missing, 0U) << "round " << round << " of " << result.acknowledged;
    ASSERT_EQ(result.wrong, 0U) << "round " << round;
  }
  std::printf("%llu records acknowledged, %llu reclaims announced\n",
              static_cast<unsigned long long>(syncs), static_cast<unsigned long long>(reclaims));
  EXPECT_GT(syncs, 100U) << "the writer hardly wrote: this run shows nothing";
  EXPECT_GT(acknowledged.size(), 0U);

  // The control: the same audit goes red when one acknowledged record is damaged behind the store's back.
  const Message& victim = acknowledged.rbegin()->second;
  const int file =
      ::open((directory + "/" + segment_file_name(victim.place.segment)).c_str(), O_RDWR);
  char byte = 0;
  const auto at = static_cast<off_t>(victim.place.offset + 4096);
  ASSERT_EQ(::pread(file, &byte, 1, at), 1);
  byte ^= 1;
  ASSERT_EQ(::pwrite(file, &byte, 1, at), 1);
  ::fsync(file);
  ::close(file);
  const Audit control = audit(directory, acknowledged);
  EXPECT_EQ(control.missing, 1U);
  EXPECT_EQ(control.wrong, 0U);
}

}  // namespace
}  // namespace tiercel
