// `tiercel trace cache`: hit ratio of a trace by policy and cache size. Residency only: no time, no tiers.
#include <fmt/format.h>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/json_writer.h"
#include "replay/residency.h"
#include "trace/read_trace.h"

namespace tiercel::app {

int run_trace_cache(const TraceCacheArgs& args) {
  std::vector<ResidencyPolicy> policies;
  for (const std::string& name : args.policies) {
    const auto policy = parse_residency_policy(name);
    if (!policy) return complain(policy.error());
    policies.push_back(*policy);
  }
  const auto trace = read_trace_with_blocks(args.source);
  if (!trace) return complain(trace.error());

  const std::uint64_t accesses = trace->block_ids.size();
  const auto ratio = [&](std::uint64_t hits) {
    return accesses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(accesses);
  };
  const std::uint64_t infinite = infinite_hits(*trace);
  JsonWriter json;
  json.begin_object().member("schema", "tiercel.trace_cache/1").member("trace", args.source.path);
  json.member("accesses", accesses).member("unique_blocks", trace->unique_blocks);
  json.member("infinite_hit_ratio", ratio(infinite)).key("rows").begin_array();
  std::string table =
      fmt::format("{:<8}{:>12}{:>14}{:>12}\n", "policy", "blocks", "hits", "hit ratio");
  for (std::size_t p = 0; p < policies.size(); ++p) {
    for (const std::uint64_t blocks : args.blocks) {
      const std::uint64_t hits = residency_hits(*trace, policies[p], blocks);
      table +=
          fmt::format("{:<8}{:>12}{:>14}{:>12.4f}\n", args.policies[p], blocks, hits, ratio(hits));
      json.begin_object().member("policy", args.policies[p]).member("blocks", blocks);
      json.member("hits", hits).member("hit_ratio", ratio(hits)).end_object();
    }
  }
  json.end_array().end_object();
  if (args.json) {
    fmt::print("{}\n", json.text());
  } else {
    fmt::print("{}: {} accesses to {} unique blocks of {} tokens; infinite cache {:.4f}\n\n{}",
               args.source.path, accesses, trace->unique_blocks, trace->block_tokens,
               ratio(infinite), table);
  }
  return kOk;
}

}  // namespace tiercel::app
