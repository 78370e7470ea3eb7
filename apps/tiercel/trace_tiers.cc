// `tiercel trace tiers`: where the hits of a trace would lie in three exclusive LRU tiers.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/json_writer.h"
#include "replay/residency.h"
#include "trace/read_trace.h"

namespace tiercel::app {

int run_trace_tiers(const TraceTiersArgs& args) {
  const auto trace = read_trace_with_blocks(args.source);
  if (!trace) return complain(trace.error());
  const TierSplit split =
      residency_tiers(*trace, args.hot_blocks, args.warm_blocks, args.cold_blocks);
  const std::uint64_t accesses = trace->block_ids.size();
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.trace_tiers/1").member("trace", args.source.path);
    json.member("accesses", accesses).member("miss", split.miss).key("hits").begin_object();
    json.member("hot", split.hot)
        .member("warm", split.warm)
        .member("cold", split.cold)
        .end_object();
    json.member("hot_blocks", args.hot_blocks)
        .member("warm_blocks", args.warm_blocks)
        .key("cold_blocks");
    if (args.cold_blocks) {
      json.value(*args.cold_blocks);
    } else {
      json.null();
    }
    json.end_object();
    fmt::print("{}\n", json.text());
    return kOk;
  }
  const std::array<std::pair<const char*, std::uint64_t>, 4> rows{
      {{"hot", split.hot}, {"warm", split.warm}, {"cold", split.cold}, {"miss", split.miss}}};
  fmt::print("{}: {} accesses; exclusive LRU tiers of {} / {} / {} blocks\n\n{:<8}{:>14}{:>12}\n",
             args.source.path, accesses, args.hot_blocks, args.warm_blocks,
             args.cold_blocks ? fmt::format("{}", *args.cold_blocks) : "unbounded", "tier",
             "blocks", "share");
  for (const auto& [name, blocks] : rows) {
    fmt::print("{:<8}{:>14}{:>12.4f}\n", name, blocks,
               accesses == 0 ? 0.0 : static_cast<double>(blocks) / static_cast<double>(accesses));
  }
  return kOk;
}

}  // namespace tiercel::app
