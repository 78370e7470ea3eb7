#include "cache/session_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/checksum.h"
#include "base/sha256.h"
#include "kv/little_endian.h"
#include "kv/record.h"

namespace tiercel {
namespace {

constexpr std::string_view kMagic = "TIERSESS";
constexpr std::string_view kFileSuffix = ".session";
constexpr std::size_t kFileDigits = 32;

// Offsets within the header; docs/formats/session.md.
constexpr std::size_t kVersionAt = 8, kFlagsAt = 12, kBytesAt = 16, kSessionVersionAt = 24;
constexpr std::size_t kCreatedAt = 32, kUpdatedAt = 40, kExpiresAt = 48, kBlockTokensAt = 56;
constexpr std::size_t kPositionAt = 60, kTokenCountAt = 64, kNameBytesAt = 72, kCountsAt = 76;
constexpr std::size_t kZeroAt = 92, kNameAt = 96, kHeaderBytes = 224;
constexpr std::size_t kKindBytes = 24, kBlockBytes = 40, kPieceBytes = 24, kChecksumBytes = 8;
static_assert(kNameAt + kSessionNameMax == kHeaderBytes);

Error corrupt(std::string_view what) {
  return fail(Errc::corrupt, fmt::format("session: {}", what));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::uint64_t file_bytes(std::uint64_t kinds, std::uint64_t blocks, std::uint64_t pieces) {
  return kHeaderBytes + kKindBytes * kinds + kBlockBytes * blocks + kPieceBytes * pieces +
         kChecksumBytes;
}

// The length of the UTF-8 sequence at the start of `text`, its value in `code`; 0 where there is none.
std::size_t utf8_length(std::string_view text, std::uint32_t& code) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80             ? 1
                             : (byte(0) & 0xe0) == 0xc0 ? 2
                             : (byte(0) & 0xf0) == 0xe0 ? 3
                             : (byte(0) & 0xf8) == 0xf0 ? 4
                                                        : 0;
  if (length == 0 || length > text.size()) return 0;
  code = length == 1 ? byte(0) : byte(0) & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // Less would have been shorter.
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[length] || code > 0x10ffff || surrogate ? 0 : length;
}

void put_pieces(std::span<std::byte> out, std::size_t& at,
                const std::vector<SessionPiece>& pieces) {
  for (const SessionPiece& piece : pieces) {
    put_name(out, at, piece.key);
    put_number<std::uint64_t>(out, at + 16, piece.bytes);
    at += kPieceBytes;
  }
}

void get_pieces(std::span<const std::byte> in, std::size_t& at, std::vector<SessionPiece>& pieces) {
  for (SessionPiece& piece : pieces) {
    piece = {.key = get_name<Key>(in, at), .bytes = get_number<std::uint64_t>(in, at + 16)};
    at += kPieceBytes;
  }
}

Result<void> check_pieces(const char* what, const std::vector<SessionPiece>& pieces,
                          std::uint64_t unit) {
  std::uint64_t bytes = 0;
  for (const SessionPiece& piece : pieces) {
    if (piece.bytes == 0 || piece.bytes > kChunkBytesMax)
      return corrupt(fmt::format("a piece of its {} has {} bytes", what, piece.bytes));
    bytes += piece.bytes;
    if (bytes > kChunkBytesMax)
      return corrupt(fmt::format("its {} have more than {} bytes", what, kChunkBytesMax));
  }
  if (bytes % unit != 0)
    return corrupt(fmt::format("its {} have {} bytes, not a multiple of {}", what, bytes, unit));
  return {};
}

Result<void> check_kinds(const std::vector<SessionKind>& kinds) {
  if (kinds.size() > kTokensKindId) return corrupt(fmt::format("{} kinds", kinds.size()));
  std::set<std::uint16_t> ids;
  for (const SessionKind& kind : kinds) {
    const Kind& k = kind.kind;
    if (k.id >= kTokensKindId) return corrupt(fmt::format("kind {} is reserved", k.id));
    if (!ids.insert(k.id).second) return corrupt(fmt::format("two kinds have id {}", k.id));
    if (k.reach > Reach::last || (k.reach == Reach::window) != (k.window_tokens > 0))
      return corrupt(fmt::format("kind {}: its reach does not hold together", k.id));
  }
  return {};
}

}  // namespace

Result<void> check_session_name(const std::string& name) {
  if (name.empty()) return fail(Errc::invalid, "a session needs a name");
  if (name.size() > kSessionNameMax) {
    return fail(Errc::invalid, fmt::format("the name of a session has {} bytes, at most {} may be",
                                           name.size(), kSessionNameMax));
  }
  for (std::string_view rest = name; !rest.empty();) {
    std::uint32_t code = 0;
    const std::size_t length = utf8_length(rest, code);
    const std::size_t at = name.size() - rest.size();
    if (length == 0)
      return fail(Errc::invalid, fmt::format("the name of a session is no UTF-8 at byte {}", at));
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
      return fail(Errc::invalid,
                  fmt::format("the name of a session has a control character (U+{:04X}) at byte {}",
                              code, at));
    }
    rest.remove_prefix(length);
  }
  return {};
}

