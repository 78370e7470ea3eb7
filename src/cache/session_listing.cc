#include "cache/session_listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "tier/store_directory.h"

namespace tiercel {

std::string session_directory(const std::string& store_directory) {
  return store_directory + "/sessions";
}

Result<SessionListing> read_sessions(Disk& disk, const std::string& store_directory) {
  const std::string directory = session_directory(store_directory);
  if (const auto superblock = read_superblock(disk, directory); !superblock) {
    if (superblock.error().code != Errc::invalid) return superblock.error();
    TIERCEL_TRY_VOID(
        read_superblock(disk, store_directory));  // The clearer error where that is none either.
    return fail(Errc::invalid, fmt::format("{} keeps no sessions: it was opened without "
                                           "session_bytes so far",
                                           store_directory));
  }
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

}  // namespace tiercel
