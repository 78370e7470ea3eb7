// The cache core: decides residency, loads, stores, leases and segments. A state machine without I/O, threads or clock: it
// takes events with their time and leaves actions (cache/action.h) in its outbox; an executor carries them out, on real
// tiers or in virtual time, and reports each completion back. The same events give the same actions.
//
// Tiers   Inclusive, store-ahead: a published block is stored to warm, from there to cold if there is room; eviction then
//         only drops. What is loaded from cold is kept in warm too. Hot may be missing (capacity 0: the library's Cache,
//         whose users hold their own hot memory), cold may be missing, warm too.
// Events  advance(now), then one of the calls below, then take the actions. complete(op) for every action with an op.
// Order   Chains are given head first. Blocks of a chain are touched deepest first, so the head is the most recent.
// Cost    Match is one array access per block; everything else O(blocks of the request).
// Threads one thread.
// Source  docs/adr/0001-interfaces-that-last.md, docs/adr/0003-cold-space.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/block_table.h"
#include "cache/cold_log.h"
#include "cache/memory_pool.h"
#include "cache/outbox.h"

namespace tiercel {

struct CoreOptions {
  std::uint64_t hot_bytes = 0;
  std::uint64_t hot_block_bytes = 0;  // What a block without a key takes in hot (growth).
  std::uint64_t warm_bytes = 0;
  std::optional<ColdLog::Options> cold;
  std::uint64_t staging_bytes =
      0;  // Stores in flight towards warm; cold has its own limit in its options.
};

// What a request got at its admission.
struct Admission {
  std::uint32_t hot_hits = 0, warm_hits = 0, cold_hits = 0;  // The matched prefix, by fastest tier.
  std::vector<BlockId> pending;  // Blocks of the prefix that are still on their way into hot.
  std::vector<Place> computed;   // Memory for the blocks behind the prefix, in order.

  std::uint32_t hits() const { return hot_hits + warm_hits + cold_hits; }
};

struct CoreCounts {
  std::uint64_t lookups = 0;
  std::uint64_t stored_warm = 0;
  // Stores not made, by reason. They are skipped, never waited for.
  std::uint64_t skipped_staging = 0;  // Too many bytes in flight already.
  std::uint64_t skipped_parent =
      0;  // The parent is in no lower tier: nobody could reach the block.
  std::uint64_t skipped_space =
      0;  // Everything in warm is pinned, or no segment could be had without waiting.
  std::uint64_t skipped_failed = 0;  // A commit failed: cold takes no more stores.
};

// A put that has ended: readable, whole, or nothing of what it stored.
struct EndedPut {
  std::uint64_t put = 0;
  bool published = false;
  bool joined_failed = false;  // It failed because a put that it had joined did.
  std::uint32_t stored = 0;    // Blocks that it stored itself.
};

// What a completion brought about.
struct Completed {
  Action action;
  bool ok = true;
  BlockId ready_in_hot = kNoBlock;  // This block can be read in hot from now on.
  std::uint32_t failed_fetches =
      0;  // So many fetches of action.block end here as errors: their load failed on its way.
  std::vector<EndedPut>
      ended_puts;  // The put that this store belonged to, and those that had joined it.
};

// A put that is under way.
struct StartedPut {
  std::uint64_t put = 0;  // Its number; 0: all of it is readable already, nothing will end.
  std::vector<std::uint64_t> ops;  // Of its stores, in order of the blocks stored.
};

// Something that a lease holds: the block stays where it was when it was pinned.
struct Pin {
  BlockId id = kNoBlock;
  TierId tier = TierId::none;
  Place place;
};

class Core {
 public:
  explicit Core(const CoreOptions& options);

  BlockTable& table() { return table_; }
  Outbox& outbox() { return outbox_; }

  // The time of what follows. Commits that are due by time begin here.
  void advance(std::int64_t now_ns);
  // When advance() should be called at the latest; nullopt: nothing is due.
  std::optional<std::int64_t> next_wakeup_ns() const;

  // The fastest tier that can deliver the block now; none where nobody has it.
  TierId fastest_tier(BlockId id) const;
  // Leading blocks of the chain that some tier can deliver.
  std::uint32_t match(std::span<const BlockId> chain);

  // --- An engine with hot memory of ours (replay) ---

  // Admits a request of `block_count` input blocks, of which `chain` (all of them, or none without sharing) have names:
  // pins the matched prefix in hot, loads what lies lower, joins loads under way, and takes memory for the rest. nullopt,
  // and nothing changed, where hot cannot hold it now.
  std::optional<Admission> admit(std::span<const BlockId> chain, std::uint32_t block_count);

