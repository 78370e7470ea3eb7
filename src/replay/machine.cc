#include "replay/machine.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "io/existing_path.h"

namespace tiercel {
namespace {

constexpr const char* kUnknown = "unknown";

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return kUnknown;
}

std::string filesystem_name(const std::string& dir) {
  struct statfs info {};
  if (::statfs(existing_part(dir).c_str(), &info) != 0) return kUnknown;
  constexpr std::uint64_t kXfs = 0x58465342;  // Not in <linux/magic.h>.
  constexpr std::uint64_t kZfs = 0x2fc12fc1;
  switch (static_cast<std::uint64_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlayfs";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case F2FS_SUPER_MAGIC:
      return "f2fs";
    case kXfs:
      return "xfs";
    case kZfs:
      return "zfs";
    default:
      return fmt::format("{:#x}", static_cast<std::uint64_t>(info.f_type));
  }
}

}  // namespace

Machine read_machine(const std::string& store_dir) {
  Machine machine{.cpu_model = cpu_model(), .filesystem = filesystem_name(store_dir)};
  machine.cores = static_cast<std::uint32_t>(std::max(0L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.memory_bytes = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) *
                         static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  struct utsname names {};
  machine.kernel = ::uname(&names) == 0 ? names.release : kUnknown;
  return machine;
}

}  // namespace tiercel
