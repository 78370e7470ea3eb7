#include "replay/store_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "cache/session_listing.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

constexpr std::size_t kComplaintsKept = 20;
constexpr std::int64_t kPoll_ns = 100'000'000;
constexpr int kPollsMax = 600;

std::optional<Key> parse_key(std::string_view text) {
  Key key;
  if (text.size() != 2 * key.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const char* const at = text.data() + 2 * i;
    if (std::from_chars(at, at + 2, key.bytes[i], 16).ptr != at + 2) return std::nullopt;
  }
  return key;
}

Result<std::uint64_t> physical_bytes_of(Disk& disk, const std::string& directory) {
  const auto names = disk.list(directory);
  if (!names && is_missing(names.error())) return 0;
  if (!names) return names.error();
  std::uint64_t bytes = 0;
  for (const std::string& name : *names) {
    const auto file = disk.open(directory + "/" + name, {});
    if (!file) continue;  // The directory of sessions.
    TIERCEL_TRY(const FileStatus status, (*file)->status());
    bytes += status.allocated_bytes;
  }
  return bytes;
}

class Auditor {
 public:
  Auditor(Disk& disk, const FillOptions& options, const AckedLog& acked)
      : disk_(disk), options_(options), acked_(acked), names_(options.seed, kAnySize) {}

  Result<StoreAudit> run(bool by_age) {
    TIERCEL_TRY_VOID(audit_blocks());
    TIERCEL_TRY_VOID(audit_sessions());
    if (by_age) count_ages();
    for (const std::string& directory :
         {options_.directory, session_directory(options_.directory)}) {
      TIERCEL_TRY(const std::uint64_t bytes, physical_bytes_of(disk_, directory));
      audit_.physical_bytes += bytes;
    }
    return std::move(audit_);
  }

 private:
  static constexpr std::uint64_t kAnySize = FillNames::kBlockBytesMin;

  void complain(std::string sentence) {
    if (audit_.complaints.size() < kComplaintsKept)
      audit_.complaints.push_back(std::move(sentence));
  }

  Result<void> audit_blocks() {
    const std::int64_t start_ns = options_.clock->now_ns();
    if (!read_superblock(disk_, options_.directory) && acked_.blocks().empty() &&
        acked_.sessions().empty())
      return {};  // Killed before there was a store.
    NvmeOptions nvme;
    TIERCEL_TRY(nvme.geometry.capacity_bytes, roomy_capacity(disk_, options_.directory));
    nvme.clock = options_.clock;
    nvme.recovery_threads = options_.recovery_threads;
    TIERCEL_TRY(auto opened, NvmeTier::open(disk_, options_.directory, nvme));
    const std::uint64_t largest = opened.tier->superblock().record_bytes_max;
    TIERCEL_TRY(memory_, Arena::create({.bytes = largest, .huge_pages = false}));
    TIERCEL_TRY(buffer_, memory_->take(largest));
    audit_.open_s = opened.recovered.open_s;
    audit_.recovered_torn = opened.recovered.torn;
    std::map<Key, const RecoveredRecord*> records;  // The later one of a key stands.
    for (const RecoveredSegment& segment : opened.recovered.segments) {
      for (const RecoveredRecord& record : segment.records) records[record.key] = &record;
    }
    for (const auto& [key, record] : records) {
      const auto told = acked_.blocks().find(key);
      const bool acked = told != acked_.blocks().end() && told->second;
      TIERCEL_TRY(const bool good, read_block(*opened.tier, *record));
      if (good && back_.empty())
        audit_.first_hit_s = static_cast<double>(options_.clock->now_ns() - start_ns) * 1e-9;
      if (good) back_.insert(key);
      if (good && acked) ++audit_.found;
      if (!good && !acked) ++audit_.refused;
    }
    for (const auto& [key, acked] : acked_.blocks()) {
      ++(acked ? audit_.acked : audit_.evicted);
      if (acked && !records.contains(key))
        complain(fmt::format("block {} was told as synced and is gone", hex(key)));
    }
    audit_.missing = audit_.acked - audit_.found;
    return {};
  }

