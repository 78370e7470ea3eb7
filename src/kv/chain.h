// Names of blocks: fingerprint of what two caches must agree on, prefix hash per position, key per block.
//
// Layout  Every hash is SHA-256 over a tagged, length-prefixed serialisation, truncated to its first 128 bits, so no two
//         different inputs serialise alike. docs/formats/names.md has a worked example in bytes.
// Threads Pure functions.
// Source  docs/adr/0001-interfaces-that-last.md: a predictable or unsalted hash lets one tenant read another's KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/key.h"
#include "kv/kind.h"
#include "kv/layout.h"

namespace tiercel {

// Names one position: all tokens up to and including this block. `parent` is empty at the head of a chain; the tenant's
// salt enters there and reaches every later position through its parent.
// Shape of `content`: the tokens of this block as little-endian uint32, or the engine's own block hash as bytes; the two
// have different tags, so they never collide.
enum class ChainContent : std::uint8_t { tokens = 0, engine_hash = 1 };
PrefixHash make_prefix_hash(std::span<const std::byte> tenant_salt,
                            const std::optional<PrefixHash>& parent, std::uint32_t token_count,
                            ChainContent content_type, std::span<const std::byte> content);

// The prefix hashes of a whole prompt: full blocks, then a partial one if tokens remain.
std::vector<PrefixHash> make_chain(std::span<const std::byte> tenant_salt,
                                   std::uint32_t block_tokens,
                                   std::span<const std::uint32_t> tokens);

Key make_key(const PrefixHash& prefix, const Fingerprint& fingerprint, const Kind& kind);

}  // namespace tiercel
