// The second half of a restart: from the records that the cold tier has found to an index that answers, beside copying the same
// bytes of index once. The first half is src/tier/restart_bench.cc; together they must stay below a second for a million blocks.
#include <cstring>
#include <vector>

#include "cache/restore_index.h"
#include "tier/test_record.h"
#include "tier/tier_bench.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kRecordBytes = 68 * kKiB;
constexpr std::uint32_t kRecordsEach = 960;  // Of a segment of 64 MiB.
constexpr std::uint32_t kChainBlocks = 40;

Recovered make_recovered(std::uint32_t blocks) {
  Recovered recovered;
  Key parent;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (i % kRecordsEach == 0)
      recovered.segments.push_back({.segment = i / kRecordsEach, .sequence = i / kRecordsEach + 1});
    RecoveredSegment& segment = recovered.segments.back();
    if (i % kChainBlocks == 0) parent = {};
    segment.records.push_back({.key = test_key(i),
                               .parent = parent,
                               .fingerprint = test_fingerprint(),
                               .token_count = 512,
                               .place = {.segment = segment.segment,
                                         .offset = 4096 + i % kRecordsEach * kRecordBytes,
                                         .bytes = kRecordBytes}});
    parent = segment.records.back().key;
  }
  return recovered;
}

double restore_s(const Recovered& recovered, std::uint32_t blocks) {
  Core core(
      {.warm_bytes = kMiB,
       .cold = ColdLog::Options{
           .geometry = {.segment_bytes = 64 * kMiB,
                        .segments_max = static_cast<std::uint32_t>(recovered.segments.size()) + 8},
           .sync_bytes = 1,
           .staging_bytes = kMiB}});
  std::vector<std::uint32_t> names;
  const RestoreHooks hooks{
      .payload_of = [](const RecoveredRecord& record) -> std::optional<std::uint64_t> {
        if (record.fingerprint != test_fingerprint()) return std::nullopt;
        return 64 * kKiB;
      },
      .on_block =
          [&](BlockId id, const RecoveredRecord* record) {
            if (id >= names.size()) names.resize(core.table().id_limit());
            if (record != nullptr) names[id] = record->token_count;
          }};
  RestoreCounts counts;
  const double seconds = seconds_of([&] { counts = restore_index(recovered, hooks, core); });
  TIERCEL_CHECK(counts.blocks == blocks && core.table().size() == blocks);
  return seconds;
}

double copy_s(std::uint32_t blocks) {
  const std::vector<std::byte> from(blocks * kFooterEntryBytes, std::byte{1});
  std::vector<std::byte> to(from.size(), std::byte{2});
  return seconds_of([&] { std::memcpy(to.data(), from.data(), from.size()); });
}

}  // namespace
}  // namespace tiercel

int main() {
  using namespace tiercel;
  const std::uint32_t blocks = bench_is_tiny() ? 10'000 : 1'000'000;
  const Recovered recovered = make_recovered(blocks);
  for (int run = 0; run < (bench_is_tiny() ? 1 : 5); ++run) {
    const double restored = restore_s(recovered, blocks), copied = copy_s(blocks);
    fmt::print(
        "restore of {} blocks: {:.3f} s, {:.0f} ns a block; copying {} bytes of index: {:.3f} s\n",
        blocks, restored, restored / blocks * 1e9, blocks * kFooterEntryBytes, copied);
  }
  return 0;
}
