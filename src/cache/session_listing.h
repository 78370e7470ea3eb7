// The sessions of a store as a reader sees them: their manifests, without taking the store from its owner.
//
// Law     A manifest is replaced by rename, so whoever reads one meanwhile has the old or the new one, whole. What its blocks
//         are worth only their owner, or `tiercel verify`, can tell.
// Threads One thread.
// Source  docs/formats/session.md
#pragma once

#include <string>
#include <vector>

#include "cache/session_manifest.h"
#include "cache/session_store.h"
#include "io/disk.h"
#include "tier/store_reader.h"

namespace tiercel {

// Manifests have one part in so many of what sessions have.
inline constexpr std::uint64_t kManifestShareDivisor = 64;

// Where the sessions of a store lie.
std::string session_directory(const std::string& store_directory);

struct SessionListing {
  std::vector<SessionManifest> sessions;  // By name.
  std::vector<std::string> complaints;    // One sentence per manifest that could not be read.
};

// Errors: invalid  no store of ours there, or one that was made without sessions; io
Result<SessionListing> read_sessions(Disk& disk, const std::string& store_directory);

// For who opens the sessions of a store without having made it: sizes as it was made with, a cap that holds what lies there;
// the clock is the caller's to set. Errors: as read_sessions().
Result<SessionStore::Options> options_of_existing(Disk& disk, const std::string& store_directory);

// One sentence per session of which blocks, tokens or state are not among the records of the store that `report` tells of.
std::vector<std::string> not_whole(const SessionListing& listing, const StoreReport& report);

}  // namespace tiercel
