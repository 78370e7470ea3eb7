#include "cache/session_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "tier/store_directory.h"

namespace tiercel {

std::string session_directory(const std::string& store_directory) {
  return store_directory + "/sessions";
}

namespace {

// Manifests have a fixed part of a share, and small blocks in few segments do not make one that is large enough for all that list
// them: so much more gives them room.
Result<std::uint64_t> manifest_room(Disk& disk, const std::string& directory) {
  TIERCEL_TRY(const auto names, disk.list(directory));
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    const bool manifest =
        is_manifest_file_name(name) || is_manifest_file_name(name.substr(0, name.rfind('.')));
    if (!manifest) continue;
    const auto file = disk.open(directory + "/" + name, {});
    if (!file && is_missing(file.error())) continue;  // Forgotten since it was listed.
    if (!file) return file.error();
    TIERCEL_TRY(const FileStatus status, (*file)->status());
    bytes += std::max(status.allocated_bytes, align_up(status.bytes, kPageBytes)) + kPageBytes;
  }
  return bytes * kManifestShareDivisor;
}

}  // namespace

Result<SessionStore::Options> options_of_existing(Disk& disk, const std::string& store_directory) {
  const std::string directory = session_directory(store_directory);
  const auto superblock = read_superblock(disk, directory);
  if (!superblock) {
    const auto names = disk.list(directory);
    if (names || !is_missing(names.error())) return superblock.error();  // Damaged, newer, foreign.
    TIERCEL_TRY(const Superblock store, read_superblock(disk, store_directory));
    static_cast<void>(store);  // There is one; else its error is the clearer one.
    return fail(Errc::invalid, fmt::format("{} keeps no sessions: it was opened without "
                                           "session_bytes so far",
                                           store_directory));
  }
  TIERCEL_TRY(std::uint64_t capacity_bytes, roomy_capacity(disk, directory));
  TIERCEL_TRY(const std::uint64_t manifests, manifest_room(disk, directory));
  capacity_bytes += manifests;
  return SessionStore::Options{.directory = directory,
                               .capacity_bytes = capacity_bytes,
                               .segment_bytes = superblock->segment_bytes,
                               .record_bytes_max = superblock->record_bytes_max};
}

Result<SessionListing> read_sessions(Disk& disk, const std::string& store_directory) {
  TIERCEL_TRY(const SessionStore::Options options, options_of_existing(disk, store_directory));
  const std::string& directory = options.directory;
  SessionListing listing;
  TIERCEL_TRY(const auto names, disk.list(directory));
  for (const std::string& name : names) {
    if (!is_manifest_file_name(name)) continue;
    const auto bytes = read_file(disk, directory + "/" + name, kManifestBytesMax);
    if (!bytes && is_missing(bytes.error())) continue;  // Forgotten since it was listed.
    auto manifest = bytes ? parse_manifest(*bytes) : Result<SessionManifest>(bytes.error());
    if (!manifest) {
      listing.complaints.push_back(
          fmt::format("{}/{}: {}", directory, name, manifest.error().what));
    } else if (manifest_file_name(manifest->name) != name) {
      listing.complaints.push_back(fmt::format(
          "{}/{}: it is the manifest of \"{}\" by another name", directory, name, manifest->name));
    } else {
      listing.sessions.push_back(*std::move(manifest));
    }
  }
  std::ranges::sort(listing.sessions, {}, &SessionManifest::name);
  return listing;
}

std::vector<std::string> not_whole(const SessionListing& listing, const StoreReport& report) {
  std::unordered_set<Key> there;
  for (const SegmentReport& segment : report.segments) {
    for (const FooterEntry& record : segment.scan.records) there.insert(record.key);
  }
  std::vector<std::string> sentences;
  for (const SessionManifest& manifest : listing.sessions) {
    std::uint64_t missing = 0;
    const auto look_for = [&](const Key& key) { missing += there.contains(key) ? 0 : 1; };
    for (const SessionBlock& block : manifest.blocks) look_for(block.key);
    for (const auto* pieces : {&manifest.tokens, &manifest.state}) {
      for (const SessionPiece& piece : *pieces) look_for(piece.key);
    }
    if (missing > 0) {
      sentences.push_back(fmt::format("session \"{}\": {} of its records are damaged or missing",
                                      manifest.name, missing));
    }
  }
  return sentences;
}

}  // namespace tiercel
