// A manifest from a directory that anybody may have written to: no bytes crash the parser, and what it accepts encodes to the same
// bytes and holds together.
// Input: the file. It is parsed as it is, and once more with length and checksum set right, or the fuzzer would never get behind
// them.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "cache/session_manifest.h"

namespace tiercel {
namespace {

constexpr std::size_t kBytesAt = 16, kChecksumBytes = 8;  // docs/formats/session.md

void parse(std::span<const std::byte> bytes) {
  const auto manifest = parse_manifest(bytes);
  if (!manifest) {
    const Errc code = manifest.error().code;
    TIERCEL_CHECK((code == Errc::corrupt || code == Errc::invalid) &&
                  !manifest.error().what.empty());
    return;
  }
  TIERCEL_CHECK(check_session_name(manifest->name));
  for (const SessionBlock& block : manifest->blocks) {
    TIERCEL_CHECK(block.kind < manifest->kinds.size() && block.index < manifest->position);
    TIERCEL_CHECK(block.bytes > 0 && block.token_count <= manifest->block_tokens);
  }
  TIERCEL_CHECK(manifest_bytes(*manifest) == bytes.size());
  TIERCEL_CHECK(std::ranges::equal(encode_manifest(*manifest), bytes));
}

}  // namespace
}  // namespace tiercel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const auto bytes = std::as_bytes(std::span(data, size));
  parse(bytes);
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  if (repaired.size() < kBytesAt + 8 + kChecksumBytes) return 0;
  const std::uint64_t length = repaired.size();
  std::memcpy(repaired.data() + kBytesAt, &length, sizeof length);
  const std::uint64_t sum = checksum64(std::span(repaired).first(repaired.size() - kChecksumBytes));
  std::memcpy(repaired.data() + repaired.size() - kChecksumBytes, &sum, sizeof sum);
  parse(repaired);
  return 0;
}
