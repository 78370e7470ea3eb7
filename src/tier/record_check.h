// What every tier does with a record that goes in or comes out: find its bytes through the scatter list, and believe none of it.
//
// Threads Pure functions over the caller's memory.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/record.h"
#include "tier/arena.h"
#include "tier/segment_format.h"
#include "tier/tier.h"

namespace tiercel {

// A scatter list as bytes of this process.
using Spans = std::vector<std::span<std::byte>>;

// Errors: invalid  a piece that has no address here, or a list that is not place.bytes long, or a place that is not of whole
//                  pages (the alignment every tier asks for).
Result<Spans> resolve_memory(const Op& op, const Arena* arena);

// The first `bytes` of the list in one run: in place where they are, else copied to `scratch`.
std::span<const std::byte> gather(std::span<const std::span<std::byte>> spans, std::uint64_t bytes,
                                  std::vector<std::byte>& scratch);

// The list without its first `bytes`.
Spans drop_front(std::span<const std::span<std::byte>> spans, std::uint64_t bytes);

// The head of a record about to be stored. Errors: invalid  no good head, or not that of op.key, op.fingerprint, op.place.bytes.
Result<RecordHead> check_stored_head(const Op& op, std::span<const std::span<std::byte>> spans);

// The head of a record that was read for `op`. `bytes` starts at the record and holds at least its first page; where the head is
// longer, all of it. A tier delivers stored bytes as they are, so a record that needs decoding or deciphering is refused here too:
// what it would deliver is not the block. Errors: corrupt  a bad head, or not that of op.key, op.fingerprint, op.place.bytes; a
// codec other than the identity, a chunk whose plain and stored lengths differ, a key_id other than 0.
Result<RecordHead> check_loaded_head(const Op& op, std::span<const std::byte> bytes);

// The head of a record that was read from a place of a segment log, `read` being all of the place: as check_loaded_head(), and
// it must say that it was written at `expected`. Its placement area becomes zero: what is given out is the record as it was
// stored. nullopt: nothing was ever written there.
Result<std::optional<RecordHead>> check_placed_head(const Op& op, const PlaceEcho& expected,
                                                    std::span<const std::span<std::byte>> read);

// All that a load would check of the record in `bytes`, and that it is the one that the index names. Its placement area
// becomes zero. Errors: corrupt.
Result<void> check_whole_record(const FooterEntry& entry, const PlaceEcho& expected,
                                std::span<std::byte> bytes);

// True where nothing was ever written: a page that starts with zeros (files are preallocated, the arena is zeroed).
bool never_written(std::span<const std::byte> first_page);

}  // namespace tiercel
