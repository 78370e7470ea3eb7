// What the tests of the simulated disk share: small files by path, and memory that direct I/O takes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "io/sim_disk.h"

namespace tiercel {

inline constexpr std::uint64_t kSimTestPage = 4096;

// Page-aligned, as direct I/O wants it.
class SimTestMemory {
 public:
  explicit SimTestMemory(std::size_t bytes, char fill = 0)
      : data_(static_cast<std::byte*>(
            std::aligned_alloc(kSimTestPage, align_up(bytes, kSimTestPage)))),
        bytes_(bytes) {
    std::fill_n(data_.get(), bytes, static_cast<std::byte>(fill));
  }
  std::span<std::byte> span() const { return {data_.get(), bytes_}; }
  std::string text() const { return {reinterpret_cast<const char*>(data_.get()), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_;
};

inline std::unique_ptr<File> open_for_write(Disk& disk, const std::string& path) {
  auto file = disk.open(path, {.write = true, .create = true});
  EXPECT_TRUE(file) << file.error().what;
  return std::move(*file);
}

inline void sync_directory(Disk& disk, const std::string& path) {
  const auto directory = disk.open_directory(path);
  ASSERT_TRUE(directory);
  ASSERT_TRUE((*directory)->sync());
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// "" where it is missing.
inline std::string content_of(Disk& disk, const std::string& path) {
  const auto bytes = read_file(disk, path, 1 << 20);
  if (!bytes) {
    EXPECT_TRUE(is_missing(bytes.error())) << bytes.error().what;
    return "";
  }
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// A file that is durable, with its name.
inline void make_durable(Disk& disk, const std::string& path, const std::string& text) {
  const auto file = open_for_write(disk, path);
  ASSERT_TRUE(file->write(0, as_bytes(text)));
  ASSERT_TRUE(file->sync());
  sync_directory(disk, path.substr(0, path.find_last_of('/') + 1));
}

}  // namespace tiercel
