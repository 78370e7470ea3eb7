#include "cache/session_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/byte_size.h"
#include "base/checksum.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

constexpr std::string_view kMagic = "TIERSEXP";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 64, kTrailerBytes = 8;
// Of tokens and state, which are put together in memory; equal pieces stand once in the file, so its length says little.
constexpr std::uint64_t kContentBytesMax = 4 * kGiB;

Error corrupt(std::string_view what) {
  return fail(Errc::corrupt, fmt::format("exported session: {}", what));
}

struct Listed {
  Key key;
  Fingerprint fingerprint;
  Kind kind;
  std::uint64_t bytes = 0;
};

// The records of a manifest, each once.
std::vector<Listed> records_of(const SessionManifest& manifest) {
  std::vector<Listed> listed;
  std::unordered_set<Key> seen;
  for (const SessionBlock& block : manifest.blocks) {
    const SessionKind& kind = manifest.kinds[block.kind];
    if (seen.insert(block.key).second)
      listed.push_back({block.key, kind.fingerprint, kind.kind, block.bytes});
  }
  for (const auto* pieces : {&manifest.tokens, &manifest.state}) {
    const std::uint16_t id = pieces == &manifest.tokens ? kTokensKindId : kStateKindId;
    for (const SessionPiece& piece : *pieces) {
      if (seen.insert(piece.key).second) listed.push_back({piece.key, {}, {.id = id}, piece.bytes});
    }
  }
  return listed;
}

std::vector<std::byte> encode_header(std::uint64_t file_bytes, std::uint64_t manifest_bytes,
                                     std::uint64_t records) {
  std::vector<std::byte> bytes(kHeaderBytes);
  const std::span<std::byte> out(bytes);
  put_magic(out, kMagic);
  put_number<std::uint32_t>(out, 8, kVersion);
  put_number<std::uint64_t>(out, 16, file_bytes);
  put_number<std::uint64_t>(out, 24, manifest_bytes);
  put_number<std::uint64_t>(out, 32, records);
  put_number<std::uint64_t>(out, 56, checksum64(out.first(56)));
  return bytes;
}

// Reads the file once from front to back, and sums it up.
class Reader {
 public:
  Reader(const ReadAt& read, std::uint64_t bytes) : read_(read), bytes_(bytes) {}

  Result<std::span<const std::byte>> next(std::uint64_t bytes) {
    if (bytes > bytes_ - at_) return corrupt("it ends early");
    buffer_.resize(bytes);
    TIERCEL_TRY_VOID(read_(at_, buffer_));
    at_ += bytes;
    sum_.update(buffer_);
    return std::span<const std::byte>(buffer_);
  }
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_ - at_; }
  std::uint64_t sum() const { return sum_.finish(); }

 private:
  const ReadAt& read_;
  const std::uint64_t bytes_;
  std::uint64_t at_ = 0;
  Checksum64 sum_;
  std::vector<std::byte> buffer_;
};

// The record that comes next, verified whole, must be `listed`.
Result<RecordHead> take_record(std::span<const std::byte> record, const Listed& listed) {
  TIERCEL_TRY(RecordHead head, parse_head(record));
  const bool is_listed = head.key == listed.key && head.fingerprint == listed.fingerprint &&
                         head.kind == listed.kind && head.key_id == 0 && head.chunks.size() == 1 &&
                         head.chunks[0].codec == 0 && head.chunks[0].plain_bytes == listed.bytes &&
                         head.chunks[0].stored_bytes == listed.bytes;
  if (!is_listed) return corrupt("a record is not the one that the manifest lists");
  const std::span<const std::byte> body = record.subspan(record_head_bytes(1));
  TIERCEL_TRY_VOID(verify_chunks(head, std::span(&body, 1)));
  return head;
}

