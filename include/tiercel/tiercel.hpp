// Tiercel: a tiered, durable store for the KV cache of an inference engine. This header is its manual; examples/embed.cc is a
// whole program.
//
//     auto cache = tiercel::Cache::open(options);              // warm in RAM, cold in a directory
//     auto chain = cache->chain(prompt_tokens);                // names of the prompt's blocks
//     auto match = cache->match(chain);                        // how far it is cached; a lease on that
//     auto loads = cache->fetch(*match, destinations);         // -> cache->wait(*loads, 1s): delivered | miss | error, each
//     auto store = cache->put(chain, {.position = n, .blocks = blocks});   // what the engine has computed
//     cache->sync();                                           // what was put and admitted to cold is durable
//
// Blocks   A prompt is cut into blocks of `block_tokens` tokens; the last may be partial and then has a name of its own, never
//          that of the full one. Block i covers the tokens before position i + 1; position 0 is the empty prefix.
// Tiers    A put goes to warm, and from there to cold while there is room for it; eviction only drops. What is fetched from
//          cold is kept in warm too. cold_bytes is a hard cap on what the directory takes of the disk.
// Tickets  put() and fetch() return at once. The result comes by poll(), wait() or a callback, once. Memory handed in belongs
//          to the cache until then: destinations must not be read, sources not be changed. cancel() asks for an early end.
//          Of results nobody asks for, the last kResultsMax are kept.
// Safety   Every block ends as exactly one of delivered, miss and error. Bytes are delivered only after key, fingerprint and
//          checksums were verified; treat an error as a miss. A record that proves bad is dropped and counted: a miss from
//          then on. The cache may forget a block; it never returns wrong bytes.
// Waits    Nothing waits without a bound. A store that finds the staging or the tier full is skipped and counted; it never
//          holds up the engine.
// Threads  A Cache may be used from any thread. One thread inside carries copies, reads and writes out, and runs callbacks;
//          these must not wait for tickets. Chain is immutable, Match belongs to one thread at a time.
// Errors   Result<T>; no exception leaves this interface. Beyond those named below:
//          cancelled  the cache is closed
//          invalid    an argument does not fit; the text names it and what would
// Source   docs/adr/0005-library-door.md, docs/library.md
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tiercel/clock.hpp"
#include "tiercel/layout.hpp"
#include "tiercel/names.hpp"
#include "tiercel/result.hpp"
#include "tiercel/session.hpp"
#include "tiercel/transfer.hpp"

namespace tiercel {

class CacheImpl;
struct CacheSeams;

inline constexpr std::size_t kResultsMax = 65536;

// One kind of state that the model keeps, and how large its blocks are: a block of n tokens has
// bytes_per_block + n * bytes_per_token bytes. Recurrent state has bytes_per_block alone.
struct CachedKind {
  Kind kind;
  Fingerprint fingerprint;  // make_fingerprint(): what is stored under another one is never found.
  std::uint64_t bytes_per_token = 0;
  std::uint64_t bytes_per_block = 0;

  std::uint64_t block_bytes(std::uint32_t token_count) const {
    return bytes_per_block + bytes_per_token * token_count;
  }
};

struct CacheOptions {
  std::uint32_t block_tokens = 0;
  std::vector<CachedKind> kinds;  // Each id once.
  // Caches of different salt share no block, whatever their prompts.
  std::vector<std::byte> tenant_salt;

  // RAM for blocks: taken and touched at open, never given back before close. Needed.
  std::uint64_t warm_bytes = 0;
  // Stores under way, at most, towards each tier. 0: a quarter of warm_bytes.
  std::uint64_t staging_bytes = 0;

  // Of the cold tier: empty or missing, or a store of ours. "" = no cold tier.
  std::string directory;
  std::uint64_t cold_bytes = 0;  // Hard cap on what it takes of the disk.
  // Of cold_bytes, kept for sessions (tiercel/session.hpp), in DIRECTORY/sessions; 0: none can be suspended.
  std::uint64_t session_bytes = 0;
  // Made smaller where the cap would hold only few of them. A store keeps those it was made with.
  std::uint64_t segment_bytes = 64ULL << 20;
  // A commit follows after so many bytes, or so long after a write, whichever comes first; 0 turns one of them off.
  std::uint64_t sync_bytes = 64ULL << 20;
  std::chrono::nanoseconds sync_interval = std::chrono::seconds(1);
  // How fast cold is read through in the background for records that have gone bad; 0: not at all.
  std::uint64_t scrub_bytes_per_s = 8ULL << 20;

