// How a cache begins and ends: memory, tiers, what the directory still holds; and back.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/check.h"
#include "cache/cache_impl.h"
#include "cache/restore_index.h"
#include "io/posix_disk.h"
#include "tier/store_directory.h"

namespace tiercel {

namespace {
// close() gives a disk that does not answer up after this.
constexpr std::chrono::seconds kCloseWithin{60};

std::int64_t system_unix_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}
}  // namespace

CacheImpl::CacheImpl(const CacheOptions& options, const CachePlan& plan)
    : options_(options), plan_(plan) {
  const auto all = std::ranges::find(options_.kinds, Reach::all,
                                     [](const CachedKind& cached) { return cached.kind.reach; });
  primary_stands_alone_ = all == options_.kinds.end();
  primary_ = primary_stands_alone_ ? 0 : static_cast<std::size_t>(all - options_.kinds.begin());
  clock_ = options_.clock != nullptr ? options_.clock : &system_clock_;
  process_ = this_process();
}

SessionStore::Options CacheImpl::session_options() const {
  return {.directory = options_.directory + "/sessions",
          .capacity_bytes = options_.session_bytes,
          .segment_bytes = options_.segment_bytes,
          .record_bytes_max = plan_.record_bytes_max,
          .clock = session_clock_};
}

CacheImpl::~CacheImpl() { static_cast<void>(close()); }

Result<std::shared_ptr<CacheImpl>> CacheImpl::open(const CacheOptions& options,
                                                   const CacheSeams& seams) {
  auto own_disk = std::make_unique<PosixDisk>();
  Disk& disk = seams.disk != nullptr ? *seams.disk : *own_disk;
  TIERCEL_TRY(const CachePlan plan, plan_cache(options, disk));
  std::shared_ptr<CacheImpl> cache(new CacheImpl(options, plan));
  cache->own_disk_ = std::move(own_disk);
  TIERCEL_TRY_VOID(cache->set_up(seams));
  return cache;
}

Result<void> CacheImpl::set_up(const CacheSeams& seams) {
  NvmeOptions nvme;
  nvme.geometry = {.capacity_bytes = plan_.cold_bytes,
                   .segment_bytes = plan_.geometry.segment_bytes,
                   .record_bytes_max = plan_.record_bytes_max};
  nvme.scrub_bytes_per_s = options_.scrub_bytes_per_s;
  // The store may have been made for larger records than ours; its staging follows it.
  Disk& disk = seams.disk != nullptr ? *seams.disk : *own_disk_;
  disk_ = &disk;
  if (const auto found = read_superblock(disk, options_.directory); plan_.has_cold && found) {
    nvme.geometry.record_bytes_max = std::max(found->record_bytes_max, plan_.record_bytes_max);
  }
  const std::uint64_t move_bytes =
      plan_.has_cold ? align_up(plan_.record_bytes_max, kArenaAlignment) : 0;
  const std::uint64_t staging_bytes =
      plan_.has_cold ? align_up(NvmeTier::staging_bytes(nvme, nvme.geometry), kArenaAlignment) : 0;

  session_clock_ = seams.session_clock != nullptr ? seams.session_clock : &system_clock_;
  unix_time_s_ = seams.unix_time_s ? seams.unix_time_s : system_unix_s;
  expire_every_ = seams.expire_every;
  reap_every_ = seams.reap_every;
  std::uint64_t session_memory = 0;
  if (options_.session_bytes > 0) {
    TIERCEL_TRY(session_memory, SessionStore::memory_bytes(disk, session_options()));
  }

  Ledger* ledger = seams.ledger;
  if (ledger == nullptr) {
    own_ledger_ =
        std::make_unique<Ledger>(plan_.warm_bytes + move_bytes + staging_bytes + session_memory);
    ledger = own_ledger_.get();
  }
  TIERCEL_TRY(session_reservation_, ledger->reserve(MemoryClass::staging, session_memory));
  TIERCEL_TRY(warm_reservation_, ledger->reserve(MemoryClass::kv, plan_.warm_bytes));
  TIERCEL_TRY(staging_reservation_,
              ledger->reserve(MemoryClass::staging, move_bytes + staging_bytes));

  TIERCEL_TRY(arena_, Arena::create({.bytes = plan_.warm_bytes + move_bytes + staging_bytes}));
  TIERCEL_TRY(const std::span<std::byte> warm_memory, arena_->take(plan_.warm_bytes));
  TIERCEL_TRY(const std::span<std::byte> move_buffer, arena_->take(move_bytes));
  TIERCEL_TRY(const std::span<std::byte> staging, arena_->take(staging_bytes));
  warm_ = std::make_unique<RamTier>(
      RamTierOptions{.memory = warm_memory, .arena = arena_.get(), .clock = &system_clock_});

  CoreOptions core{.warm_bytes = plan_.warm_bytes, .staging_bytes = plan_.staging_bytes};
  Recovered recovered;
  if (plan_.has_cold) TIERCEL_TRY_VOID(set_up_cold(disk, staging, core, recovered));
  TIERCEL_TRY_VOID(set_up_sessions(disk));
  executor_ = std::make_unique<TierExecutor>(TierExecutor::Options{.warm = warm_.get(),
                                                                   .cold = cold_.get(),
                                                                   .warm_memory = warm_memory,
                                                                   .move_buffer = move_buffer,
                                                                   .clock = &system_clock_,
                                                                   .rebuild = {}});
  const MutexLock lock(mutex_);
  core_.emplace(core);
  core_->advance(clock_->now_ns());
  restore(recovered);
  const ArenaReport& pages = arena_->report();
  note(fmt::format("memory: {} on {} pages{}{}", pretty_byte_size(arena_->bytes()),
                   page_kind_name(pages.pages), pages.reason.empty() ? "" : ": ", pages.reason));
  if (cold_) {
    note(fmt::format("cold I/O by {}", cold_->engine_name()));
    for (std::string& sentence : cold_->notes()) note(std::move(sentence));
  }
  thread_ = std::thread([this] { run(); });
  if (session_store_) session_keeper_ = std::thread([this] { keep_sessions(); });
  return {};
}

