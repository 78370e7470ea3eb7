// `tiercel inspect DIR`: what is in a cold store, without taking it from its owner.
#include <fmt/format.h>

#include <cstdio>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "base/sha256.h"
#include "io/posix_disk.h"
#include "tier/store_reader.h"

namespace tiercel::app {
namespace {

const char* state_name(SegmentState state) {
  switch (state) {
    case SegmentState::free:
      return "free";
    case SegmentState::open:
      return "open";
    case SegmentState::sealed:
      return "sealed";
  }
  return "unknown";
}

void print_json(const std::string& path, const StoreReport& report) {
  const Superblock& superblock = report.superblock;
  JsonWriter json;
  json.begin_object().member("schema", "tiercel.inspect/1").member("path", path);
  json.member("format_version", kStoreVersion)
      .member("store", hex(superblock.store))
      .member("epoch", superblock.epoch);
  json.member("in_use", !report.holder.empty()).member("segment_bytes", superblock.segment_bytes);
  json.member("record_bytes_max", superblock.record_bytes_max)
      .member("physical_bytes", report.physical_bytes);
  json.member("records", report.records)
      .member("record_bytes", report.record_bytes)
      .member("damaged", report.damaged);
  json.key("segments").begin_array();
  for (const SegmentReport& segment : report.segments) {
    json.begin_object()
        .member("segment", segment.segment)
        .member("state", state_name(segment.scan.state));
    json.member("sequence", segment.scan.life.sequence).member("epoch", segment.scan.life.epoch);
    json.member("records", static_cast<std::uint64_t>(segment.scan.records.size()))
        .member("data_end", segment.scan.data_end);
    json.member("allocated_bytes", segment.allocated_bytes)
        .member("torn", segment.scan.torn)
        .end_object();
  }
  json.end_array().key("complaints").begin_array();
  for (const std::string& complaint : report.complaints) json.value(complaint);
  json.end_array().key("other_files").begin_array();
  for (const std::string& name : report.other_files) json.value(name);
  json.end_array().end_object();
  fmt::print("{}\n", json.text());
}

void print_text(const std::string& path, const StoreReport& report) {
  const Superblock& superblock = report.superblock;
  fmt::print("store     {}\nname      {}, format {}, epoch {}\n", path, hex(superblock.store),
             kStoreVersion, superblock.epoch);
  fmt::print("in use    {}\n", report.holder.empty() ? "no" : report.holder);
  fmt::print("takes     {} of the disk: segments of {}, records of up to {}\n",
             pretty_byte_size(report.physical_bytes), pretty_byte_size(superblock.segment_bytes),
             pretty_byte_size(superblock.record_bytes_max));
  fmt::print("holds     {} records, {}\n\n", report.records, pretty_byte_size(report.record_bytes));
  fmt::print("{:>8}  {:<7} {:>9} {:>6} {:>8} {:>12} {:>6}\n", "segment", "state", "sequence",
             "epoch", "records", "filled", "torn");
  for (const SegmentReport& segment : report.segments) {
    fmt::print("{:>8}  {:<7} {:>9} {:>6} {:>8} {:>12} {:>6}\n", segment.segment,
               state_name(segment.scan.state), segment.scan.life.sequence, segment.scan.life.epoch,
               segment.scan.records.size(),
               pretty_byte_size(segment.scan.data_end - kSegmentHeaderBytes), segment.scan.torn);
  }
  for (const std::string& complaint : report.complaints) fmt::print("damage: {}\n", complaint);
  for (const std::string& name : report.other_files)
    fmt::print("not ours, not touched: {}\n", name);
}

}  // namespace

int run_inspect(const StoreArgs& args) {
  PosixDisk disk;
  const auto report = read_store(disk, args.dir, StoreReading::inspect);
  if (!report) return complain(report.error());
  if (args.json) {
    print_json(args.dir, *report);
  } else {
    print_text(args.dir, *report);
  }
  return kOk;
}

}  // namespace tiercel::app
