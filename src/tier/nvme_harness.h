// A cold tier on a directory of its own, for tests: places in the order of a log, files within reach.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "io/faulty_disk.h"
#include "io/posix_disk.h"
#include "io/temporary_directory.h"
#include "tier/nvme_tier.h"
#include "tier/tier_conformance.h"

namespace tiercel {

// Gives out places as the core would: one open segment, sealed by its footer's room.
class TestLog {
 public:
  explicit TestLog(std::uint64_t segment_bytes) : segment_bytes_(segment_bytes) {}
  Place place(std::uint64_t bytes) {
    if (!segment_has_room(segment_bytes_, end_, bytes, records_ + 1)) start_segment(segment_ + 1);
    const Place place{.segment = segment_, .offset = end_, .bytes = bytes};
    end_ += bytes;
    ++records_;
    return place;
  }
  void start_segment(std::uint32_t segment) {
    segment_ = segment;
    end_ = kSegmentHeaderBytes;
    records_ = 0;
  }
  std::uint32_t segment() const { return segment_; }

 private:
  const std::uint64_t segment_bytes_;
  std::uint32_t segment_ = 0;
  std::uint64_t end_ = kSegmentHeaderBytes;
  std::uint64_t records_ = 0;
};

class NvmeHarness final : public TierHarness {
 public:
  static constexpr std::uint64_t kSegmentBytes = 12 << 20;
  static constexpr std::uint64_t kRecordBytesMax = 1 << 20;
  static constexpr std::uint64_t kCapacity = store_bytes(kSegmentBytes, 8);

  explicit NvmeHarness(IoEngine engine = IoEngine::best, bool direct = true)
      : engine_(engine), real_disk_({.direct = direct}), disk_(real_disk_) {
    arena_ = std::move(*Arena::create({.bytes = 2 << 20}));
    reopen();
  }

  NvmeOptions options() const {
    return {.geometry = {.capacity_bytes = kCapacity,
                         .segment_bytes = kSegmentBytes,
                         .record_bytes_max = kRecordBytesMax + 65536},
            .clock = &clock_,
            .arena = arena_.get(),
            .queue_ops_max = 64,
            .depth = 8,
            .bytes_in_flight_max = 2 << 20,
            .bounce_slots = 2,
            .engine = engine_};
  }
  void close() { tier_.reset(); }
  const Recovered& reopen() {
    tier_.reset();
    auto opened = NvmeTier::open(disk_, directory(), options());
    EXPECT_TRUE(opened) << opened.error().what;
    if (opened) {
      tier_ = std::move(opened->tier);
      recovered_ = std::move(opened->recovered);
    }
    return recovered_;
  }

  std::string directory() const { return temporary_.path() + "/store"; }
  std::string segment_path(std::uint32_t segment) const {
    return directory() + "/" + segment_file_name(segment);
  }
  NvmeTier& nvme() { return *tier_; }
  FaultyDisk& disk() { return disk_; }  // Without hooks it only hands on.
  TestLog& log() { return log_; }

  Tier& tier() override { return *tier_; }
  ManualClock& clock() override { return clock_; }
  const Arena& arena() override { return *arena_; }
  Place place(std::uint64_t bytes) override { return log_.place(bytes); }
  Place never_written(std::uint64_t bytes) override {
    return {.segment = 7, .offset = kSegmentHeaderBytes, .bytes = bytes};
  }
  void flip_bit(const Place& place, std::uint64_t byte) override {
    flip_bit_at(place.segment, place.offset + byte);
  }
  std::size_t queue_ops_max() const override { return 64; }

  // Submits and waits for all; the outcomes by tag, with 0 .. n - 1 as tags.
  std::vector<Completion> run(std::vector<Op> ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) ops[i].tag = i;
    const auto ticket = tier_->submit(ops);
    EXPECT_TRUE(ticket) << ticket.error().what;
    std::vector<Completion> done, by_tag(ops.size());
    while (ticket && done.size() < ops.size() && tier_->wait(done, 1'000'000'000) > 0) {
    }
    EXPECT_EQ(done.size(), ops.size());
    for (Completion& completion : done) by_tag[completion.tag] = std::move(completion);
    return by_tag;
  }
  Completion run_one(Op op) { return run({std::move(op)})[0]; }
  Place store(const TestRecord& record) {
    const Place at = place(record.bytes.size());
    EXPECT_EQ(run_one(record.store(at)).outcome, Outcome::delivered);
    return at;
  }
  void commit() { EXPECT_EQ(run_one({.type = OpType::commit}).outcome, Outcome::delivered); }
  Completion load(const TestRecord& record, const Place& at) {
    AlignedBytes back(record.bytes.size());
    Completion completion = run_one(record.load(at, back.span()));
    if (completion.outcome == Outcome::delivered) {
      EXPECT_TRUE(std::ranges::equal(back.span(), record.bytes.span()));
    }
    return completion;
  }

  // Through the page cache; the kernel keeps direct reads coherent with it.
  void flip_bit_at(std::uint32_t segment, std::uint64_t offset) {
    const int file = ::open(segment_path(segment).c_str(), O_RDWR);
    char byte = 0;
    EXPECT_EQ(::pread(file, &byte, 1, static_cast<off_t>(offset)), 1);
    byte ^= 8;
    EXPECT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(offset)), 1);
    ::fsync(file);
    ::close(file);
  }

  void zero_page(std::uint32_t segment, std::uint64_t offset) {
    const int file = ::open(segment_path(segment).c_str(), O_RDWR);
    const std::array<char, kPageBytes> zeros{};
    EXPECT_EQ(::pwrite(file, zeros.data(), zeros.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(zeros.size()));
    ::fsync(file);
    ::close(file);
  }

 private:
  const IoEngine engine_;
  TemporaryDirectory temporary_;
  PosixDisk real_disk_;
  FaultyDisk disk_;
  ManualClock clock_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<NvmeTier> tier_;
  Recovered recovered_;
  TestLog log_{kSegmentBytes};
};

}  // namespace tiercel
