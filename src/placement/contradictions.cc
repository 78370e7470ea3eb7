#include "placement/contradictions.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/byte_size.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kAlignment = 4096;  // Records and segments are whole pages of direct I/O.

Error refuse(const Placement& placement, std::string_view key, std::string_view what) {
  return fail(Errc::invalid, fmt::format("{}: {}", placement.origin.place_of(key), what));
}

Result<void> check_link(const Placement& placement, std::string_view tier, const LinkSpec& link) {
  for (const auto& [name, rate, example] :
       {std::tuple{"read_bandwidth", link.read_bytes_per_s, "3 GB/s"},
        std::tuple{"write_bandwidth", link.write_bytes_per_s, "3 GB/s"}}) {
    if (rate != 0) continue;
    const std::string key = fmt::format("{}.{}", tier, name);
    return refuse(placement, key,
                  fmt::format("{0} is 0 although the {1} tier exists; write e.g. {2} = \"{3}\" "
                              "under [{1}], or turn the "
                              "tier off with {1}.bytes = \"0 B\"",
                              key, tier, name, example));
  }
  return {};
}

Result<void> check_engine(const Placement& placement) {
  if (placement.engine.prefill != PrefillModel::flops) return {};
  for (const auto& [key, value] :
       {std::pair{"engine.flops", placement.engine.flops},
        std::pair{"model.parameters", placement.model.parameters},
        std::pair{"model.layers", static_cast<double>(placement.model.layers)},
        std::pair{"model.hidden", static_cast<double>(placement.model.hidden)}}) {
    if (value > 0) continue;
    return refuse(placement, key,
                  fmt::format("{} must be stated (above 0) because engine.prefill is \"flops\"; or "
                              "use prefill = \"nominal\"",
                              key));
  }
  return {};
}

Result<void> check_sizes(const Placement& placement) {
  const std::uint64_t hot = placement.hot.bytes;
  const std::uint64_t warm = placement.warm.bytes;
  if (hot < placement.block_bytes()) {
    return refuse(placement, "hot.bytes",
                  fmt::format("hot.bytes is {}, less than one block ({} tokens x {} = {}); no "
                              "request could run: raise it",
                              exact_byte_size(hot), placement.model.block_tokens,
                              exact_byte_size(placement.model.bytes_per_token),
                              exact_byte_size(placement.block_bytes())));
  }
  if (warm == 0 && placement.cold.bytes != 0) {
    // The key to change is the one that took warm away.
    return refuse(placement, "warm.bytes",
                  fmt::format("there is a cold tier ({}) but no warm one, and blocks reach cold "
                              "only through warm; set "
                              "warm.bytes to {} or more, or for hot alone cold.bytes to 0 as well "
                              "(--set cold.bytes=0)",
                              exact_byte_size(placement.cold.bytes), exact_byte_size(hot)));
  }
  if (warm != 0 && warm < hot) {
    // Blame the later of the two: that is the one just changed.
    const bool hot_was_set =
        placement.origin.place_of("hot.bytes").find("--set") != std::string::npos;
    return refuse(placement, hot_was_set ? "hot.bytes" : "warm.bytes",
                  fmt::format("warm.bytes is {}, smaller than hot.bytes ({}); every block is "
                              "stored to warm first, so it "
                              "would hold less than hot already does: set warm.bytes to {} or "
                              "more, or turn the lower "
                              "tiers off (warm.bytes and cold.bytes 0)",
                              exact_byte_size(warm), exact_byte_size(hot), exact_byte_size(hot)));
  }
  if (warm != 0 && placement.staging_bytes < placement.block_bytes()) {
    return refuse(placement, "staging.bytes",
                  fmt::format("staging.bytes is {}, less than one block ({}), so nothing could "
                              "ever be stored to a lower tier; "
                              "write e.g. bytes = \"16 GiB\" under [staging]",
                              exact_byte_size(placement.staging_bytes),
                              exact_byte_size(placement.block_bytes())));
  }
  return {};
}

Result<void> check_cold(const Placement& placement) {
  const ColdSpec& cold = placement.cold;
  if (cold.segment_bytes == 0 || cold.segment_bytes % kAlignment != 0) {
    return refuse(placement, "cold.segment_bytes",
                  fmt::format("cold.segment_bytes is {}, not a multiple of 4 KiB above 0; write "
                              "e.g. segment_bytes = \"64 MiB\"",
                              exact_byte_size(cold.segment_bytes)));
  }
  if (cold.sync_bytes == 0 && cold.sync_interval_ns == 0) {
    return refuse(placement, "cold.sync_interval",
                  "cold.sync_bytes and cold.sync_interval are both 0, so no store would ever "
                  "become durable; write e.g. "
                  "sync_interval = \"1 s\" under [cold]");
  }
  return {};
}

