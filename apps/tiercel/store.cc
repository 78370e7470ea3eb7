// `tiercel store fill` and `tiercel store audit`: a store that is made to be killed, and what it had promised held against it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "base/byte_size.h"
#include "base/json_writer.h"
#include "io/posix_disk.h"
#include "replay/store_audit.h"

namespace tiercel::app {
namespace {

// Every line is out before what follows from it happens: whoever kills us has read the truth.
class Lines final : public FillListener {
 public:
  void on_phase(FillPhase phase) override { tell("phase", fill_phase_name(phase)); }
  void on_synced(const Key& key) override { tell("synced", hex(key)); }
  void on_evicting(const Key& key) override { tell("evicting", hex(key)); }
  void on_suspended(const std::string& name) override { tell("suspended", name); }

 private:
  static void tell(const char* word, const std::string& what) {
    fmt::print("{} {}\n", word, what);
    std::fflush(stdout);
  }
};

}  // namespace

int run_store_fill(const StoreFillArgs& args) {
  const auto capacity = parse_byte_count(args.capacity);
  if (!capacity) return complain(fail(Errc::invalid, "--cap: " + capacity.error().what));
  const auto block = parse_byte_count(args.block);
  if (!block) return complain(fail(Errc::invalid, "--block: " + block.error().what));
  PosixDisk disk;
  SystemClock clock;
  Lines lines;
  const FillOptions options{.directory = args.dir,
                            .capacity_bytes = *capacity,
                            .block_bytes = *block,
                            .seed = args.seed,
                            .clock = &clock};
  const std::int64_t until_ns =
      args.seconds == 0 ? INT64_MAX
                        : clock.now_ns() + static_cast<std::int64_t>(args.seconds) * 1'000'000'000;
  const auto fill = StoreFill::open(disk, options, lines);
  if (!fill) return complain(fill.error());
  while (clock.now_ns() < until_ns && std::ferror(stdout) == 0) {
    if (const auto step = (*fill)->step(); !step) return complain(step.error());
  }
  const auto finished = (*fill)->finish();
  if (!finished) return complain(finished.error());
  const ColdLog::Counts& counts = (*fill)->counts();
  fmt::print(stderr, "{} blocks stored, {} reclaims, {} commits, {} checkpoints, {} suspends\n",
             counts.stored, counts.reclaims, counts.commits, (*fill)->checkpoints(),
             (*fill)->suspends());
  return kOk;
}

int run_store_audit(const StoreAuditArgs& args) {
  std::ifstream file(args.acked, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return complain(fail(Errc::io, fmt::format("--acked {}: cannot be read", args.acked)));
  const auto acked = AckedLog::parse(text);
  if (!acked) {
    return complain(fail(Errc::invalid, fmt::format("{}: {}", args.acked, acked.error().what)));
  }
  PosixDisk disk;
  SystemClock clock;
  const FillOptions options{.directory = args.dir, .seed = args.seed, .clock = &clock};
  const auto audit = audit_store(disk, options, *acked, true);
  if (!audit) return complain(audit.error());
  if (args.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tiercel.store_audit/1").member("acked", audit->acked);
    json.member("found", audit->found).member("missing", audit->missing);
    json.member("evicted", audit->evicted).member("wrong_bytes", audit->wrong_bytes);
    json.member("sessions_acked", audit->sessions_acked)
        .member("sessions_resumed", audit->sessions_resumed);
    json.member("physical_bytes", audit->physical_bytes).member("open_s", audit->open_s);
    json.member("recovered_torn", audit->recovered_torn);
    json.key("first_hit_s");
    audit->checked == 0 ? json.null() : json.value(audit->first_hit_s);
    json.key("back_by_age").begin_array();
    for (const BackByAge& ages : audit->back_by_age) {
      json.begin_object().member("prompts_from", ages.prompts_from);
      json.member("prompts_to", ages.prompts_to).member("put", ages.put);
      json.member("evicted", ages.evicted).member("back", ages.back).end_object();
    }
    json.end_array().member("checked", audit->checked).member("refused", audit->refused);
    json.key("complaints").begin_array();
    for (const std::string& complaint : audit->complaints) json.value(complaint);
    fmt::print("{}\n", json.end_array().end_object().text());
  } else {
    for (const std::string& complaint : audit->complaints) fmt::print("{}\n", complaint);
    fmt::print(
        "{}: {} of {} synced blocks found, {} of {} sessions resumed whole, {} wrong bytes\n",
        args.dir, audit->found, audit->acked, audit->sessions_resumed, audit->sessions_acked,
        audit->wrong_bytes);
    for (const BackByAge& ages : audit->back_by_age) {
      fmt::print("put {} to {} prompts before the end: {} blocks, {} evicted, {} back\n",
                 ages.prompts_from, ages.prompts_to, ages.put, ages.evicted, ages.back);
    }
    fmt::print(
        "{} blocks compared, {} evicted before, {} torn and dropped; {} on disk, opened in {}\n",
        audit->checked, audit->evicted, audit->recovered_torn,
        pretty_byte_size(audit->physical_bytes), pretty_duration(audit->open_s));
  }
  return audit->holds() ? kOk : kVerdictFail;
}

}  // namespace tiercel::app
