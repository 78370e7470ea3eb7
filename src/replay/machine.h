// The machine a report was made on: part of what a report vouches for.
//
// Threads Pure but for asking the system; what cannot be found out is "unknown" or 0, never an error.
#pragma once

#include <cstdint>
#include <string>

namespace tiercel {

struct Machine {
  std::string cpu_model;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::string kernel;
  std::string filesystem;  // Of the directory of the store, or of its nearest existing parent.
};

Machine read_machine(const std::string& store_dir);

}  // namespace tiercel
