// The cold tier against fio on the same directory in the same minute: same sizes, about the same bytes under way, direct I/O,
// io_uring. fio's buffers lie on huge pages as ours do: transparent ones by GLIBC_TUNABLES, since its own mmaphuge needs
// reserved pages.
//
//   nvme_tier_bench [DIRECTORY]   (default: a directory of its own below the current one)
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <filesystem>

#include "io/posix_disk.h"
#include "tier/nvme_tier.h"
#include "tier/test_record.h"
#include "tier/tier_bench.h"

namespace tiercel {
namespace {

struct Scale {
  std::uint64_t total_bytes;
  std::uint64_t segment_bytes;
  int rounds;
};

Scale scale() {
  if (bench_is_tiny()) return {.total_bytes = 24 * kMiB, .segment_bytes = 12 * kMiB, .rounds = 1};
  return {.total_bytes = 1 * kGiB, .segment_bytes = 128 * kMiB, .rounds = 3};
}

// Bandwidth in GB/s as fio measured it; 0 where there is no fio.
double fio(const std::string& directory, const char* mode, std::uint64_t block_bytes,
           std::uint64_t depth) {
  const std::string command = fmt::format(
      "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --name=f --filename={}/fio --rw={} --bs={} "
      "--iodepth={} --ioengine=io_uring "
      "--direct=1 --size={} --overwrite=1 --iomem=malloc --thread --output-format=terse "
      "--terse-version=3 2>/dev/null",
      directory, mode, block_bytes, depth, scale().total_bytes);
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  std::string output;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, got);
  ::pclose(pipe);
  std::vector<std::string> fields{""};
  for (const char c : output) {
    if (c == ';') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  const std::size_t at = std::string_view(mode).ends_with("read")
                             ? 6
                             : 47;  // Terse version 3: KiB/s of reads and writes.
  return fields.size() > at ? std::strtod(fields[at].c_str(), nullptr) * 1024 * 1e-9 : 0;
}

class Bench {
 public:
  Bench(const std::string& directory, std::uint64_t payload) : bytes_(record_bytes(payload)) {
    const std::uint64_t per_segment =
        (scale().segment_bytes - kSegmentHeaderBytes - footer_bytes(2000)) / bytes_;
    const std::uint64_t count = scale().total_bytes / bytes_;
    for (std::uint64_t i = 0; i < count; ++i) {
      places_.push_back({.segment = static_cast<std::uint32_t>(i / per_segment),
                         .offset = kSegmentHeaderBytes + i % per_segment * bytes_,
                         .bytes = bytes_});
    }
    segments_ = places_.back().segment + 1;
    NvmeOptions options{
        .geometry = {.capacity_bytes = store_bytes(scale().segment_bytes, segments_ + 1),
                     .segment_bytes = scale().segment_bytes,
                     .record_bytes_max = bytes_},
        .start = StoreStart::empty,
        .clock = &clock_};
    const std::uint64_t staging =
        align_up(NvmeTier::staging_bytes(options, options.geometry), kArenaAlignment);
    arena_ = std::move(*Arena::create({.bytes = staging + kWindow * bytes_ + 2 * kMiB}));
    options.staging = *arena_->take(staging);
    options.arena = arena_.get();
    for (std::uint64_t i = 0; i < kWindow; ++i) {
      windows_.push_back(*arena_->take(bytes_));
      records_.push_back(make_test_record(i, payload));
      std::ranges::copy(records_.back().bytes.span(), windows_.back().begin());
    }
    auto opened = NvmeTier::open(disk_, directory, options);
    if (!opened) fmt::print("{}\n", opened.error().what), std::exit(3);
    tier_ = std::move(opened->tier);
  }

