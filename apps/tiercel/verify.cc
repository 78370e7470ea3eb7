// `tiercel verify DIR`: every byte of a cold store against its checksums. Exit code 1 where one is not as it was written.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "base/sha256.h"
#include "io/posix_disk.h"
#include "tier/store_reader.h"

namespace tiercel::app {

int run_verify(const StoreArgs& args) {
  PosixDisk disk;
  const auto start = std::chrono::steady_clock::now();
  const auto report = read_store(disk, args.dir, StoreReading::verify);
  if (!report) {
    const int code = complain(report.error());
    return report.error().code == Errc::corrupt ? kVerdictFail
                                                : code;  // A damaged superblock is a finding.
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.verify/1").member("path", args.dir);
    json.member("store", hex(report->superblock.store))
        .member("segments", static_cast<std::uint64_t>(report->segments.size()));
    json.member("records", report->records)
        .member("record_bytes", report->record_bytes)
        .member("damaged", report->damaged);
    json.member("bytes_read", report->bytes_read)
        .member("verify_s", seconds)
        .key("complaints")
        .begin_array();
    for (const std::string& complaint : report->complaints) json.value(complaint);
    json.end_array().key("quarantined").begin_array();
    for (const QuarantinedPlace& place : report->quarantined) {
      json.begin_object().member("segment", place.segment).member("offset", place.offset);
      json.member("key", hex(place.key)).member("reason", place.reason);
      json.member("unix_s", place.unix_s).end_object();
    }
    json.end_array().end_object();
    fmt::print("{}\n", json.text());
  } else {
    for (const std::string& complaint : report->complaints) fmt::print("damage: {}\n", complaint);
    for (const QuarantinedPlace& place : report->quarantined) {
      fmt::print("quarantined: segment {}, offset {}, record {}: {}\n", place.segment, place.offset,
                 hex(place.key), place.reason);
    }
    fmt::print("{}: {} good records in {} segments, {} damaged, {} quarantined; {} read in {}\n",
               args.dir, report->records, report->segments.size(), report->damaged,
               report->quarantined.size(), pretty_byte_size(report->bytes_read),
               pretty_duration(seconds));
    if (report->damaged > 0) {
      fmt::print(
          "A damaged record is never served: it counts as a miss. In a segment without footer it "
          "may be the torn end of a "
          "crash; the next open drops it.\n");
    }
  }
  return report->damaged == 0 ? kOk : kVerdictFail;
}

}  // namespace tiercel::app