  // What match() gives where it is not told.
  std::chrono::nanoseconds lease_time = std::chrono::seconds(10);
  // For leases and commits; null: the system's. Thread-safe, outlives the cache.
  const Clock* clock = nullptr;
};

// The names of a prompt's blocks, for the kinds of one cache. Made by Cache::chain().
class Chain {
 public:
  Chain() = default;

  // Blocks; also the last position.
  std::uint32_t size() const { return static_cast<std::uint32_t>(prefixes_.size()); }
  std::uint32_t tokens_in(std::uint32_t block) const {
    return block + 1 == size() ? last_tokens_ : block_tokens_;
  }
  std::uint64_t tokens_before(std::uint32_t position) const;
  const PrefixHash& prefix(std::uint32_t block) const { return prefixes_[block]; }
  // `kind_index`: into CacheOptions::kinds.
  const Key& key(std::size_t kind_index, std::uint32_t block) const {
    return keys_[kind_index * size() + block];
  }

 private:
  friend class CacheImpl;
  std::uint32_t block_tokens_ = 0, last_tokens_ = 0;
  std::vector<PrefixHash> prefixes_;
  std::vector<Key> keys_;  // Kind after kind.
};

// --- Finding and fetching ---

enum class CacheTier : std::uint8_t { warm, cold };

struct MatchOptions {
  std::vector<std::uint16_t> kinds;                    // Kind::id; empty: all of the cache.
  std::optional<std::chrono::nanoseconds> lease_time;  // There is no lease without an end.
  std::string owner;  // Stands in the report of a lease that leaked.
  // The process that holds the lease; 0: this one. Once it is gone, so is its lease.
  std::int64_t owner_pid = 0;
};

struct MatchedBlock {
  std::uint16_t kind = 0;   // Kind::id.
  std::uint32_t index = 0;  // Block of the chain.
  std::uint32_t token_count = 0;
  std::uint64_t bytes = 0;           // What its destination must hold.
  CacheTier tier = CacheTier::warm;  // Where it lay.
  Key key;
};

// What was found, and a lease on it: nothing of it is evicted until release(), destruction or the end of the lease time.
class Match {
 public:
  Match() = default;
  Match(Match&& other) noexcept;
  Match& operator=(Match&& other) noexcept;
  ~Match() { release(); }

  // Blocks of the chain that need no computing; 0 = nothing.
  std::uint32_t position() const { return position_; }
  std::uint64_t tokens() const { return tokens_; }  // The same in tokens.
  // By block of the chain, then by kind.
  std::span<const MatchedBlock> blocks() const { return blocks_; }
  void release();

 private:
  friend class CacheImpl;
  std::weak_ptr<CacheImpl> cache_;  // A match may outlive its cache.
  std::uint64_t lease_ = 0;
  std::uint32_t position_ = 0;
  std::uint64_t tokens_ = 0;
  std::vector<MatchedBlock> blocks_;
};

struct Destination {
  std::uint32_t block = 0;  // Index into Match::blocks().
  // Host pieces, MatchedBlock::bytes together. 4 KiB-aligned ones save a copy on the way from cold.
  ScatterList memory;
};

struct BlockOutcome {
  Outcome outcome = Outcome::miss;
  Error error;  // Only for Outcome::error.
};

// --- Storing ---

struct Hints {
  // The prompt will not be continued: what lies behind this position and is shared with no other prompt goes first.
  std::optional<std::uint32_t> ends_from = {};
  // Taken and counted, not used yet.
  std::optional<std::chrono::nanoseconds> ttl = {};
  std::optional<std::chrono::nanoseconds> will_return = {};
};

// One transaction: its blocks become visible together or not at all, and only once they can be read back.
struct Txn {
  std::uint32_t position = 0;  // Every block of it lies before this position.
  std::vector<PutBlock> blocks;
  Hints hints = {};
};

enum class PutOutcome : std::uint8_t {
  none,     // This was no put.
  stored,   // Readable, all of it; blocks that were there already were left out.
  known,    // Readable, all of it; there was nothing to do, or another put under way has done it.
  skipped,  // No room: Finished::error says where. Nothing of it is visible.
  // Nothing that it would have stored is visible; Finished::error says why: cancelled; busy: another put was storing some of
  // its blocks and failed, put them again; else what the copy said.
  failed,
};

struct Finished {
  Ticket ticket = 0;
  std::vector<BlockOutcome> blocks;  // Of a fetch: one per destination, in their order.
  PutOutcome put = PutOutcome::none;
  Error error;  // Of a put that was skipped or failed.

