// A valid placement for the tests of this room.
#pragma once

#include <string_view>

namespace tiercel {

// A valid placement; line numbers in the tests count from its first line.
inline constexpr std::string_view kGood =
    "schema = \"tiercel.placement/1\"\n"  // 1
    "wait_limit = \"1 s\"\n"              // 2
    "[model]\n"                           // 3
    "bytes_per_token = \"128 KiB\"\n"     // 4
    "block_tokens = 512\n"                // 5
    "[engine]\n"                          // 6
    "prefill = \"nominal\"\n"             // 7
    "[hot]\n"                             // 8
    "bytes = \"100 GiB\"\n"               // 9
    "[warm]\n"                            // 10
    "bytes = \"200 GiB\"\n"               // 11
    "read_bandwidth = \"20 GB/s\"\n"      // 12
    "write_bandwidth = \"20 GB/s\"\n"     // 13
    "[cold]\n"                            // 14
    "bytes = \"1 TiB\"\n"                 // 15
    "segment_bytes = \"64 MiB\"\n"        // 16
    "read_bandwidth = \"3 GB/s\"\n"       // 17
    "write_bandwidth = \"3 GB/s\"\n"      // 18
    "sync_interval = \"1 s\"\n"           // 19
    "[staging]\n"                         // 20
    "bytes = \"16 GiB\"\n"                // 21
    "[replay]\n"                          // 22
    "payload = \"64 KiB\"\n"              // 23
    "[targets]\n"                         // 24
    "rejection_ratio = 0.01\n";           // 25

}  // namespace tiercel
