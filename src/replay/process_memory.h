// What the kernel says this process takes.
#pragma once

#include <cstdint>
#include <optional>

namespace tiercel {

// The most that was ever resident, in bytes (VmHWM); nullopt where /proc does not tell.
std::optional<std::uint64_t> peak_resident_bytes();

}  // namespace tiercel
