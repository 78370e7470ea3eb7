// What a session is: a manifest that lists its blocks by key. docs/formats/session.md has the bytes.
//
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

// Errors: invalid  a name that is empty, too long, or holds control characters; says which.
Result<void> check_session_name(const std::string& name);

std::vector<std::byte> encode_manifest(const SessionManifest& manifest);

// Errors: corrupt  anything that does not hold together; invalid  a newer version.
Result<SessionManifest> parse_manifest(std::span<const std::byte> bytes);

}  // namespace tiercel