  // GB/s over all places, `in_flight_bytes` at a time; a write ends with a commit where asked.
  double pass(OpType type, std::uint64_t in_flight_bytes, std::span<const std::uint64_t> order,
              bool commit) {
    const std::size_t in_flight = std::clamp<std::size_t>(in_flight_bytes / bytes_, 1, kWindow);
    if (type == OpType::store) {
      for (std::uint32_t i = 0; i < segments_; ++i)
        run({.type = OpType::reclaim, .place = {.segment = i}});
    }
    const double seconds = seconds_of([&] {
      std::deque<std::size_t> free;
      for (std::size_t i = 0; i < in_flight; ++i) free.push_back(i);
      std::vector<Completion> done;
      std::size_t next = 0, over = 0;
      std::vector<std::size_t> window_of(order.size());
      while (over < order.size()) {
        while (next < order.size() && !free.empty()) {
          const std::uint64_t i = order[next];
          // A store takes the record that every later load of this place asks for.
          const std::size_t window = type == OpType::store ? i % kWindow : free.front();
          free.pop_front();
          window_of[next] = window;
          const TestRecord& record = records_[i % kWindow];
          const Op op{.type = type,
                      .key = record.head.key,
                      .fingerprint = record.head.fingerprint,
                      .place = places_[i],
                      .memory = {host_piece(windows_[window])},
                      .tag = next++};
          TIERCEL_CHECK(tier_->submit(std::span(&op, 1)).has_value());
        }
        done.clear();
        tier_->wait(done, 1'000'000'000);
        for (const Completion& completion : done) {
          if (completion.outcome != Outcome::delivered)
            fmt::print("{}\n", completion.error.what), std::exit(1);
          free.push_back(window_of[completion.tag]);
          ++over;
        }
      }
      if (commit) run({.type = OpType::commit});
    });
    return static_cast<double>(order.size() * bytes_) * 1e-9 / seconds;
  }

  std::vector<std::uint64_t> in_order() const {
    std::vector<std::uint64_t> order(places_.size());
    for (std::uint64_t i = 0; i < order.size(); ++i) order[i] = i;
    return order;
  }
  std::vector<std::uint64_t> at_random() const {
    auto order = in_order();
    Rng rng(1);
    for (std::uint64_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[rng.below(i + 1)]);
    return order;
  }
  // After a pass of loads the windows hold other records than their own: stores need them back.
  void restore_windows() {
    for (std::size_t i = 0; i < kWindow; ++i)
      std::ranges::copy(records_[i].bytes.span(), windows_[i].begin());
  }
  std::string describe() const {
    std::string text = fmt::format("{}, staging and buffers on {} pages", tier_->engine_name(),
                                   page_kind_name(arena_->report().pages));
    for (const std::string& note : tier_->notes()) text += "; " + note;
    return text;
  }

 private:
  static constexpr std::uint64_t kWindow = 128;

  void run(const Op& op) {
    TIERCEL_CHECK(tier_->submit(std::span(&op, 1)).has_value());
    std::vector<Completion> done;
    while (done.empty()) tier_->wait(done, 1'000'000'000);
    TIERCEL_CHECK(done[0].outcome == Outcome::delivered);
  }

  const std::uint64_t bytes_;
  std::vector<Place> places_;
  std::uint32_t segments_ = 0;
  PosixDisk disk_;
  SystemClock clock_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::span<std::byte>> windows_;
  std::vector<TestRecord> records_;
  std::unique_ptr<NvmeTier> tier_;
};

void bench(const std::string& directory, std::uint64_t payload, std::uint64_t in_flight_bytes) {
  Bench bench(directory + "/store", payload);
  const std::uint64_t depth = std::max<std::uint64_t>(in_flight_bytes / payload, 1);
  const std::string with = fmt::format("fio {} KiB qd{}, THP,", payload / 1024, depth);
  const auto name = [&](const char* what) {
    return fmt::format("{} {} KiB", what, payload / 1024);
  };
  PairedRates writes, synced, reads, random_reads;
  fio(directory, "write", kMiB, 8);  // Both overwrite written extents.
  bench.pass(OpType::store, in_flight_bytes, bench.in_order(), true);
  for (int round = 0; round < scale().rounds; ++round) {
    bench.restore_windows();
    const double write = fio(directory, "write", payload, depth);
    writes.add(bench.pass(OpType::store, in_flight_bytes, bench.in_order(), false), write);
    synced.add(bench.pass(OpType::store, in_flight_bytes, bench.in_order(), true), write);
    reads.add(bench.pass(OpType::load, in_flight_bytes, bench.in_order(), false),
              fio(directory, "read", payload, depth));
    random_reads.add(bench.pass(OpType::load, in_flight_bytes, bench.at_random(), false),
                     fio(directory, "randread", payload, depth));
  }
  writes.print(name("cold write"), with + " write");
  synced.print(name("cold write + commit"), with + " write");
  reads.print(name("cold read, in order"), with + " read");
  random_reads.print(name("cold read, at random"), with + " randread");
  fmt::print("  ({})\n", bench.describe());
}

}  // namespace
}  // namespace tiercel

int main(int count, char** arguments) {
  using namespace tiercel;
  const bool given = count > 1 && arguments[1][0] != '-';
  const std::string directory =
      given ? arguments[1]
            : (std::filesystem::current_path() / fmt::format("nvme-bench-{}", ::getpid())).string();
  std::filesystem::create_directories(directory);
  for (const std::uint64_t payload : {64 * kKiB, kMiB}) {
    bench(directory, payload, 8 * kMiB);
    std::filesystem::remove_all(directory + "/store");
  }
  std::filesystem::remove(directory + "/fio");
  if (!given) std::filesystem::remove_all(directory);
  return 0;
}