  bool all_delivered() const;
};

// Runs on the thread of the cache and must not throw; the result is then not kept for poll() and wait().
using OnFinished = std::function<void(const Finished&)>;

// --- Reports ---

struct TierReport {
  std::uint64_t capacity_bytes = 0, used_bytes = 0;  // Physical: record heads and padding included.
  std::uint64_t hits = 0;                            // Blocks of matches that lay here.
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::uint64_t errors = 0, corrupt = 0;  // Operations that failed; of these, bad records.
  LinkEstimate link;  // Measured on the cache's own work; zeros until there was some.
};

struct CacheStats {
  TierReport warm, cold;
  std::uint64_t matches = 0, missed_blocks = 0;         // Blocks of chains behind the match.
  std::uint64_t delivered = 0, misses = 0, errors = 0;  // Blocks of fetches, by outcome.

  std::uint64_t puts = 0, stored_blocks = 0, known_blocks = 0;
  std::uint64_t cold_stored_blocks = 0, cold_evicted_blocks = 0, commits = 0;
  // Stores that were not made: puts as a whole, or the way of one block from warm to cold.
  std::uint64_t skipped_staging = 0;  // Too many bytes under way.
  std::uint64_t skipped_space = 0;    // Everything is leased or under way.
  std::uint64_t skipped_parent = 0;   // The block before it is not in cold: out of reach there.
  std::uint64_t skipped_failed = 0;   // Cold takes no more stores, see notes.

  // Held now; ended by time because nobody released them.
  std::uint64_t leases = 0, leases_leaked = 0;
  std::vector<std::string> leaked;  // The last of these, by owner.
  std::uint64_t hints_ended = 0, hints_ttl_unused = 0, hints_will_return_unused = 0;

  // What open() found in the directory: blocks of ours, records of other models, damaged ones passed over.
  std::uint64_t recovered_blocks = 0, stranger_records = 0, torn_records = 0;
  // The same: files that a crash had left half made; segment files of the wrong length, brought back to their own; segments
  // with a damaged header, in which records were found all the same, and in which none were.
  std::uint64_t leftovers_removed = 0, resized_segments = 0, rescued_segments = 0,
                dropped_segments = 0;
  // Places of bad records that are never read again: those that open() knew of, and those found since. And what the scrub has read.
  std::uint64_t quarantined = 0, scrubbed_bytes = 0;
  double open_s = 0;
  // Sessions, what their records take, and the share they may take.
  std::uint64_t sessions = 0, session_bytes = 0, session_capacity = 0;
  // Kind of pages, way of I/O, fallbacks and their reason, what failed: one sentence each.
  std::vector<std::string> notes;
};

class Cache {
 public:
  // Errors: invalid   options that contradict each other, a directory that is not ours; the text says what to do
  //         busy      another process has the directory; the text names it
  //         no_space  so much memory is not to be had
  static Result<Cache> open(const CacheOptions& options);
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();  // Closes.

  Chain chain(std::span<const std::uint32_t> tokens) const;
  // From the engine's own block hashes instead, any bytes, one per block; they must name the block's tokens and what
  // decides its state. A chain of hashes and one of tokens never share a block.
  Chain chain(std::span<const std::span<const std::byte>> block_hashes,
              std::uint32_t tokens_in_last) const;