  // True where it was delivered, right or wrong: that is counted apart.
  Result<bool> read_block(NvmeTier& tier, const RecoveredRecord& record) {
    const auto bytes = buffer_.first(record.place.bytes);
    const Op op{.type = OpType::load,
                .key = record.key,
                .fingerprint = record.fingerprint,
                .place = record.place,
                .memory = {host_piece(bytes)}};
    TIERCEL_TRY_VOID(tier.submit(std::span(&op, 1)));
    std::vector<Completion> done;
    for (int polls = 0; done.empty(); ++polls) {
      if (polls == kPollsMax) return fail(Errc::io, "audit: no answer from the disk for a minute");
      tier.wait(done, kPoll_ns);
    }
    if (done[0].outcome != Outcome::delivered) {
      complain(fmt::format("block {}: {}", hex(record.key), done[0].error.what));
      return false;
    }
    TIERCEL_TRY(const RecordHead head, parse_head(bytes));
    const std::uint64_t payload = head.chunks[0].plain_bytes;
    compare("block", head.key, bytes.subspan(record_head_bytes(head.chunks.size()), payload));
    return true;
  }

  void compare(const char* what, const Key& key, std::span<const std::byte> bytes) {
    ++audit_.checked;
    const std::uint64_t wrong = names_.content().count_wrong(key, bytes);
    audit_.wrong_bytes += wrong;
    if (wrong > 0) complain(fmt::format("{} {}: {} wrong bytes", what, hex(key), wrong));
  }

  Result<void> audit_sessions() {
    audit_.sessions_acked = acked_.sessions().size();
    auto session_options = options_of_existing(disk_, options_.directory);
    if (!session_options && audit_.sessions_acked == 0) return {};  // Killed before there was one.
    if (!session_options) return session_options.error();
    session_options->clock = options_.clock;
    session_options->recovery_threads = options_.recovery_threads;
    TIERCEL_TRY(const auto store, SessionStore::open(disk_, *session_options));
    const SessionStoreStats stats = store->stats();
    audit_.open_s += stats.open_s;
    audit_.recovered_torn += stats.torn_records;
    TIERCEL_TRY(const auto manifests, store->list());
    for (const SessionManifest& manifest : manifests) {
      const auto told = acked_.sessions().find(manifest.name);
      const auto whole = read_session(*store, manifest);
      const bool late_enough = told == acked_.sessions().end() || manifest.version >= told->second;
      if (!whole) complain(fmt::format("session {}: {}", manifest.name, whole.error().what));
      if (!late_enough) {
        complain(fmt::format("session {}: version {}, told were {}", manifest.name,
                             manifest.version, told->second));
      }
      if (told != acked_.sessions().end() && whole && late_enough) ++audit_.sessions_resumed;
    }
    for (const auto& [name, times] : acked_.sessions()) {
      if (!store->find(name)) complain(fmt::format("session {} is gone", name));
    }
    return {};
  }