Result<void> check_payload_size(const Placement& placement, std::uint64_t payload_bytes) {
  if (payload_bytes > placement.block_bytes()) {
    return refuse(
        placement, "replay.payload",
        fmt::format("a payload of {} is more than the block it stands for ({}); write at most "
                    "that, or 0 for the block itself",
                    exact_byte_size(payload_bytes), exact_byte_size(placement.block_bytes())));
  }
  // The block itself may have any size: its record is padded.
  if (payload_bytes != placement.block_bytes() && payload_bytes % kAlignment != 0) {
    return refuse(
        placement, "replay.payload",
        fmt::format(
            "a payload of {} is not a multiple of 4 KiB; the nearest is {}",
            exact_byte_size(payload_bytes),
            exact_byte_size(std::max(payload_bytes / kAlignment, std::uint64_t{1}) * kAlignment)));
  }
  return {};
}

}  // namespace

std::uint64_t scaled_bytes(const Placement& placement, std::uint64_t payload_bytes,
                           std::uint64_t bytes) {
  const auto product = static_cast<unsigned __int128>(bytes) * payload_bytes;
  return static_cast<std::uint64_t>(product / placement.block_bytes());
}

Result<void> check_contradictions(const Placement& placement) {
  TIERCEL_TRY_VOID(check_engine(placement));
  TIERCEL_TRY_VOID(check_sizes(placement));
  if (placement.warm.bytes != 0)
    TIERCEL_TRY_VOID(check_link(placement, "warm", placement.warm.link));
  if (placement.cold.bytes != 0) {
    TIERCEL_TRY_VOID(check_link(placement, "cold", placement.cold.link));
    TIERCEL_TRY_VOID(check_cold(placement));
  }
  return check_payload_size(placement, placement.payload_bytes());
}

Result<void> check_payload(const Placement& placement, std::uint64_t payload_bytes) {
  if (payload_bytes == 0) {
    return refuse(placement, "replay.payload",
                  "a payload of 0 bytes moves nothing; use a multiple of 4 KiB");
  }
  return check_payload_size(placement, payload_bytes);
}

Result<void> check_against_disk(const Placement& placement, std::uint64_t scaled_cap_bytes,
                                const std::string& dir, std::uint64_t reusable_bytes) {
  std::error_code ignored;
  std::filesystem::path existing = std::filesystem::absolute(dir.empty() ? "." : dir, ignored);
  while (!std::filesystem::exists(existing, ignored) && existing.has_relative_path())
    existing = existing.parent_path();
  struct statvfs file_system {};
  if (::statvfs(existing.c_str(), &file_system) != 0) {
    return fail_errno(
        fmt::format("cannot ask the file system of {} for its free space", existing.string()),
        errno);
  }
  const auto free_bytes =
      static_cast<std::uint64_t>(file_system.f_bavail) * file_system.f_frsize + reusable_bytes;
  if (scaled_cap_bytes <= free_bytes) return {};
  const double share = static_cast<double>(free_bytes) / static_cast<double>(scaled_cap_bytes);
  return refuse(placement, "cold.bytes",
                fmt::format("cold.bytes needs {} on disk, but {} has {} free{}; lower cold.bytes "
                            "to {} or less, use a smaller --payload, or put cold.path on a larger "
                            "disk",
                            pretty_byte_size(scaled_cap_bytes), existing.string(),
                            pretty_byte_size(free_bytes),
                            reusable_bytes > 0 ? ", the old store there counted as free" : "",
                            pretty_byte_size(static_cast<std::uint64_t>(
                                static_cast<double>(placement.cold.bytes) * share))));
}

std::vector<std::string> placement_warnings(const Placement& placement) {
  std::vector<std::string> warnings;
  if (placement.cold.bytes != 0 && placement.cold.bytes < placement.warm.bytes) {
    warnings.push_back(fmt::format(
        "{}: cold.bytes ({}) is smaller than warm.bytes ({}): most of what cold holds is in warm "
        "too; it helps after a restart but adds few hits",
        placement.origin.place_of("cold.bytes"), exact_byte_size(placement.cold.bytes),
        exact_byte_size(placement.warm.bytes)));
  }
  return warnings;
}

}  // namespace tiercel