Result<SessionManifest> take_header(Reader& reader, std::uint64_t file_bytes,
                                    std::uint64_t& records) {
  TIERCEL_TRY(const auto header, reader.next(kHeaderBytes));
  if (!has_magic(header, kMagic)) return corrupt("this file is none");
  if (get_number<std::uint64_t>(header, 56) != checksum64(header.first(56)))
    return corrupt("the checksum of its header does not match");
  const auto version = get_number<std::uint32_t>(header, 8);
  const auto flags = get_number<std::uint32_t>(header, 12);
  if (version > kVersion || (version == kVersion && flags != 0)) {
    return fail(Errc::invalid,
                fmt::format("exported session: version {} with flags {:#x}; this build reads up to "
                            "version {} without flags; use a newer build",
                            version, flags, kVersion));
  }
  const auto manifest_bytes = get_number<std::uint64_t>(header, 24);
  records = get_number<std::uint64_t>(header, 32);
  const bool zeros =
      get_number<std::uint64_t>(header, 40) == 0 && get_number<std::uint64_t>(header, 48) == 0;
  if (version == 0 || !zeros || get_number<std::uint64_t>(header, 16) != file_bytes ||
      manifest_bytes > kManifestBytesMax)
    return corrupt("its header does not hold together, or the file was cut");
  TIERCEL_TRY(const auto manifest, reader.next(manifest_bytes));
  return parse_manifest(manifest);
}

}  // namespace

Result<ExportedSession> parse_export(const ReadAt& read, std::uint64_t file_bytes) {
  Reader reader(read, file_bytes);
  std::uint64_t records = 0;
  ExportedSession session;
  TIERCEL_TRY(session.manifest, take_header(reader, file_bytes, records));
  const std::vector<Listed> listed = records_of(session.manifest);
  if (records != listed.size()) return corrupt("its records are not those of the manifest");
  const std::uint64_t padding = align_up(reader.at(), kRecordAlignment) - reader.at();
  TIERCEL_TRY(const auto zeros, reader.next(padding));
  if (std::ranges::any_of(zeros, [](std::byte byte) { return byte != std::byte{0}; }))
    return corrupt("bytes that should be zero are not");
  for (const Listed& one : listed) {
    const std::uint64_t offset = reader.at(), bytes = record_bytes(one.bytes);
    if (bytes > kExportRecordBytesMax) {
      return fail(Errc::invalid,
                  fmt::format("exported session: a record of {}, at most {} may be",
                              pretty_byte_size(bytes), pretty_byte_size(kExportRecordBytesMax)));
    }
    TIERCEL_TRY(const auto record, reader.next(bytes));
    TIERCEL_TRY(RecordHead head, take_record(record, one));
    session.records.push_back({.head = std::move(head), .offset = offset});
  }
  const std::uint64_t sum = reader.sum();
  TIERCEL_TRY(const auto trailer, reader.next(kTrailerBytes));
  if (reader.left() != 0) return corrupt("bytes after its end");
  if (get_number<std::uint64_t>(trailer, 0) != sum)
    return corrupt("the checksum of the file does not match");
  return session;
}

