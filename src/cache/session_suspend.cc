// SessionStore::suspend: the manifest of a draft, the records it lacks, and the order in which they become durable.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <unordered_set>

#include "base/byte_size.h"
#include "base/sha256.h"
#include "cache/session_store_impl.h"

namespace tiercel {
namespace {

// What the directory takes for a name, at most: 40 characters and its own fields, with room for a page half full.
constexpr std::uint64_t kNameBytes = 128;
// What a file system may add to a file for its extent map.
constexpr std::uint64_t kFileSlackBytes = kPageBytes;
// How often what proved bad meanwhile is written anew.
constexpr int kRoundsMax = 4;

Error refuse(std::string what) { return fail(Errc::invalid, "suspend: " + what); }

std::int64_t system_unix_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Key piece_key(std::uint16_t kind, std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.update(kind == kTokensKindId ? "tiercel session tokens 1" : "tiercel session state 1");
  sum.update(bytes);
  const Sha256Digest digest = sum.finish();
  Key key;
  std::copy_n(digest.begin(), key.bytes.size(), key.bytes.begin());
  return key;
}

// Errors: invalid.
Result<SessionManifest> SessionStore::Impl::describe(const SessionDraft& draft,
                                                     std::vector<Part>& parts) const {
  SessionManifest manifest{.name = draft.name,
                           .version = 1,
                           .expires_unix_s = draft.expires_unix_s,
                           .block_tokens = draft.block_tokens,
                           .position = draft.position,
                           .token_count = draft.token_count};
  manifest.updated_unix_s = draft.now_unix_s != 0 ? draft.now_unix_s : system_unix_s();
  manifest.created_unix_s = manifest.updated_unix_s;
  const std::uint64_t record_max = tier_->superblock().record_bytes_max;
  for (std::size_t i = 0; i < draft.blocks.size(); ++i) {
    const SessionSource& source = draft.blocks[i];
    const SessionKind kind{.kind = source.head.kind, .fingerprint = source.head.fingerprint};
    const auto known = std::ranges::find(manifest.kinds, kind);
    if (source.bytes == 0 || source.bytes > record_max || record_bytes(source.bytes) > record_max)
      return refuse(
          fmt::format("block {} of kind {} has {} bytes; the store was made for records "
                      "of up to {}",
                      source.index, kind.kind.id, source.bytes, record_max));
    manifest.blocks.push_back({.key = source.head.key,
                               .kind = static_cast<std::uint16_t>(known - manifest.kinds.begin()),
                               .index = source.index,
                               .token_count = source.head.token_count,
                               .bytes = source.bytes});
    if (known == manifest.kinds.end()) manifest.kinds.push_back(kind);
    parts.push_back({.head = source.head, .bytes = source.bytes, .block = i});
  }
  cut(std::as_bytes(draft.tokens), kTokensKindId, manifest.tokens, parts);
  cut(draft.state, kStateKindId, manifest.state, parts);
  if (const auto good = check_manifest(manifest); !good) return refuse(good.error().what);
  return manifest;
}

// Into records of whole tokens; the last may be shorter.
void SessionStore::Impl::cut(std::span<const std::byte> content, std::uint16_t kind,
                             std::vector<SessionPiece>& pieces, std::vector<Part>& parts) const {
  const std::uint64_t most = tier_->superblock().record_bytes_max - record_head_bytes(1);
  while (!content.empty()) {
    const auto piece = content.first(std::min<std::uint64_t>(most, content.size()));
    content = content.subspan(piece.size());
    RecordHead head;
    head.key = piece_key(kind, piece);
    head.kind = {.id = kind};
    pieces.push_back({.key = head.key, .bytes = piece.size()});
    parts.push_back({.head = std::move(head), .bytes = piece.size(), .content = piece});
  }
}

Result<SessionManifest> SessionStore::Impl::suspend(const SessionDraft& draft,
                                                    std::int64_t deadline_ns) {
  std::vector<Part> parts;
  TIERCEL_TRY_VOID(check_session_name(draft.name));
  TIERCEL_TRY(SessionManifest manifest, describe(draft, parts));
  TIERCEL_TRY(const Turn turn, take_turn(deadline_ns));
  TIERCEL_TRY_VOID(check_writable());
  {
    const MutexLock lock(mutex_);
    if (const auto found = sessions_.find(draft.name); found != sessions_.end()) {
      manifest.version = found->second.manifest.version + 1;
      manifest.created_unix_s = found->second.manifest.created_unix_s;
    }
    log_.begin_round();
  }
  TIERCEL_TRY_VOID(check_room(manifest, parts));
  std::vector<Key> held, written;  // Each with a reference of ours.
  auto outcome = write_all(draft, parts, deadline_ns, held, written);
  if (outcome) outcome = make_durable(manifest);
  if (!outcome) {
    roll_back(held, written);
    count_disk();
    return outcome.error();
  }
  {
    const std::string file_name = manifest_file_name(manifest.name);
    const std::uint64_t charge = charge_of(file_name, manifest_bytes(manifest));
    const MutexLock lock(mutex_);
    Session& session = sessions_[manifest.name];
    drop(session.manifest);  // The references of what was written are now the new manifest's.
    manifest_bytes_ += charge - session.disk_bytes;
    session = {.manifest = manifest, .disk_bytes = charge};
  }
  sweep();
  count_disk();
  return manifest;
}

// Whether it can be done at all, before anything is written.
Result<void> SessionStore::Impl::check_room(const SessionManifest& manifest,
                                            std::span<const Part> parts) {
  const MutexLock lock(mutex_);
  const std::uint64_t file_bytes =
      align_up(manifest_bytes(manifest), kPageBytes) + kFileSlackBytes + kNameBytes;
  if (manifest_bytes_ + file_bytes > manifest_share_) {
    return fail(
        Errc::no_space,
        fmt::format("sessions: the manifests of {} sessions take {} of the {} that a share "
                    "of {} has for them, and {} more are needed; forget sessions, or give "
                    "the sessions more",
                    sessions_.size(), pretty_byte_size(manifest_bytes_),
                    pretty_byte_size(manifest_share_), pretty_byte_size(options_.capacity_bytes),
                    pretty_byte_size(file_bytes)));
  }
  std::unordered_set<Key> counted;
  std::uint64_t needed = 0;
  for (const Part& part : parts) {
    const SessionLog::Entry* const entry = log_.find(part.head.key);
    if (entry == nullptr || entry->lost) {
      if (counted.insert(part.head.key).second) needed += record_bytes(part.bytes);
    } else if (entry->place.bytes != record_bytes(part.bytes) ||
               entry->fingerprint != part.head.fingerprint) {
      return refuse(
          fmt::format("a block of {} bytes goes by the key {}, which the store holds with "
                      "another size or fingerprint",
                      part.bytes, hex(part.head.key)));
    }
  }
  if (log_.live_bytes() + needed > log_.usable_bytes()) return no_room(needed);
  return {};
}

// Until all of it is held: while room is made, records are read, and one that is shared, or just written, may prove bad.
Result<void> SessionStore::Impl::write_all(const SessionDraft& draft, std::span<const Part> parts,
                                           std::int64_t deadline_ns, std::vector<Key>& held,
                                           std::vector<Key>& written) {
  TIERCEL_TRY_VOID(write_parts(draft, parts, deadline_ns, held, written));
  for (int round = 0; round < kRoundsMax; ++round) {
    const std::vector<Part> lost = lost_of(parts);
    if (lost.empty()) return {};
    std::vector<Key> again;
    const auto outcome = write_parts(draft, lost, deadline_ns, held, again);
    // Each has the reference of its first try still: one is enough.
    const MutexLock lock(mutex_);
    for (const Key& key : again) {
      auto* const from = std::ranges::find(held, key) != held.end() ? &held : &written;
      from->erase(std::ranges::find(*from, key));
      log_.release(key);
    }
    written.insert(written.end(), again.begin(), again.end());
    if (!outcome) return outcome;
  }
  if (lost_of(parts).empty()) return {};
  return fail(Errc::corrupt,
              fmt::format("suspend: \"{}\": records of it proved bad {} times in a row while they "
                          "were moved; the disk of {} does not keep what it is given",
                          draft.name, kRoundsMax, options_.directory));
}

// Each key once.
std::vector<SessionStore::Impl::Part> SessionStore::Impl::lost_of(std::span<const Part> parts) {
  std::vector<Part> lost;
  std::unordered_set<Key> seen;
  const MutexLock lock(mutex_);
  for (const Part& part : parts) {
    if (!log_.holds(part.head.key) && seen.insert(part.head.key).second) lost.push_back(part);
  }
  return lost;
}

// In the order of the manifest, so that what is read together lies together.
Result<void> SessionStore::Impl::write_parts(const SessionDraft& draft, std::span<const Part> parts,
                                             std::int64_t deadline_ns, std::vector<Key>& held,
                                             std::vector<Key>& written) {
  Ahead ahead{.name = draft.name, .deadline_ns = deadline_ns};
  for (const Part& part : lost_of(parts)) ahead.bytes += record_bytes(part.bytes);
  for (const Part& part : parts) {
    TIERCEL_TRY_VOID(check_time(ahead));
    bool there = false;
    {
      const MutexLock lock(mutex_);
      there = log_.holds(part.head.key);
      if (there) log_.retain(part.head.key);
    }
    if (there) {
      held.push_back(part.head.key);
    } else {
      TIERCEL_TRY_VOID(write_part(draft, part, ahead, written));
      ahead.bytes -= std::min(ahead.bytes, record_bytes(part.bytes));
    }
  }
  return {};
}

Result<void> SessionStore::Impl::check_time(const Ahead& ahead) const {
  if (ahead.deadline_ns == 0 || options_.clock->now_ns() <= ahead.deadline_ns) return {};
  return fail(Errc::busy, fmt::format("suspend: \"{}\" was not written in time", ahead.name));
}

Result<void> SessionStore::Impl::write_part(const SessionDraft& draft, const Part& part,
                                            const Ahead& ahead, std::vector<Key>& written) {
  if (part.block && !draft.read) {
    return refuse(
        fmt::format("block {} of kind {} is not held, and the draft has nothing to read "
                    "it from",
                    draft.blocks[*part.block].index, part.head.kind.id));
  }
  TIERCEL_TRY_VOID(make_room(ahead, record_bytes(part.bytes)));
  TIERCEL_TRY(const std::span<std::byte> payload, io_->take(part.bytes));
  if (part.block) {
    if (const auto read = draft.read(*part.block, payload); !read) {
      if (read.error().os_errno == ETIMEDOUT) {
        io_->retire(read.error());
      } else {
        io_->give_back(payload);
      }
      return read;
    }
  } else {
    std::ranges::copy(part.content, payload.begin());
  }
  Place place;
  {
    const MutexLock lock(mutex_);
    place = log_.append(record_bytes(part.bytes));
    log_.put(part.head.key, part.head.fingerprint, place);
  }
  written.push_back(part.head.key);
  return io_->store(payload, part.head, place);
}

Result<void> SessionStore::Impl::make_durable(const SessionManifest& manifest) {
#if defined(TIERCEL_SABOTAGE_MANIFEST_FIRST)
  // The control of the power-loss test: a manifest that is durable before what it names is.
  TIERCEL_TRY_VOID(io_->drain());
  TIERCEL_TRY_VOID(replace_manifest(manifest));
  return commit();
#else
  TIERCEL_TRY_VOID(commit());
  return replace_manifest(manifest);
#endif
}

Result<void> SessionStore::Impl::commit() {
  TIERCEL_TRY_VOID(io_->drain());
  if (const auto committed = io_->commit(); !committed) {
    fail_for_good(committed.error());
    return committed;
  }
  const MutexLock lock(mutex_);
  log_.committed();
  return {};
}

// Where it fails, the file is read again to see which of the two it is: renamed but perhaps not durable is a state that only a
// restart resolves, and until then nothing that either version refers to may be written over.
Result<void> SessionStore::Impl::replace_manifest(const SessionManifest& manifest) {
  const std::string name = manifest_file_name(manifest.name);
  auto outcome = replace_file(disk_, options_.directory, name, encode_manifest(manifest));
  if (outcome) return outcome;
  const auto found = read_file(disk_, path_of(name), kManifestBytesMax);
  const auto parsed = found ? parse_manifest(*found) : Result<SessionManifest>(found.error());
  const bool as_before = manifest.version == 1 && !found
                             ? is_missing(found.error())
                             : parsed && parsed->version < manifest.version;
  if (!as_before) fail_for_good(outcome.error());
  const auto removed = disk_.remove(path_of(name + ".tmp"));
  static_cast<void>(removed);  // Often there is none; what stays is removed at the next open.
  return outcome;
}

// Everything is as before: what was written has no reference any more, and its space comes back with its segment.
void SessionStore::Impl::roll_back(const std::vector<Key>& held, const std::vector<Key>& written) {
  const auto drained = io_->drain();
  static_cast<void>(drained);  // The first error is the one to tell.
  {
    const MutexLock lock(mutex_);
    for (const Key& key : held) log_.release(key);
    for (const Key& key : written) {
      log_.lose(key);  // Others may refer to it, if it had been lost before.
      log_.release(key);
    }
  }
  sweep();
}

// What a manifest takes of the share; `bytes` where the disk does not tell.
std::uint64_t SessionStore::Impl::charge_of(const std::string& file_name, std::uint64_t bytes) {
  std::uint64_t taken = align_up(bytes, kPageBytes) + kFileSlackBytes;
  if (const auto file = disk_.open(path_of(file_name), {})) {
    if (const auto status = (*file)->status()) taken = status->allocated_bytes;
  }
  return taken + kNameBytes;
}

}  // namespace tiercel
