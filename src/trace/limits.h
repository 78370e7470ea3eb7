// What a trace may ask of this machine. Every reader of outside bytes stops at one of these before
// memory does.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tiercel {

// One line of JSONL or CSV. A prompt of 10 M tokens in blocks of 16 lists 625 k ids, about 13 MiB
// with long ids.
inline constexpr std::size_t kTraceLineBytesMax = std::size_t{16} << 20;

// One Weka session. The largest published one is below 16 MiB; its parsed form takes about ten
// times its text.
inline constexpr std::size_t kTraceSessionBytesMax = std::size_t{64} << 20;

// All text of a trace after decompression: 18 times the largest trace we know (440 MiB). What a compression bomb can
// cost is the time to inflate this much, never memory.
inline constexpr std::uint64_t kTraceBytesMax = std::uint64_t{8} << 30;

// Requests and block ids held in memory at once: 400 MB and 1 GiB. The largest trace we know has 49
// k and 11.8 M.
inline constexpr std::uint64_t kTraceRequestsMax = 10'000'000;
inline constexpr std::uint64_t kTraceBlockIdsMax = std::uint64_t{1} << 28;

// Lines, blank and malformed ones included: a bomb of line ends is over after a few seconds.
inline constexpr std::uint64_t kTraceLinesMax = 2 * kTraceRequestsMax;

// Tokens of one prompt or answer. Beyond any context; keeps sums over a trace within 64 bits.
inline constexpr std::int64_t kTraceTokensMax = std::int64_t{1} << 30;

// A hundred years, so that times since 1970 pass: one beyond it is in a wrong unit or garbage. Sums of two stay within
// 63 bits of nanoseconds.
inline constexpr std::int64_t kTraceTimeNsMax = std::int64_t{36'500} * 86'400 * 1'000'000'000;

// Nesting of JSON values. The deepest known format (Weka) needs six.
inline constexpr std::size_t kTraceJsonDepthMax = 32;

}  // namespace tiercel
