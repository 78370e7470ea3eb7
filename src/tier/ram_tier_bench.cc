// The warm tier against memcpy of the same bytes between the same two places: verified loads, and stores.
#include <cstring>

#include "base/checksum.h"
#include "tier/ram_tier.h"
#include "tier/test_record.h"
#include "tier/tier_bench.h"

namespace tiercel {
namespace {

struct Setup {
  std::unique_ptr<Arena> arena;
  std::span<std::byte> warm, destination;
  SystemClock clock;
};

void bench(Setup& setup, std::uint64_t payload, int rounds) {
  RamTier tier({.memory = setup.warm,
                .arena = setup.arena.get(),
                .clock = &setup.clock,
                .queue_ops_max = 1 << 20});
  const std::uint64_t bytes = record_bytes(payload);
  const std::uint64_t count = setup.warm.size() / bytes;
  std::vector<TestRecord> records;
  for (std::uint64_t i = 0; i < 8; ++i) records.push_back(make_test_record(i, payload));
  std::vector<Completion> done;
  const double stored_s = seconds_of([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      const Op op = records[i % 8].store({.offset = i * bytes, .bytes = bytes});
      TIERCEL_CHECK(tier.submit(std::span(&op, 1)).has_value());
    }
    tier.poll(done);
  });
  std::vector<std::uint64_t> order(count);
  for (std::uint64_t i = 0; i < count; ++i) order[i] = i;
  Rng rng(1);
  for (std::uint64_t i = count - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  PairedRates loads;
  const double total = static_cast<double>(count * bytes) * 1e-9;
  for (int round = 0; round < rounds; ++round) {
    done.clear();
    const double ours = seconds_of([&] {
      for (const std::uint64_t i : order) {
        const Op op = records[i % 8].load({.offset = i * bytes, .bytes = bytes},
                                          setup.destination.subspan(i * bytes, bytes));
        TIERCEL_CHECK(tier.submit(std::span(&op, 1)).has_value());
        tier.poll(done);
      }
    });
    TIERCEL_CHECK(done.size() == count &&
                  std::ranges::all_of(done, [](const Completion& completion) {
                    return completion.outcome == Outcome::delivered;
                  }));
    const double reference = seconds_of([&] {
      for (const std::uint64_t i : order)
        std::memcpy(setup.destination.data() + i * bytes, setup.warm.data() + i * bytes, bytes);
    });
    loads.add(total / ours, total / reference);
  }
  loads.print(fmt::format("warm get, verified, {} KiB", payload / 1024),
              "memcpy, same bytes and places");
  fmt::print("{:<28} {:6.2f} GB/s   (from a source that stays in the cache)\n",
             fmt::format("warm put, {} KiB", payload / 1024), total / stored_s);
}

}  // namespace
}  // namespace tiercel

int main() {
  using namespace tiercel;
  const std::uint64_t half = bench_is_tiny() ? 8 * kMiB : kGiB;
  Setup setup;
  auto arena = Arena::create({.bytes = 2 * half});
  if (!arena) return fmt::print("{}\n", arena.error().what), 3;
  setup.arena = std::move(*arena);
  setup.warm = *setup.arena->take(half);
  setup.destination = *setup.arena->take(half);
  const ArenaReport& report = setup.arena->report();
  fmt::print("working set {} each way, pages {} ({} huge), warm-up {:.2f} s, checksum kernel {}\n",
             pretty_byte_size(half), page_kind_name(report.pages),
             pretty_byte_size(setup.arena->huge_bytes()), report.warm_up_s, checksum_kernel_name());
  for (const std::uint64_t payload : {64 * kKiB, kMiB})
    bench(setup, payload, bench_is_tiny() ? 1 : 7);
  return 0;
}
