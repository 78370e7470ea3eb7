// The part of a path that is there already: the file system that will hold what is not made yet.
#pragma once

#include <filesystem>
#include <string>

namespace tiercel {

// The path itself where it exists, else its nearest existing parent; absolute. "" is the present directory.
inline std::string existing_part(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path part = std::filesystem::absolute(path.empty() ? "." : path, ignored);
  while (!std::filesystem::exists(part, ignored) && part.has_relative_path())
    part = part.parent_path();
  return part.string();
}

}  // namespace tiercel
