// What a session is: a manifest that lists its blocks by key. docs/formats/session.md has the bytes.
//
// File    manifest_file_name(name): a hash, for names are arbitrary text and file systems have rules of their own. The name
//         itself stands inside, and a file by another name than that is damaged.
// Versions  Every version keeps magic, version, length and the checksum at the end where they are: so damage is told from a newer
//         version, which is left untouched.
// Bounds  A manifest has at most kManifestBytesMax bytes; parsing allocates nothing before the counts are held against the length.
// Threads Plain values and pure functions.
// Source  docs/adr/0006-sessions.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/key.h"
#include "kv/kind.h"

namespace tiercel {

inline constexpr std::size_t kSessionNameMax = 128;
// Of blocks and pieces together, 40 bytes each at most: 1.6 million of them.
inline constexpr std::uint64_t kManifestBytesMax = 64ULL << 20;
inline constexpr std::uint32_t kManifestVersion = 1;

// Records of the store that are no blocks have these as Kind::id; no kind of a model may.
inline constexpr std::uint16_t kTokensKindId = 0xFFFE;
inline constexpr std::uint16_t kStateKindId = 0xFFFF;

struct SessionKind {
  Kind kind;
  Fingerprint fingerprint;

  bool operator==(const SessionKind&) const = default;
};

struct SessionBlock {
  Key key;
  std::uint16_t kind = 0;   // Index into SessionManifest::kinds.
  std::uint32_t index = 0;  // Block of the chain.
  std::uint32_t token_count = 0;
  std::uint64_t bytes = 0;  // Payload.

  bool operator==(const SessionBlock&) const = default;
};

// A piece of the tokens or of the state, a record by the hash of its bytes.
struct SessionPiece {
  Key key;
  std::uint64_t bytes = 0;

  bool operator==(const SessionPiece&) const = default;
};

struct SessionManifest {
  std::string name;
  std::uint64_t version = 0;  // Grows by one with every suspend of this name.
  std::int64_t created_unix_s = 0, updated_unix_s = 0;
  std::int64_t expires_unix_s = 0;  // 0: never.
  std::uint32_t block_tokens = 0;
  std::uint32_t position = 0;
  std::uint64_t token_count = 0;
  std::vector<SessionKind> kinds;
  std::vector<SessionBlock> blocks;  // In prefix order.
  std::vector<SessionPiece> tokens, state;

  bool operator==(const SessionManifest&) const = default;
};

// Errors: invalid  a name that is empty, too long, no UTF-8, or holds control characters; says which.
Result<void> check_session_name(const std::string& name);

std::string manifest_file_name(const std::string& name);  // 32 hex digits and ".session".
// True for the name of a manifest file, whatever session it is of.
bool is_manifest_file_name(const std::string& file_name);

std::uint64_t manifest_bytes(const SessionManifest& manifest);  // Of the file.

// What parse_manifest() asks of a manifest beyond its bytes. Errors: corrupt  says what does not hold together.
Result<void> check_manifest(const SessionManifest& manifest);

// Requires a manifest that check_manifest() accepts.
std::vector<std::byte> encode_manifest(const SessionManifest& manifest);

// Errors: corrupt  anything that does not hold together; invalid  a newer version, or flags of one.
Result<SessionManifest> parse_manifest(std::span<const std::byte> bytes);

}  // namespace tiercel