std::string manifest_file_name(const std::string& name) {
  Sha256 sum;
  sum.update("tiercel session name 1");
  sum.update(name);
  const Sha256Digest digest = sum.finish();
  return hex(std::span(digest).first(kFileDigits / 2)) + std::string(kFileSuffix);
}

bool is_manifest_file_name(const std::string& file_name) {
  return file_name.size() == kFileDigits + kFileSuffix.size() && file_name.ends_with(kFileSuffix) &&
         file_name.find_first_not_of("0123456789abcdef") == kFileDigits;
}

std::uint64_t manifest_bytes(const SessionManifest& manifest) {
  return file_bytes(manifest.kinds.size(), manifest.blocks.size(),
                    manifest.tokens.size() + manifest.state.size());
}

Result<void> check_manifest(const SessionManifest& manifest) {
  if (const auto good = check_session_name(manifest.name); !good) return corrupt(good.error().what);
  if (manifest_bytes(manifest) > kManifestBytesMax)
    return corrupt(fmt::format("its manifest has {} bytes, at most {} may be",
                               manifest_bytes(manifest), kManifestBytesMax));
  if (manifest.version == 0) return corrupt("its version is 0");
  if (manifest.block_tokens == 0) return corrupt("its block_tokens are 0");
  TIERCEL_TRY_VOID(check_kinds(manifest.kinds));
  std::uint32_t index = 0;
  std::set<std::uint16_t> seen;  // Kinds of the block `index`.
  for (const SessionBlock& block : manifest.blocks) {
    if (block.kind >= manifest.kinds.size())
      return corrupt(fmt::format("block {} is of kind {} of {}", block.index, block.kind,
                                 manifest.kinds.size()));
    if (block.index >= manifest.position || block.index < index)
      return corrupt(fmt::format("block {} is out of order, or behind position {}", block.index,
                                 manifest.position));
    if (block.index > index) seen.clear();
    index = block.index;
    if (!seen.insert(block.kind).second)
      return corrupt(fmt::format("block {} of kind {} stands twice", index, block.kind));
    if (block.token_count == 0 || block.token_count > manifest.block_tokens)
      return corrupt(fmt::format("block {} has {} tokens of {}", index, block.token_count,
                                 manifest.block_tokens));
    if (block.bytes == 0 || block.bytes > kChunkBytesMax)
      return corrupt(fmt::format("block {} has {} bytes", index, block.bytes));
  }
  TIERCEL_TRY_VOID(check_pieces("tokens", manifest.tokens, sizeof(std::uint32_t)));
  return check_pieces("state", manifest.state, 1);
}

std::vector<std::byte> encode_manifest(const SessionManifest& manifest) {
  std::vector<std::byte> bytes(manifest_bytes(manifest));
  const std::span<std::byte> out(bytes);
  put_magic(out, kMagic);
  put_number<std::uint32_t>(out, kVersionAt, kManifestVersion);
  put_number<std::uint64_t>(out, kBytesAt, bytes.size());
  put_number<std::uint64_t>(out, kSessionVersionAt, manifest.version);
  put_number<std::int64_t>(out, kCreatedAt, manifest.created_unix_s);
  put_number<std::int64_t>(out, kUpdatedAt, manifest.updated_unix_s);
  put_number<std::int64_t>(out, kExpiresAt, manifest.expires_unix_s);
  put_number<std::uint32_t>(out, kBlockTokensAt, manifest.block_tokens);
  put_number<std::uint32_t>(out, kPositionAt, manifest.position);
  put_number<std::uint64_t>(out, kTokenCountAt, manifest.token_count);
  put_number<std::uint32_t>(out, kNameBytesAt, static_cast<std::uint32_t>(manifest.name.size()));
  const std::size_t counts[] = {manifest.kinds.size(), manifest.blocks.size(),
                                manifest.tokens.size(), manifest.state.size()};
  for (std::size_t i = 0; i < 4; ++i)
    put_number<std::uint32_t>(out, kCountsAt + 4 * i, static_cast<std::uint32_t>(counts[i]));
  std::ranges::copy(std::as_bytes(std::span(manifest.name)), out.begin() + kNameAt);
  std::size_t at = kHeaderBytes;
  for (const SessionKind& kind : manifest.kinds) {
    put_name(out, at, kind.fingerprint);
    put_number<std::uint32_t>(out, at + 16, kind.kind.window_tokens);
    put_number<std::uint16_t>(out, at + 20, kind.kind.id);
    put_number<std::uint8_t>(out, at + 22, static_cast<std::uint8_t>(kind.kind.reach));
    at += kKindBytes;
  }
  for (const SessionBlock& block : manifest.blocks) {
    put_name(out, at, block.key);
    put_number<std::uint64_t>(out, at + 16, block.bytes);
    put_number<std::uint32_t>(out, at + 24, block.index);
    put_number<std::uint32_t>(out, at + 28, block.token_count);
    put_number<std::uint16_t>(out, at + 32, block.kind);
    at += kBlockBytes;
  }
  put_pieces(out, at, manifest.tokens);
  put_pieces(out, at, manifest.state);
  put_number<std::uint64_t>(out, at, checksum64(out.first(at)));
  return bytes;
}

