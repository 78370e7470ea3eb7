#include "replay/process_memory.h"

#include <fstream>
#include <string>

namespace tiercel {

std::optional<std::uint64_t> peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace tiercel
