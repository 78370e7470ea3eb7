#include "io/disk.h"

#include <fmt/format.h>

#include <cerrno>

namespace tiercel {

bool is_missing(const Error& error) {
  return error.code == Errc::io && (error.os_errno == ENOENT || error.os_errno == ENOTDIR);
}

Result<std::vector<std::byte>> read_file(Disk& disk, const std::string& path,
                                         std::uint64_t bytes_max) {
  TIERCEL_TRY(const auto file, disk.open(path, {}));
  TIERCEL_TRY(const FileStatus status, file->status());
  if (status.bytes > bytes_max) {
    return fail(Errc::invalid, fmt::format("{} has {} bytes; at most {} were expected", path,
                                           status.bytes, bytes_max));
  }
  std::vector<std::byte> content(status.bytes);
  TIERCEL_TRY_VOID(file->read(0, content));
  return content;
}

Result<void> replace_file(Disk& disk, const std::string& directory, const std::string& name,
                          std::span<const std::byte> content) {
  const std::string path = directory + "/" + name;
  const std::string temporary = path + ".tmp";
  {
    TIERCEL_TRY(const auto file, disk.open(temporary, {.write = true, .create = true}));
    TIERCEL_TRY_VOID(file->truncate(content.size()));
    TIERCEL_TRY_VOID(file->write(0, content));
    TIERCEL_TRY_VOID(file->sync());
  }
  TIERCEL_TRY_VOID(disk.rename(temporary, path));
  TIERCEL_TRY(const auto parent, disk.open_directory(directory));
  return parent->sync();
}

}  // namespace tiercel
