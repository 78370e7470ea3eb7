// `tiercel verify DIR`: every byte of a cold store against its checksums. Exit code 1 where one is not as it was written.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "base/sha256.h"
#include "cache/session_listing.h"
#include "io/posix_disk.h"
#include "tier/store_reader.h"

namespace tiercel::app {

namespace {

// A store, and that of its sessions where it keeps any.
struct Verified {
  StoreReport cache;
  std::optional<StoreReport> sessions;
  SessionListing listing;
  std::vector<std::string> complaints;
  double seconds = 0;

  std::uint64_t sum(std::uint64_t StoreReport::*count) const {
    return cache.*count + (sessions ? (*sessions).*count : 0);
  }
  std::size_t quarantined() const {
    return cache.quarantined.size() + (sessions ? sessions->quarantined.size() : 0);
  }
  std::size_t segments() const {
    return cache.segments.size() + (sessions ? sessions->segments.size() : 0);
  }
};

Result<Verified> verify(Disk& disk, const std::string& directory) {
  const auto start = std::chrono::steady_clock::now();
  TIERCEL_TRY(StoreReport cache, read_store(disk, directory, StoreReading::verify));
  Verified verified{.cache = std::move(cache), .sessions = {}, .listing = {}, .complaints = {}};
  verified.complaints = verified.cache.complaints;
  const auto take = [&](const char* from, const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) verified.complaints.push_back(from + sentence);
  };
  const std::string beside = session_directory(directory);
  if (const auto found = disk.list(beside); found || !is_missing(found.error())) {
    TIERCEL_TRY(verified.sessions, read_store(disk, beside, StoreReading::verify));
    take("sessions: ", verified.sessions->complaints);
    TIERCEL_TRY(verified.listing, read_sessions(disk, directory));
    const std::vector<std::string> broken = not_whole(verified.listing, *verified.sessions);
    verified.sessions->damaged += verified.listing.complaints.size() + broken.size();
    take("", verified.listing.complaints);
    take("", broken);
  }
  verified.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return verified;
}

void write_quarantined(JsonWriter& json, const char* store,
                       const std::vector<QuarantinedPlace>& places) {
  for (const QuarantinedPlace& place : places) {
    json.begin_object().member("store", store).member("segment", place.segment);
    json.member("offset", place.offset).member("key", hex(place.key));
    json.member("reason", place.reason).member("unix_s", place.unix_s).end_object();
  }
}

void print_json(const std::string& directory, const Verified& verified) {
  JsonWriter json;
  json.begin_object().member("schema", "tiercel.verify/1").member("path", directory);
  json.member("store", hex(verified.cache.superblock.store));
  json.member("segments", static_cast<std::uint64_t>(verified.segments()));
  json.member("records", verified.sum(&StoreReport::records));
  json.member("record_bytes", verified.sum(&StoreReport::record_bytes));
  json.member("damaged", verified.sum(&StoreReport::damaged));
  json.member("bytes_read", verified.sum(&StoreReport::bytes_read));
  json.member("sessions", static_cast<std::uint64_t>(verified.listing.sessions.size()));
  json.member("verify_s", verified.seconds).key("complaints").begin_array();
  for (const std::string& complaint : verified.complaints) json.value(complaint);
  json.end_array().key("quarantined").begin_array();
  write_quarantined(json, "cache", verified.cache.quarantined);
  if (verified.sessions) write_quarantined(json, "sessions", verified.sessions->quarantined);
  fmt::print("{}\n", json.end_array().end_object().text());
}

void print_quarantined(const char* store, const std::vector<QuarantinedPlace>& places) {
  for (const QuarantinedPlace& place : places) {
    fmt::print("quarantined: {}segment {}, offset {}, record {}: {}\n", store, place.segment,
               place.offset, hex(place.key), place.reason);
  }
}

void print_text(const std::string& directory, const Verified& verified) {
  for (const std::string& complaint : verified.complaints) fmt::print("damage: {}\n", complaint);
  print_quarantined("", verified.cache.quarantined);
  if (verified.sessions) print_quarantined("sessions: ", verified.sessions->quarantined);
  const std::uint64_t damaged = verified.sum(&StoreReport::damaged);
  fmt::print(
      "{}: {} good records in {} segments, {} damaged, {} quarantined, {} sessions; {} read in "
      "{}\n",
      directory, verified.sum(&StoreReport::records), verified.segments(), damaged,
      verified.quarantined(), verified.listing.sessions.size(),
      pretty_byte_size(verified.sum(&StoreReport::bytes_read)), pretty_duration(verified.seconds));
  if (damaged > 0) {
    fmt::print(
        "A damaged record is never served: it counts as a miss. In a segment without footer it may "
        "be the torn end of a crash; the next open drops it.\n");
  }
}

}  // namespace

int run_verify(const StoreArgs& args) {
  PosixDisk disk;
  const auto verified = verify(disk, args.dir);
  if (!verified) {
    const int code = complain(verified.error());
    return verified.error().code == Errc::corrupt ? kVerdictFail
                                                  : code;  // A damaged superblock is a finding.
  }
  args.json ? print_json(args.dir, *verified) : print_text(args.dir, *verified);
  return verified->sum(&StoreReport::damaged) == 0 ? kOk : kVerdictFail;
}

}  // namespace tiercel::app