// After cold: a directory that is not empty becomes no store of ours.
Result<void> CacheImpl::set_up_sessions(Disk& disk) {
  if (!plan_.has_cold) return {};
  const SessionStore::Options sessions = session_options();
  if (options_.session_bytes == 0) {
    // They would take of the disk what nobody has allowed for.
    const auto found = disk.open(sessions.directory + "/" + kSuperblockName, {});
    if (!found && is_missing(found.error())) return {};
    return fail(Errc::invalid,
                fmt::format("session_bytes: 0, and {} holds sessions; say how much of cold_bytes "
                            "they may take, or remove that folder",
                            sessions.directory));
  }
  TIERCEL_TRY(session_store_, SessionStore::open(disk, sessions));
  expire_sessions();
  return {};
}

Result<void> CacheImpl::set_up_cold(Disk& disk, std::span<std::byte> staging, CoreOptions& core,
                                    Recovered& recovered) {
  NvmeOptions nvme;
  nvme.geometry = {.capacity_bytes = plan_.cold_bytes,
                   .segment_bytes = plan_.geometry.segment_bytes,
                   .record_bytes_max = plan_.record_bytes_max};
  nvme.clock = &system_clock_;
  nvme.arena = arena_.get();
  nvme.staging = staging;
  nvme.scrub_bytes_per_s = options_.scrub_bytes_per_s;
  TIERCEL_TRY(auto opened, NvmeTier::open(disk, options_.directory, nvme));
  cold_ = std::move(opened.tier);
  recovered = std::move(opened.recovered);
  core.cold = ColdLog::Options{.geometry = {.segment_bytes = cold_->superblock().segment_bytes,
                                            .segments_max = std::min(plan_.geometry.segments_max,
                                                                     cold_->segment_count_max())},
                               .sync_bytes = options_.sync_bytes,
                               .sync_interval_ns = options_.sync_interval.count(),
                               .staging_bytes = plan_.staging_bytes};
  return {};
}

