// The public face: hands every call on to CacheImpl.
#include <algorithm>

#include "cache/cache_impl.h"
#include "tiercel/tiercel.hpp"

namespace tiercel {

std::uint64_t Chain::tokens_before(std::uint32_t position) const {
  return ChainShape{
      .block_count = size(), .block_tokens = block_tokens_, .last_tokens = last_tokens_}
      .tokens_before(position);
}

Match::Match(Match&& other) noexcept { *this = std::move(other); }

Match& Match::operator=(Match&& other) noexcept {
  if (this == &other) return *this;
  release();
  cache_ = std::exchange(other.cache_, {});
  lease_ = std::exchange(other.lease_, 0);
  position_ = std::exchange(other.position_, 0);
  tokens_ = std::exchange(other.tokens_, 0);
  blocks_ = std::exchange(other.blocks_, {});
  return *this;
}

void Match::release() {
  if (lease_ == 0) return;
  if (const auto cache = cache_.lock()) cache->release(lease_);
  lease_ = 0;
}

bool Finished::all_delivered() const {
  return std::ranges::all_of(
      blocks, [](const BlockOutcome& block) { return block.outcome == Outcome::delivered; });
}

Result<Cache> Cache::open(const CacheOptions& options) { return open_cache(options, {}); }

Result<Cache> open_cache(const CacheOptions& options, const CacheSeams& seams) {
  TIERCEL_TRY(auto impl, CacheImpl::open(options, seams));
  return Cache(std::move(impl));
}

Cache::Cache(std::shared_ptr<CacheImpl> impl) : impl_(std::move(impl)) {}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&& other) noexcept {
  if (this == &other) return *this;
  if (impl_) static_cast<void>(impl_->close());
  impl_ = std::move(other.impl_);
  return *this;
}
Cache::~Cache() {
  if (impl_) static_cast<void>(impl_->close());
}

Chain Cache::chain(std::span<const std::uint32_t> tokens) const { return impl_->chain(tokens); }
Chain Cache::chain(std::span<const std::span<const std::byte>> block_hashes,
                   std::uint32_t tokens_in_last) const {
  return impl_->chain(block_hashes, tokens_in_last);
}
Result<Match> Cache::match(const Chain& chain, const MatchOptions& options) {
  return impl_->match(chain, options);
}
Result<Ticket> Cache::fetch(const Match& match, std::span<const Destination> destinations,
                            OnFinished on_finished) {
  return impl_->fetch(match, destinations, std::move(on_finished));
}
Result<Ticket> Cache::put(const Chain& chain, const Txn& transaction, OnFinished on_finished) {
  return impl_->put(chain, transaction, std::move(on_finished));
}
Result<std::optional<Finished>> Cache::poll(Ticket ticket) { return impl_->poll(ticket); }
Result<Finished> Cache::wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  return impl_->wait(ticket, timeout);
}
void Cache::cancel(Ticket ticket) { impl_->cancel(ticket); }
Result<void> Cache::sync(std::chrono::nanoseconds timeout) { return impl_->sync(timeout); }
Result<std::uint32_t> Cache::prefetch(const Chain& chain) { return impl_->prefetch(chain); }
Result<void> Cache::hint(const Chain& chain, const Hints& hints) {
  return impl_->hint(chain, hints);
}
Result<SessionInfo> Cache::suspend(const std::string& name, const Chain& chain,
                                   const Suspension& suspension, std::chrono::nanoseconds timeout) {
  return impl_->suspend(name, chain, suspension, timeout);
}
Result<Resumption> Cache::resume(const std::string& name, std::chrono::nanoseconds timeout) {
  return impl_->resume(name, timeout);
}
Result<Finished> Cache::load(const Resumption& resumption,
                             std::span<const Destination> destinations, const OnBlock& on_block) {
  return impl_->load(resumption, destinations, on_block);
}
Result<void> Cache::forget(const std::string& name) { return impl_->forget(name); }
Result<std::vector<SessionInfo>> Cache::sessions() const { return impl_->sessions(); }
Result<void> Cache::export_session(const std::string& name, const std::string& path) {
  return impl_->export_session(name, path);
}
Result<SessionInfo> Cache::import_session(const std::string& path, const std::string& name) {
  return impl_->import_session(path, name);
}
CacheStats Cache::stats() const { return impl_->stats(); }
Result<void> Cache::close() { return impl_->close(); }

}  // namespace tiercel