  // The largest position that every kind asked for can serve: all `all` blocks before it, the `window` blocks over the last n
  // tokens before it, the `last` record taken at it. An empty match (position 0) is no error.
  Result<Match> match(const Chain& chain, const MatchOptions& options = {});

  // Reads blocks of a match, any of them, into the caller's memory. Errors: busy  too many blocks are under way.
  Result<Ticket> fetch(const Match& match, std::span<const Destination> destinations,
                       OnFinished on_finished = {});

  // Stores what is not there yet. Every block needs its chain: a block whose predecessor was never put cannot be matched.
  Result<Ticket> put(const Chain& chain, const Txn& transaction, OnFinished on_finished = {});

  // nullopt: still under way. Errors: invalid  no such ticket, or its result was taken.
  Result<std::optional<Finished>> poll(Ticket ticket);
  // Errors: busy  not finished in time; ask again or cancel.
  Result<Finished> wait(Ticket ticket, std::chrono::nanoseconds timeout);
  // What has not begun ends as cancelled; the ticket still gets its result, and its memory is the cache's until then.
  void cancel(Ticket ticket);

  // Everything put before and admitted to cold is durable once this returns. Nothing to do without a cold tier.
  // Errors: busy      not in time
  //         io        the disk refused a commit: from then on cold takes no more stores, reads go on. Or it refused single
  //                   blocks since the last sync: the text says how many, they are in warm only
  //         no_space  the same, because the disk was full
  Result<void> sync(std::chrono::nanoseconds timeout = std::chrono::seconds(60));

  // Starts to bring what matches from cold to warm; returns how many blocks.
  Result<std::uint32_t> prefetch(const Chain& chain);
  Result<void> hint(const Chain& chain, const Hints& hints);

  // --- Sessions (tiercel/session.hpp). All of them wait, at most `timeout` ---

  // Errors: no_space  the share of sessions is full; nothing is lost
  //         invalid   name or suspension; session_bytes is 0; a block is nowhere: the text names it and its kind
  //         busy      not in time, or another call is at work on the sessions
  //         io        the disk refused; after a commit that failed no session changes any more, until the cache is opened anew
  Result<SessionInfo> suspend(const std::string& name, const Chain& chain,
                              const Suspension& suspension,
                              std::chrono::nanoseconds timeout = std::chrono::seconds(60));
  // `timeout` is for the loads too. Errors: invalid  there is no such session, or it is another model's; corrupt  its tokens or
  // its state are damaged; busy, io.
  Result<Resumption> resume(const std::string& name,
                            std::chrono::nanoseconds timeout = std::chrono::seconds(60));
  // Loads blocks of the plan (Destination::block is an index into it), told in prefix order as they come. Every block ends as
  // delivered, miss (the session was forgotten) or error (damaged; cancelled: past the deadline). Errors: invalid, busy, io.
  Result<Finished> load(const Resumption& resumption, std::span<const Destination> destinations,
                        const OnBlock& on_block = {});
  // Durable once it returns. Errors: invalid  there is no such session.
  Result<void> forget(const std::string& name);
  Result<std::vector<SessionInfo>> sessions() const;  // By name.
  // A file that holds all of the session, checksummed. Replaced in one step where it exists.
  Result<void> export_session(const std::string& name, const std::string& path);
  // Verifies all of it before anything is suspended. "" = the name it had. Errors: corrupt, no_space, invalid, io.
  Result<SessionInfo> import_session(const std::string& path, const std::string& name = "");

  CacheStats stats() const;  // Also after close().

  // Waits for what is under way, makes it durable, lets go of memory and directory. Again: the same answer, nothing done.
  Result<void> close();

 private:
  friend Result<Cache> open_cache(const CacheOptions& options, const CacheSeams& seams);
  explicit Cache(std::shared_ptr<CacheImpl> impl);
  // Shared with nobody for long: a Match locks it to release its lease.
  std::shared_ptr<CacheImpl> impl_;
};

}  // namespace tiercel