// A record of ours: kind, fingerprint and size agree. What does not is a stranger: it stays where it is until its segment
// is reclaimed.
std::size_t CacheImpl::kind_of(const RecoveredRecord& record) const {
  for (std::size_t i = 0; i < options_.kinds.size(); ++i) {
    const CachedKind& cached = options_.kinds[i];
    if (cached.kind != record.kind || cached.fingerprint != record.fingerprint) continue;
    const bool fits = record.token_count > 0 && record.token_count <= options_.block_tokens &&
                      record_bytes(cached.block_bytes(record.token_count)) == record.place.bytes;
    if (fits) return i;
  }
  return kStranger;
}

void CacheImpl::restore(const Recovered& recovered) {
  stats_.torn_records = recovered.torn;
  stats_.leftovers_removed = recovered.leftovers_removed;
  stats_.resized_segments = recovered.resized_segments;
  stats_.rescued_segments = recovered.rescued_segments;
  stats_.dropped_segments = recovered.dropped_segments;
  stats_.quarantined = recovered.quarantined;
  stats_.open_s = recovered.open_s;
  if (!cold_) return;
  BlockTable& table = core_->table();
  const RestoreHooks hooks{
      .payload_of = [this](const RecoveredRecord& record) -> std::optional<std::uint64_t> {
        const std::size_t kind = kind_of(record);
        if (kind == kStranger) return std::nullopt;
        return options_.kinds[kind].block_bytes(record.token_count);
      },
      .on_block =
          [this, &table](BlockId id, const RecoveredRecord* record) REQUIRES(mutex_) {
            if (id >= names_.size()) names_.resize(table.id_limit());
            if (record == nullptr) return;
            names_[id] = {.kind = kind_of(*record),
                          .token_count = record->token_count,
                          .prefix = record->prefix};
            table[id].stands_alone = primary_stands_alone_ && names_[id].kind == primary_;
          }};
  const RestoreCounts counts = restore_index(recovered, hooks, *core_);
  stats_.recovered_blocks = counts.blocks;
  stats_.stranger_records = counts.strangers;
}

Result<void> CacheImpl::close() {
  {
    const MutexLock lock(mutex_);
    if (closed_) return close_error_ ? Result<void>(*close_error_) : Result<void>();
    if (!core_) return {};  // open() failed on its way.
    if (std::this_thread::get_id() == thread_.get_id()) {
      return fail(Errc::invalid, "close: called from a callback, whose thread it would wait for");
    }
    const bool first = !closing_;
    closing_ = true;
    work_.notify_all();
    if (!first) {
      while (!closed_) finished_.wait_for(mutex_, std::chrono::milliseconds(100));
      return close_error_ ? Result<void>(*close_error_) : Result<void>();
    }
    const auto deadline = std::chrono::steady_clock::now() + kCloseWithin;
    keeper_wakes_.notify_all();
    while (session_calls_ > 0 && std::chrono::steady_clock::now() < deadline) {
      finished_.wait_for(mutex_, std::chrono::milliseconds(100));
    }
    while (!thread_over_ && std::chrono::steady_clock::now() < deadline) {
      finished_.wait_for(mutex_, std::chrono::milliseconds(100));
    }
    if (!thread_over_) {
      close_error_ = fail(Errc::io, fmt::format("close: {} gave no answer for {} s",
                                                options_.directory, kCloseWithin.count()));
      abandon_ = true;
      work_.notify_all();
    }
  }
  thread_.join();
  if (session_keeper_.joinable()) session_keeper_.join();
  const CacheStats last = stats();
  const MutexLock lock(mutex_);
  stats_ = last;
  closed_ = true;
  executor_.reset();
  cold_.reset();
  warm_.reset();
  // Behind what may still have been copying to its buffers. Where a call still waits for a silent disk, its store stays until it
  // has come back.
  if (session_calls_ == 0) session_store_.reset();
  arena_.reset();
  warm_reservation_ = {};
  staging_reservation_ = {};
  session_reservation_ = {};
  finished_.notify_all();
  return close_error_ ? Result<void>(*close_error_) : Result<void>();
}

}  // namespace tiercel
