// `tiercel session list|show|forget|export|import`: the sessions put to bed in a store.
//
// list and show read manifests beside a running server; the others need the store for themselves.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "cache/session_export.h"
#include "cache/session_listing.h"
#include "io/posix_disk.h"

namespace tiercel::app {
namespace {

struct Sizes {
  std::uint64_t payload = 0, tokens = 0, state = 0;
};

Sizes sizes_of(const SessionManifest& manifest) {
  Sizes sizes;
  for (const SessionBlock& block : manifest.blocks) sizes.payload += block.bytes;
  for (const SessionPiece& piece : manifest.tokens) sizes.tokens += piece.bytes;
  for (const SessionPiece& piece : manifest.state) sizes.state += piece.bytes;
  return sizes;
}

std::int64_t unix_now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string date_of(std::int64_t unix_s) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

std::string age_of(std::int64_t unix_s) {
  return pretty_duration(static_cast<double>(std::max<std::int64_t>(unix_now_s() - unix_s, 0)));
}

void write_session(JsonWriter& json, const SessionManifest& manifest) {
  const Sizes sizes = sizes_of(manifest);
  json.begin_object().member("name", manifest.name).member("version", manifest.version);
  json.member("tokens", manifest.token_count).member("position", manifest.position);
  json.member("blocks", static_cast<std::uint64_t>(manifest.blocks.size()));
  json.member("payload_bytes", sizes.payload).member("state_bytes", sizes.state);
  json.member("created_unix_s", manifest.created_unix_s)
      .member("updated_unix_s", manifest.updated_unix_s);
  json.key("expires_unix_s");
  manifest.expires_unix_s == 0 ? json.null() : json.value(manifest.expires_unix_s);
}

Result<SessionManifest> find(const SessionListing& listing, const SessionArgs& args) {
  for (const SessionManifest& manifest : listing.sessions)
    if (manifest.name == args.name) return manifest;
  return fail(Errc::invalid,
              fmt::format("there is no session \"{}\" in {}; `tiercel session list` shows all",
                          args.name, args.dir));
}

// The store of sessions as it was made, taken for ourselves.
Result<std::unique_ptr<SessionStore>> open_store(Disk& disk, const Clock& clock,
                                                 const SessionArgs& args) {
  TIERCEL_TRY(SessionStore::Options options, options_of_existing(disk, args.dir));
  options.clock = &clock;
  if (!args.capacity.empty()) {
    const auto capacity = parse_byte_count(args.capacity);
    if (!capacity) return fail(Errc::invalid, "--cap: " + capacity.error().what);
    options.capacity_bytes = *capacity;
  }
  return SessionStore::open(disk, options);
}

}  // namespace

int run_session_list(const SessionArgs& args) {
  PosixDisk disk;
  const auto listing = read_sessions(disk, args.dir);
  if (!listing) return complain(listing.error());
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.session_list/1").member("path", args.dir);
    json.key("sessions").begin_array();
    for (const SessionManifest& manifest : listing->sessions) {
      write_session(json, manifest);
      json.end_object();
    }
    json.end_array().key("complaints").begin_array();
    for (const std::string& complaint : listing->complaints) json.value(complaint);
    fmt::print("{}\n", json.end_array().end_object().text());
    return kOk;
  }
  fmt::print("{:<32} {:>9} {:>7} {:>11} {:>9}  {}\n", "session", "tokens", "blocks", "bytes", "age",
             "kept until");
  for (const SessionManifest& manifest : listing->sessions) {
    const Sizes sizes = sizes_of(manifest);
    fmt::print("{:<32} {:>9} {:>7} {:>11} {:>9}  {}\n", manifest.name, manifest.token_count,
               manifest.blocks.size(), pretty_byte_size(sizes.payload + sizes.state),
               age_of(manifest.updated_unix_s),
               manifest.expires_unix_s == 0 ? "forgotten" : date_of(manifest.expires_unix_s));
  }
  for (const std::string& complaint : listing->complaints) fmt::print("damage: {}\n", complaint);
  return kOk;
}

int run_session_show(const SessionArgs& args) {
  PosixDisk disk;
  const auto listing = read_sessions(disk, args.dir);
  if (!listing) return complain(listing.error());
  const auto manifest = find(*listing, args);
  if (!manifest) return complain(manifest.error());
  const Sizes sizes = sizes_of(*manifest);
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.session_show/1").key("session");
    write_session(json, *manifest);
    json.member("token_bytes", sizes.tokens).key("kinds").begin_array();
    for (const SessionKind& kind : manifest->kinds) {
      json.begin_object().member("id", static_cast<std::uint32_t>(kind.kind.id));
      json.member("fingerprint", hex(kind.fingerprint)).end_object();
    }
    json.end_array().key("block_list").begin_array();
    for (const SessionBlock& block : manifest->blocks) {
      json.begin_object().member("key", hex(block.key)).member("index", block.index);
      json.member("kind", static_cast<std::uint32_t>(manifest->kinds[block.kind].kind.id));
      json.member("tokens", block.token_count).member("bytes", block.bytes).end_object();
    }
    fmt::print("{}\n", json.end_array().end_object().end_object().text());
    return kOk;
  }
  fmt::print("session   {}\nversion   {}, written {} ({} ago), first {}\n", manifest->name,
             manifest->version, date_of(manifest->updated_unix_s), age_of(manifest->updated_unix_s),
             date_of(manifest->created_unix_s));
  fmt::print("kept      until {}\n",
             manifest->expires_unix_s == 0 ? "it is forgotten" : date_of(manifest->expires_unix_s));
  fmt::print("holds     {} tokens in {} blocks, {}; state {}\n", manifest->token_count,
             manifest->blocks.size(), pretty_byte_size(sizes.payload),
             pretty_byte_size(sizes.state));
  for (const SessionKind& kind : manifest->kinds)
    fmt::print("kind      {}: fingerprint {}\n", kind.kind.id, hex(kind.fingerprint));
  return kOk;
}

int run_session_forget(const SessionArgs& args) {
  PosixDisk disk;
  SystemClock clock;
  const auto store = open_store(disk, clock, args);
  if (!store) return complain(store.error());
  const auto forgotten = (*store)->forget(args.name);
  if (!forgotten) return complain(forgotten.error());
  fmt::print("{}: forgotten\n", args.name);
  return kOk;
}

int run_session_export(const SessionArgs& args) {
  PosixDisk disk;
  SystemClock clock;
  const auto store = open_store(disk, clock, args);
  if (!store) return complain(store.error());
  const auto manifest = export_session(**store, disk, args.name, args.file);
  if (!manifest) return complain(manifest.error());
  fmt::print("{}: {} tokens in {} blocks, in {}\n", args.name, manifest->token_count,
             manifest->blocks.size(), args.file);
  return kOk;
}

int run_session_import(const SessionArgs& args) {
  PosixDisk disk;
  SystemClock clock;
  const auto store = open_store(disk, clock, args);
  if (!store) return complain(store.error());
  const auto manifest = import_session(**store, disk, args.file, args.name, unix_now_s());
  if (!manifest) return complain(manifest.error());
  fmt::print("{}: {} tokens in {} blocks\n", manifest->name, manifest->token_count,
             manifest->blocks.size());
  return kOk;
}

}  // namespace tiercel::app
