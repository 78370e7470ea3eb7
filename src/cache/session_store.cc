#include "cache/session_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "cache/session_store_impl.h"

namespace tiercel {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // A manual clock wakes nobody.
constexpr std::size_t kNotesMax = 64;

Error unknown(const std::string& name) {
  return fail(Errc::invalid, fmt::format("there is no session \"{}\"", name));
}

}  // namespace

// --- Whose turn it is ---

SessionStore::Impl::Turn::~Turn() {
  if (store_ == nullptr) return;
  const MutexLock lock(store_->turn_mutex_);
  store_->taken_ = false;
  store_->turn_over_.notify_one();
}

Result<SessionStore::Impl::Turn> SessionStore::Impl::take_turn(std::int64_t deadline_ns) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kTurnWithin_ns);
  const MutexLock lock(turn_mutex_);
  while (taken_) {
    const bool late = deadline_ns != 0 && options_.clock->now_ns() >= deadline_ns;
    if (late || std::chrono::steady_clock::now() >= until)
      return fail(Errc::busy, "sessions: another call is at work on the store; try again");
    turn_over_.wait_for(turn_mutex_, kLook);
  }
  taken_ = true;
  return Turn(this);
}

Result<void> SessionStore::Impl::check_writable() {
  const MutexLock lock(mutex_);
  if (!failed_) return {};
  return fail(Errc::io,
              fmt::format("sessions: nothing is changed any more until {} is opened anew, because "
                          "the disk refused to make it durable: {}",
                          options_.directory, failed_->what),
              failed_->os_errno);
}

void SessionStore::Impl::fail_for_good(const Error& why) {
  const MutexLock lock(mutex_);
  if (!failed_) failed_ = why;
}

// --- Asking ---

Result<std::vector<SessionManifest>> SessionStore::Impl::list() {
  const MutexLock lock(mutex_);
  std::vector<SessionManifest> manifests;
  for (const auto& [name, session] : sessions_) manifests.push_back(session.manifest);
  return manifests;
}

Result<SessionManifest> SessionStore::Impl::find(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(name);
  if (found == sessions_.end()) return unknown(name);
  return found->second.manifest;
}

bool SessionStore::Impl::holds(const Key& key) {
  const MutexLock lock(mutex_);
  return log_.holds(key);
}

std::uint64_t SessionStore::Impl::missing(const SessionManifest& manifest) {
  const MutexLock lock(mutex_);
  std::uint64_t count = 0;
  for (const SessionBlock& block : manifest.blocks) count += log_.holds(block.key) ? 0 : 1;
  for (const SessionPiece& piece : manifest.tokens) count += log_.holds(piece.key) ? 0 : 1;
  for (const SessionPiece& piece : manifest.state) count += log_.holds(piece.key) ? 0 : 1;
  return count;
}

SessionStoreStats SessionStore::Impl::stats() {
  const MutexLock lock(mutex_);
  SessionStoreStats stats = stats_;
  stats.sessions = sessions_.size();
  stats.blocks = log_.records();
  stats.live_bytes = log_.live_bytes();
  return stats;
}

std::vector<std::string> SessionStore::Impl::notes() {
  const MutexLock lock(mutex_);
  return notes_;
}

void SessionStore::Impl::note(std::string sentence) {
  const MutexLock lock(mutex_);
  if (notes_.size() < kNotesMax) notes_.push_back(std::move(sentence));
}

// Called at the end of each turn that may have changed it.
void SessionStore::Impl::count_disk() {
  const MutexLock lock(mutex_);
  stats_.physical_bytes = tier_->physical_bytes() + manifest_bytes_;
}

// --- Forgetting ---

// All of them, then one sync. What was removed is out of the list, whatever the sync says.
Result<void> SessionStore::Impl::remove_files(std::span<const std::string> names) {
  std::vector<std::string> removed;
  Result<void> outcome;
  for (const std::string& name : names) {
    outcome = disk_.remove(path_of(manifest_file_name(name)));
    if (!outcome && !is_missing(outcome.error())) break;
    outcome = {};
    removed.push_back(name);
  }
  if (!removed.empty()) {
    const auto directory = disk_.open_directory(options_.directory);
    const auto synced = directory ? (*directory)->sync() : Result<void>(directory.error());
    // A power cut may bring them back: what they refer to must not be written over.
    if (!synced) {
      fail_for_good(synced.error());
      outcome = synced;
    }
    const MutexLock lock(mutex_);
    for (const std::string& name : removed) {
      const auto found = sessions_.find(name);
      if (found == sessions_.end()) continue;
      manifest_bytes_ -= found->second.disk_bytes;
      drop(found->second.manifest);
      sessions_.erase(found);
    }
  }
  sweep();
  count_disk();
  return outcome;
}