  // Everything of it, against what follows from name and version.
  Result<void> read_session(SessionStore& store, const SessionManifest& manifest) {
    TIERCEL_TRY(const auto tokens, store.read_tokens(manifest));
    TIERCEL_TRY(const auto state, store.read_state(manifest));
    if (tokens.size() < 2 || manifest.blocks.empty())
      return fail(Errc::corrupt, "it is not one of a fill");
    const std::uint64_t prompt = tokens[0] | static_cast<std::uint64_t>(tokens[1]) << 32;
    next_prompt_ = std::max(next_prompt_, prompt + 1);
    const FillNames names(options_.seed, manifest.blocks.front().bytes);  // A full one.
    const FillSession expected = names.session(manifest.name, manifest.version, prompt);
    if (tokens != expected.tokens) return fail(Errc::corrupt, "its tokens differ");
    if (state != expected.state) return fail(Errc::corrupt, "its state differs");
    if (manifest.position != expected.position || manifest.token_count != expected.token_count ||
        manifest.blocks.size() != expected.blocks.size())
      return fail(Errc::corrupt, "its shape differs");
    std::vector<std::vector<std::byte>> payloads;
    std::vector<ScatterList> memory;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < expected.blocks.size(); ++i) {
      if (manifest.blocks[i].key != expected.blocks[i].head.key ||
          manifest.blocks[i].bytes != expected.blocks[i].bytes)
        return fail(Errc::corrupt, fmt::format("its block {} is another one", i));
      payloads.emplace_back(expected.blocks[i].bytes);
      memory.push_back({host_piece(std::span(payloads.back()))});
      which.push_back(i);
    }
    std::uint64_t delivered = 0;
    std::string why;
    TIERCEL_TRY_VOID(store.read(
        manifest, which, memory, 0, [&](std::size_t i, Outcome outcome, const Error& error) {
          if (outcome != Outcome::delivered) {
            why = error.what;
            return;
          }
          ++delivered;
          compare("block of a session", manifest.blocks[i].key, payloads[i]);
        }));
    if (delivered == expected.blocks.size()) return {};
    return fail(Errc::corrupt, fmt::format("{} of {} blocks delivered; {}", delivered,
                                           expected.blocks.size(), why));
  }

  // By prompts, from the last one of which anything is left. Sessions tell about where that is.
  void count_ages() {
    next_prompt_ =
        names_.end_of_prompts(next_prompt_, [&](const Key& key) { return back_.contains(key); });
    std::unordered_set<Key> seen;
    for (std::uint64_t from = 0, to = 16; from < next_prompt_; from = to, to *= 8) {
      BackByAge ages{.prompts_from = from, .prompts_to = std::min(to, next_prompt_)};
      for (std::uint64_t age = from; age < ages.prompts_to; ++age) {
        for (const FillBlock& block : names_.prompt(next_prompt_ - 1 - age)) {
          if (!seen.insert(block.head.key).second) continue;  // Shared with a younger prompt.
          const auto told = acked_.blocks().find(block.head.key);
          ++ages.put;
          if (back_.contains(block.head.key)) {
            ++ages.back;
          } else if (told != acked_.blocks().end() && !told->second) {
            ++ages.evicted;
          }
        }
      }
      audit_.back_by_age.push_back(ages);
    }
  }

  Disk& disk_;
  const FillOptions& options_;
  const AckedLog& acked_;
  const FillNames names_;
  std::unordered_set<Key> back_;
  std::uint64_t next_prompt_ = 0;
  std::unique_ptr<Arena> memory_;
  std::span<std::byte> buffer_;  // One record.
  StoreAudit audit_;
};

}  // namespace

Result<AckedLog> AckedLog::parse(const std::string& text) {
  AckedLog log;
  std::size_t number = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    ++number;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    const std::string_view rest = space == std::string_view::npos ? "" : line.substr(space + 1);
    const auto key = parse_key(rest);
    if (word == "synced" && key) {
      log.on_synced(*key);
    } else if (word == "evicting" && key) {
      log.on_evicting(*key);
    } else if (word == "suspended" && !rest.empty()) {
      log.on_suspended(std::string(rest));
    } else if (word != "phase") {
      return fail(Errc::invalid, fmt::format("line {}: \"{}\" is no line of `tiercel store fill`; "
                                             "give its standard output",
                                             number, line.substr(0, 80)));
    }
  }
  return log;
}

Result<StoreAudit> audit_store(Disk& disk, const FillOptions& options, const AckedLog& acked,
                               bool by_age) {
  return Auditor(disk, options, acked).run(by_age);
}

}  // namespace tiercel
