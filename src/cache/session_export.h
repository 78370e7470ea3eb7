// A session as one file: manifest and records, checksummed, for another store. docs/formats/session.md has the bytes.
//
// Law     Import believes nothing: lengths, every checksum, and that the records are those which the manifest lists, in its order,
//         are verified before anything is suspended; and once more for what is then read.
// Bounds  One record at a time in memory, tokens and state apart. A record of more than kExportRecordBytesMax is refused.
// Threads One thread each; the store may be used by others.
// Source  docs/adr/0006-sessions.md
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cache/session_store.h"

namespace tiercel {

inline constexpr std::uint64_t kExportRecordBytesMax = 1ULL << 30;

struct ExportedRecord {
  RecordHead head;
  std::uint64_t offset = 0;  // Of the record in the file.
};

struct ExportedSession {
  SessionManifest manifest;
  std::vector<ExportedRecord>
      records;  // Every key of the manifest once, in order of its first appearance.
};

// Fills the memory from the file at an offset.
using ReadAt = std::function<Result<void>(std::uint64_t offset, std::span<std::byte> memory)>;

// Errors: corrupt  anything that does not hold together; invalid  a newer version, a record that is too large.
Result<ExportedSession> parse_export(const ReadAt& read, std::uint64_t file_bytes);

// Written as PATH.tmp, synced, renamed. Errors: invalid  no such session; corrupt  it is not whole; io, no_space.
Result<SessionManifest> export_session(SessionStore& store, Disk& disk, const std::string& name,
                                       const std::string& path);

// Under `name`, or the name it had. Its ttl comes along; one that is over by `now_unix_s` is refused.
Result<SessionManifest> import_session(SessionStore& store, Disk& disk, const std::string& path,
                                       const std::string& name, std::int64_t now_unix_s,
                                       std::int64_t deadline_ns = 0);

}  // namespace tiercel