// One reference less for all that it lists.
void SessionStore::Impl::drop(const SessionManifest& manifest) {
  for (const SessionBlock& block : manifest.blocks) log_.release(block.key);
  for (const SessionPiece& piece : manifest.tokens) log_.release(piece.key);
  for (const SessionPiece& piece : manifest.state) log_.release(piece.key);
}

Result<void> SessionStore::Impl::forget(const std::string& name) {
  TIERCEL_TRY_VOID(check_session_name(name));
  TIERCEL_TRY(const Turn turn, take_turn(0));
  TIERCEL_TRY_VOID(check_writable());
  TIERCEL_TRY(const SessionManifest manifest, find(name));
  TIERCEL_TRY_VOID(remove_files(std::span(&manifest.name, 1)));
  const MutexLock lock(mutex_);
  ++stats_.forgotten;
  return {};
}

Result<std::vector<std::string>> SessionStore::Impl::expire(std::int64_t now_unix_s) {
  std::vector<std::string> names;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, session] : sessions_) {
      const std::int64_t expires = session.manifest.expires_unix_s;
      if (expires != 0 && expires <= now_unix_s) names.push_back(name);
    }
  }
  if (names.empty()) return names;
  TIERCEL_TRY(const Turn turn, take_turn(options_.clock->now_ns()));
  TIERCEL_TRY_VOID(check_writable());
  {  // One of them may have been suspended anew, or forgotten, before it was our turn.
    const MutexLock lock(mutex_);
    std::erase_if(names, [&](const std::string& name) REQUIRES(mutex_) {
      const auto found = sessions_.find(name);
      return found == sessions_.end() || found->second.manifest.expires_unix_s == 0 ||
             found->second.manifest.expires_unix_s > now_unix_s;
    });
  }
  TIERCEL_TRY_VOID(remove_files(names));
  const MutexLock lock(mutex_);
  stats_.expired += names.size();
  return names;
}

// --- The public face ---

SessionStore::SessionStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SessionStore::~SessionStore() = default;

Result<std::unique_ptr<SessionStore>> SessionStore::open(Disk& disk, const Options& options) {
  TIERCEL_TRY(auto impl, Impl::open(disk, options));
  return std::unique_ptr<SessionStore>(new SessionStore(std::move(impl)));
}
Result<SessionManifest> SessionStore::suspend(const SessionDraft& draft, std::int64_t deadline_ns) {
  return impl_->suspend(draft, deadline_ns);
}
Result<std::vector<SessionManifest>> SessionStore::list() { return impl_->list(); }
Result<SessionManifest> SessionStore::find(const std::string& name) { return impl_->find(name); }
bool SessionStore::holds(const Key& key) { return impl_->holds(key); }
std::uint64_t SessionStore::missing(const SessionManifest& manifest) {
  return impl_->missing(manifest);
}
Result<void> SessionStore::read(
    const SessionManifest& manifest, std::span<const std::size_t> which,
    std::span<const ScatterList> memory, std::int64_t deadline_ns,
    const std::function<void(std::size_t i, Outcome, const Error&)>& on_block) {
  return impl_->read(manifest, which, memory, deadline_ns, on_block);
}
Result<std::vector<std::uint32_t>> SessionStore::read_tokens(const SessionManifest& manifest,
                                                             std::int64_t deadline_ns) {
  TIERCEL_TRY(const auto bytes,
              impl_->read_pieces(manifest, manifest.tokens, kTokensKindId, deadline_ns));
  std::vector<std::uint32_t> tokens(bytes.size() / sizeof(std::uint32_t));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(tokens)).begin());
  return tokens;
}
Result<std::vector<std::byte>> SessionStore::read_state(const SessionManifest& manifest,
                                                        std::int64_t deadline_ns) {
  return impl_->read_pieces(manifest, manifest.state, kStateKindId, deadline_ns);
}
Result<void> SessionStore::read_records(
    std::span<const Key> keys,
    const std::function<Result<void>(std::span<const std::byte> record)>& on_record) {
  return impl_->read_records(keys, on_record);
}
Result<std::uint64_t> SessionStore::memory_bytes(Disk& disk, const Options& options) {
  return Impl::memory_bytes(disk, options);
}
Result<void> SessionStore::forget(const std::string& name) { return impl_->forget(name); }
Result<std::vector<std::string>> SessionStore::expire(std::int64_t now_unix_s) {
  return impl_->expire(now_unix_s);
}
SessionStoreStats SessionStore::stats() { return impl_->stats(); }
LinkEstimate SessionStore::link() const { return impl_->link(); }
std::vector<std::string> SessionStore::notes() { return impl_->notes(); }

}  // namespace tiercel