  // The request has computed chain[first...] in `places`. Returns which of them are now published with the request as their
  // owner; the others were published by somebody else meanwhile: the request keeps its own copy (private) until it frees it.
  std::vector<bool> publish(std::span<const BlockId> chain, std::uint32_t first,
                            std::span<const Place> places);

  // One more block without a name; nullopt where all of hot is owned.
  std::optional<Place> take_private();
  void free_private(const Place& place) { hot_.give_back(place); }

  // The request lets go of published blocks it owns; call deepest first.
  void disown(BlockId id);

  // Stores a published chain down, head first. Blocks that are on their way or there are only touched.
  void store_down(std::span<const BlockId> chain);

  // --- The library: blocks come from and go to a caller's memory ---

  // Stores all blocks or none to warm from the caller's memory; all become readable with the last completion, which names the
  // put among its ended ones. Readable blocks are left out. Of blocks on their way in another put it joins that put: it ends
  // after it, and fails with it. nullopt where warm has no room now, or where it cannot take a block because its bad
  // bytes are still leased.
  std::optional<StartedPut> put(std::span<const BlockId> blocks);

  // What was asked for last is evicted last, and of it the deepest first: `chain` (parents before their children) and all its
  // ancestors become the most recent in warm. put() does this itself; after fetch and prefetch it is the caller's to do, once
  // for all of their blocks. O(depth of the chain).
  void touch(std::span<const BlockId> chain);

  // Starts the delivery of a block to the caller: load warm -> caller at once, or cold -> warm first. Returns false where no
  // tier has it. The action that ends it carries to == TierId::caller and this block.
  bool fetch(BlockId id);
  // Brings a block from cold to warm; false where it is not in cold, is there already, or warm has no room.
  bool prefetch(BlockId id);

  // For leases: the block stays in the fastest lower tier that has it now. tier == none where none has.
  Pin pin(BlockId id);
  void unpin(const Pin& pin);

  // The prompt has ended from here on: `tail` (deepest first, children before their parents) are first victims, the deepest
  // before the others, up to the first block that others share.
  void end_prompt(std::span<const BlockId> tail_deepest_first);

  // --- Completions ---

  Completed complete(std::uint64_t op, bool ok = true);
  // The bytes of a block proved bad in `tier`: it can be read there no more, and leaves with its last pin.
  void quarantine(BlockId id, TierId tier);
  // Makes what is written durable now; false where nothing waits for a commit.
  bool commit_now();
  bool idle() const { return outbox_.pending_count() == 0; }
  bool anything_uncommitted() const { return cold_ && cold_->anything_uncommitted(); }

  const CoreCounts& counts() const { return counts_; }
  const MemoryPool& hot() const { return hot_; }
  const MemoryPool& warm() const { return warm_; }
  const ColdLog* cold() const { return cold_.get(); }
  ColdLog* cold() { return cold_.get(); }

 private:
  struct Transaction {
    std::uint64_t put = 0;
    std::uint32_t pending = 0;  // Own stores, and puts joined.
    bool failed = false, joined_failed = false;
    std::vector<BlockId> blocks;  // Those that it stores.
    std::vector<BlockId> chain;   // All it was given, retained.
    std::vector<Pin> pins;        // What was there already stays until the end.
    std::vector<std::shared_ptr<Transaction>> joined_by;
  };

  bool room_for(std::span<const BlockId> prefix, std::uint32_t block_count) const;
  void own_in_hot(BlockId id);
  void load_into_hot(BlockId id);
  bool start_cold_to_warm(BlockId id);
  void start_load(BlockId id, TierId from, TierId to, const Place& source, const Place& target);
  bool store_to_warm(BlockId id, TierId from);
  void store_to_cold(BlockId id);
  bool in_lower_tier(BlockId id) const;
  void on_load(const Action& action, bool ok, Completed& completed);
  void on_store(const Action& action, bool ok, Completed& completed);
  void arrived_in_warm_from_cold(BlockId id, bool ok, Completed& completed);
  void finish_store(std::uint64_t op, bool ok, Completed& completed);
  void end_transaction(Transaction& transaction);

  const CoreOptions options_;
  BlockTable table_;
  Outbox outbox_;
  MemoryPool hot_;
  MemoryPool warm_;
  std::unique_ptr<ColdLog> cold_;
  std::uint64_t warm_in_flight_bytes_ = 0;
  std::unordered_map<BlockId, std::uint32_t>
      waiting_callers_;  // Fetches that wait for cold -> warm.
  std::unordered_map<std::uint64_t, std::shared_ptr<Transaction>>
      transactions_;  // By op; shared by the ops of one put.
  std::unordered_map<BlockId, std::shared_ptr<Transaction>>
      putting_;  // By block on its way to warm.
  std::uint64_t last_put_ = 0;
  CoreCounts counts_;
};

}  // namespace tiercel
