// A restart of a full store against reading the same bytes of index with plain preads: how much the index costs beyond its bytes.
//
// The store's files are sparse: headers and footers are real, record bytes are not there and are not read. Without an argument the
// store lies in a directory of its own under the present one, so on the disk that is asked about.
#include <unistd.h>

#include <filesystem>

#include "io/posix_disk.h"
#include "tier/nvme_tier.h"
#include "tier/test_record.h"
#include "tier/tier_bench.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kSegmentBytes = 64 * kMiB;

struct Shape {
  std::uint32_t segments;
  std::uint64_t records_each;
  std::uint64_t record_bytes;
};

template <class T>
T must(Result<T> result) {
  if (!result) fmt::print("{}\n", result.error().what), std::exit(3);
  return std::move(*result);
}

void must(const Result<void>& result) {
  if (!result) fmt::print("{}\n", result.error().what), std::exit(3);
}

class Store {
 public:
  Store(std::string directory, const Shape& shape)
      : directory_(std::move(directory)), shape_(shape), buffer_(footer_bytes(shape.records_each)) {
    const Superblock superblock =
        must(NvmeTier::open(disk_, directory_, options(1))).tier->superblock();
    for (std::uint32_t i = 0; i < shape_.segments; ++i) write_segment(superblock, i);
  }

  double restart_s(std::uint32_t threads) {
    double open_s = 0;
    const double seconds = seconds_of([&] {
      const auto opened = must(NvmeTier::open(disk_, directory_, options(threads)));
      TIERCEL_CHECK(opened.recovered.segments.size() == shape_.segments);
      TIERCEL_CHECK(opened.recovered.walked_segments == 0);
      for (const auto& segment : opened.recovered.segments)
        TIERCEL_CHECK(segment.records.size() == shape_.records_each);
      open_s = opened.recovered.open_s;
    });
    TIERCEL_CHECK(open_s <= seconds);
    return open_s;
  }

  // Header and footer of every segment, one after the other, into one buffer.
  double plain_read_s() {
    std::vector<std::unique_ptr<File>> files;
    for (std::uint32_t i = 0; i < shape_.segments; ++i)
      files.push_back(must(disk_.open(path(i), {.direct = true})));
    return seconds_of([&] {
      for (const auto& file : files) {
        must(file->read(0, buffer_.span().first(kPageBytes)));
        must(file->read(kSegmentBytes - buffer_.size(), buffer_.span()));
      }
    });
  }

  std::uint64_t index_bytes() const { return shape_.segments * (kPageBytes + buffer_.size()); }

 private:
  NvmeOptions options(std::uint32_t threads) const {
    return {.geometry = {.capacity_bytes = store_bytes(kSegmentBytes, shape_.segments),
                         .segment_bytes = kSegmentBytes,
                         .record_bytes_max = 64 * kKiB + kPageBytes},
            .clock = &clock_,
            .recovery_threads = threads};
  }
  std::string path(std::uint32_t segment) const {
    return directory_ + "/" + segment_file_name(segment);
  }

  void write_segment(const Superblock& superblock, std::uint32_t segment) {
    const auto file =
        must(disk_.open(path(segment), {.write = true, .create = true, .direct = true}));
    must(file->truncate(kSegmentBytes));
    const SegmentLife life{.sequence = segment + 1ULL, .epoch = superblock.epoch};
    Footer footer{.store = superblock.store,
                  .segment = segment,
                  .life = life,
                  .data_end = kSegmentHeaderBytes + shape_.records_each * shape_.record_bytes};
    Rng rng(segment);
    for (std::uint64_t i = 0; i < shape_.records_each; ++i) {
      footer.entries.push_back({.key = test_key(rng.next()),
                                .fingerprint = test_fingerprint(),
                                .token_count = 16,
                                .offset = kSegmentHeaderBytes + i * shape_.record_bytes,
                                .bytes = shape_.record_bytes});
    }
    const auto bytes = encode_footer(footer);
    std::ranges::copy(bytes, buffer_.span().begin());
    must(file->write(kSegmentBytes - bytes.size(), buffer_.span()));
    encode_segment_header({.store = superblock.store,
                           .segment = segment,
                           .life = life,
                           .segment_bytes = kSegmentBytes},
                          buffer_.span().first(kPageBytes));
    must(file->write(0, buffer_.span().first(kPageBytes)));
  }

  const std::string directory_;
  const Shape shape_;
  SystemClock clock_;
  PosixDisk disk_;
  AlignedBytes buffer_;
};

void bench(const std::string& directory, const Shape& shape, int rounds) {
  Store store(directory, shape);
  std::vector<double> restarts, serials, reads, ratios;
  for (int round = 0; round < rounds; ++round) {
    restarts.push_back(store.restart_s(8));
    reads.push_back(store.plain_read_s());
    serials.push_back(store.restart_s(1));
    ratios.push_back(restarts.back() / reads.back());
  }
  const double records = static_cast<double>(shape.segments * shape.records_each);
  fmt::print(
      "{:>5} segments, {:>8} records, {:6.1f} MB of index: restart {:.3f} s ({:.0f} ns a record; "
      "one thread {:.3f} "
      "s), plain preads {:.3f} s, ratio {:.2f}\n",
      shape.segments, shape.segments * shape.records_each,
      static_cast<double>(store.index_bytes()) * 1e-6, median(restarts),
      median(restarts) / records * 1e9, median(serials), median(reads), median(ratios));
}

}  // namespace
}  // namespace tiercel

int main(int count, char** arguments) {
  using namespace tiercel;
  const bool given = count > 1 && arguments[1][0] != '-';
  const std::string directory =
      given ? arguments[1]
            : (std::filesystem::current_path() / fmt::format("restart-bench-{}", ::getpid()))
                  .string();
  const bool tiny = bench_is_tiny();
  const std::vector<Shape> shapes =
      tiny ? std::vector<Shape>{{4, 100, 8 * kKiB}}
           : std::vector<Shape>{{124, 8070, 8 * kKiB}, {1000, 1000, 64 * kKiB}};
  for (const Shape& shape : shapes) {
    std::filesystem::create_directories(directory);
    bench(directory + "/store", shape, tiny ? 1 : 7);
    std::filesystem::remove_all(directory + "/store");
  }
  if (!given) std::filesystem::remove_all(directory);
  return 0;
}