Result<SessionManifest> parse_manifest(std::span<const std::byte> in) {
  if (!has_magic(in, kMagic)) return corrupt("this is no manifest of a session");
  if (in.size() < kHeaderBytes + kChecksumBytes ||
      get_number<std::uint64_t>(in, kBytesAt) != in.size())
    return corrupt(fmt::format("the manifest has {} bytes, and says otherwise", in.size()));
  const std::size_t end = in.size() - kChecksumBytes;
  if (get_number<std::uint64_t>(in, end) != checksum64(in.first(end)))
    return corrupt("the checksum of the manifest does not match");
  const auto version = get_number<std::uint32_t>(in, kVersionAt);
  const auto flags = get_number<std::uint32_t>(in, kFlagsAt);
  if (version > kManifestVersion || (version == kManifestVersion && flags != 0)) {
    return fail(Errc::invalid,
                fmt::format("session: a manifest of version {} with flags {:#x}; this build reads "
                            "up to version {} without flags; use a newer build",
                            version, flags, kManifestVersion));
  }
  if (version == 0) return corrupt("a manifest of version 0");

  std::uint32_t counts[4];
  for (std::size_t i = 0; i < 4; ++i) counts[i] = get_number<std::uint32_t>(in, kCountsAt + 4 * i);
  const std::uint64_t pieces = std::uint64_t{counts[2]} + counts[3];
  if (file_bytes(counts[0], counts[1], pieces) != in.size())
    return corrupt("the length of the manifest is not the sum of its parts");
  const auto name_bytes = get_number<std::uint32_t>(in, kNameBytesAt);
  if (name_bytes > kSessionNameMax ||
      !all_zero(in.subspan(kNameAt + name_bytes, kSessionNameMax - name_bytes)) ||
      !all_zero(in.subspan(kZeroAt, 4)))
    return corrupt("bytes that should be zero are not");

  SessionManifest manifest;
  const auto name = in.subspan(kNameAt, name_bytes);
  manifest.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  manifest.version = get_number<std::uint64_t>(in, kSessionVersionAt);
  manifest.created_unix_s = get_number<std::int64_t>(in, kCreatedAt);
  manifest.updated_unix_s = get_number<std::int64_t>(in, kUpdatedAt);
  manifest.expires_unix_s = get_number<std::int64_t>(in, kExpiresAt);
  manifest.block_tokens = get_number<std::uint32_t>(in, kBlockTokensAt);
  manifest.position = get_number<std::uint32_t>(in, kPositionAt);
  manifest.token_count = get_number<std::uint64_t>(in, kTokenCountAt);
  manifest.kinds.resize(counts[0]);
  manifest.blocks.resize(counts[1]);
  manifest.tokens.resize(counts[2]);
  manifest.state.resize(counts[3]);
  std::size_t at = kHeaderBytes;
  for (SessionKind& kind : manifest.kinds) {
    kind.fingerprint = get_name<Fingerprint>(in, at);
    kind.kind = {.id = get_number<std::uint16_t>(in, at + 20),
                 .reach = static_cast<Reach>(get_number<std::uint8_t>(in, at + 22)),
                 .window_tokens = get_number<std::uint32_t>(in, at + 16)};
    if (in[at + 23] != std::byte{0}) return corrupt("bytes that should be zero are not");
    at += kKindBytes;
  }
  for (SessionBlock& block : manifest.blocks) {
    block = {.key = get_name<Key>(in, at),
             .kind = get_number<std::uint16_t>(in, at + 32),
             .index = get_number<std::uint32_t>(in, at + 24),
             .token_count = get_number<std::uint32_t>(in, at + 28),
             .bytes = get_number<std::uint64_t>(in, at + 16)};
    if (!all_zero(in.subspan(at + 34, 6))) return corrupt("bytes that should be zero are not");
    at += kBlockBytes;
  }
  get_pieces(in, at, manifest.tokens);
  get_pieces(in, at, manifest.state);
  TIERCEL_TRY_VOID(check_manifest(manifest));
  return manifest;
}

}  // namespace tiercel