Result<SessionManifest> export_session(SessionStore& store, Disk& disk, const std::string& name,
                                       const std::string& path) {
  TIERCEL_TRY(const SessionManifest manifest, store.find(name));
  const std::vector<Listed> listed = records_of(manifest);
  const std::vector<std::byte> encoded = encode_manifest(manifest);
  std::uint64_t bytes = align_up(kHeaderBytes + encoded.size(), kRecordAlignment) + kTrailerBytes;
  std::vector<Key> keys;
  for (const Listed& one : listed) {
    keys.push_back(one.key);
    bytes += record_bytes(one.bytes);
  }
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> Result<void> {
    TIERCEL_TRY(const auto file, disk.open(temporary, {.write = true, .create = true}));
    TIERCEL_TRY_VOID(file->truncate(0));
    TIERCEL_TRY_VOID(file->truncate(bytes));
    Checksum64 sum;
    std::uint64_t at = 0;
    const auto append = [&](std::span<const std::byte> part) -> Result<void> {
      TIERCEL_TRY_VOID(file->write(at, part));
      at += part.size();
      sum.update(part);
      return {};
    };
    TIERCEL_TRY_VOID(append(encode_header(bytes, encoded.size(), listed.size())));
    TIERCEL_TRY_VOID(append(encoded));
    TIERCEL_TRY_VOID(append(std::vector<std::byte>(align_up(at, kRecordAlignment) - at)));
    TIERCEL_TRY_VOID(store.read_records(keys, append));
    std::array<std::byte, kTrailerBytes> trailer{};
    put_number<std::uint64_t>(trailer, 0, sum.finish());
    TIERCEL_TRY_VOID(append(trailer));
    return file->sync();
  };
  auto outcome = write();
  if (outcome) outcome = disk.rename(temporary, path);
  if (!outcome) {
    const auto removed = disk.remove(temporary);
    static_cast<void>(removed);  // The first error is the one to tell.
    return outcome.error();
  }
  const std::size_t slash = path.find_last_of('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  TIERCEL_TRY(const auto directory, disk.open_directory(parent));
  TIERCEL_TRY_VOID(directory->sync());
  return manifest;
}

namespace {

// Tokens or state, put together again.
Result<std::vector<std::byte>> read_pieces(const ReadAt& read,
                                           const std::unordered_map<Key, std::uint64_t>& offsets,
                                           const std::vector<SessionPiece>& pieces) {
  std::uint64_t bytes = 0;
  for (const SessionPiece& piece : pieces) bytes += piece.bytes;
  if (bytes > kContentBytesMax) {
    return fail(Errc::invalid,
                fmt::format("exported session: tokens or state of {}, at most {} may be",
                            pretty_byte_size(bytes), pretty_byte_size(kContentBytesMax)));
  }
  std::vector<std::byte> content;
  content.reserve(bytes);
  for (const SessionPiece& piece : pieces) {
    const std::size_t at = content.size();
    content.resize(at + piece.bytes);
    TIERCEL_TRY_VOID(
        read(offsets.at(piece.key) + record_head_bytes(1), std::span(content).subspan(at)));
  }
  return content;
}

}  // namespace

Result<SessionManifest> import_session(SessionStore& store, Disk& disk, const std::string& path,
                                       const std::string& name, std::int64_t now_unix_s,
                                       std::int64_t deadline_ns) {
  TIERCEL_TRY(const auto file, disk.open(path, {}));
  TIERCEL_TRY(const FileStatus status, file->status());
  const ReadAt read = [&](std::uint64_t offset, std::span<std::byte> memory) {
    return file->read(offset, memory);
  };
  auto session = parse_export(read, status.bytes);
  if (!session)
    return fail(session.error().code, fmt::format("{}: {}", path, session.error().what));
  const SessionManifest& manifest = session->manifest;
  if (manifest.expires_unix_s != 0 && manifest.expires_unix_s <= now_unix_s)
    return fail(Errc::invalid, fmt::format("{}: the ttl of \"{}\" is over", path, manifest.name));

  SessionDraft draft{.name = name.empty() ? manifest.name : name,
                     .block_tokens = manifest.block_tokens,
                     .position = manifest.position,
                     .token_count = manifest.token_count,
                     .expires_unix_s = manifest.expires_unix_s,
                     .now_unix_s = now_unix_s};
  std::unordered_map<Key, std::uint64_t> offsets;
  std::unordered_map<Key, const RecordHead*> heads;
  for (const ExportedRecord& record : session->records) {
    offsets[record.head.key] = record.offset;
    heads[record.head.key] = &record.head;
  }
  for (const SessionBlock& block : manifest.blocks) {
    SessionSource source{.head = *heads.at(block.key), .index = block.index, .bytes = block.bytes};
    source.head.chunks.clear();
    draft.blocks.push_back(std::move(source));
  }
  TIERCEL_TRY(const auto token_bytes, read_pieces(read, offsets, manifest.tokens));
  std::vector<std::uint32_t> tokens(token_bytes.size() / sizeof(std::uint32_t));
  std::ranges::copy(token_bytes, std::as_writable_bytes(std::span(tokens)).begin());
  TIERCEL_TRY(const auto state, read_pieces(read, offsets, manifest.state));
  draft.tokens = tokens;
  draft.state = state;
  draft.read = [&](std::size_t i, std::span<std::byte> payload) -> Result<void> {
    const SessionBlock& block = manifest.blocks[i];
    TIERCEL_TRY_VOID(read(offsets.at(block.key) + record_head_bytes(1), payload));
    if (checksum64(payload) != heads.at(block.key)->chunks[0].checksum)
      return corrupt("it changed while it was read");
    return {};
  };
  return store.suspend(draft, deadline_ns);
}

}  // namespace tiercel
