#include "tier/self_test.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/byte_size.h"
#include "base/checksum.h"
#include "io/existing_path.h"
#include "tier/arena.h"
#include "tier/store_directory.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kArenaProbe = 32 * kMiB;
constexpr std::uint64_t kFilesBesideSegments = 64;  // Standard ones, lock, ring, arena, sessions.

class SelfTest {
 public:
  SelfTest(Disk& disk, const SelfTestOptions& options)
      : disk_(disk), options_(options), directory_(existing_part(options.directory)) {}

  std::vector<Finding> run() {
    kernel();
    clock();
    checksum();
    if (options_.cold_bytes > 0) {
      directory();
      ring();
      space();
      quota();
      open_files();
    }
    huge_pages();
    memory();
    memlock();
    devices();
    return std::move(findings_);
  }

 private:
  void add(const char* name, FindingStatus status, std::string detail) {
    findings_.push_back({.name = name, .status = status, .detail = std::move(detail)});
  }

  void kernel() {
    struct utsname names {};
    const bool known = ::uname(&names) == 0;
    add("kernel", FindingStatus::used,
        known ? fmt::format("{} {}", names.sysname, names.release) : "it does not tell its name");
  }

  // Leases and commits run on the monotonic clock; the wall clock only ends sessions with a ttl.
  void clock() {
    timespec resolution{}, wall{};
    ::clock_getres(CLOCK_MONOTONIC, &resolution);
    ::clock_gettime(CLOCK_REALTIME, &wall);
    const auto resolution_ns = resolution.tv_sec * 1'000'000'000L + resolution.tv_nsec;
    std::error_code error;
    const auto written =
        std::filesystem::last_write_time(options_.directory + "/store.meta", error);
    const auto now = std::filesystem::file_time_type::clock::now();
    if (!error && written > now) {
      const auto ahead = std::chrono::duration<double>(written - now).count();
      return add(
          "clock", FindingStatus::warning,
          fmt::format("the wall clock lies {} before the store's last write: it was set back. "
                      "Nothing but the ttl of sessions uses it; they stay longer",
                      pretty_duration(ahead)));
    }
    if (resolution_ns > 1'000'000) {
      return add("clock", FindingStatus::warning,
                 fmt::format("the monotonic clock ticks every {} ns: latencies below that are not "
                             "measured",
                             resolution_ns));
    }
    add("clock", FindingStatus::used, fmt::format("monotonic, resolution {} ns", resolution_ns));
  }

  void checksum() {
    // XXH3 of nothing, as its specification gives it.
    const bool good = checksum64({}) == 0x2d06800538d394c2ULL;
    add("checksums", good ? FindingStatus::used : FindingStatus::failed,
        good ? fmt::format("XXH3 by {}; names are SHA-256, so there is no seed to agree on",
                           checksum_kernel_name())
             : "XXH3 computes wrong sums on this processor");
  }

  void directory() {
    if (options_.filesystem == "tmpfs") {
      add("directory", FindingStatus::warning,
          fmt::format("{} is on tmpfs: nothing in it survives a reboot, and it takes RAM",
                      directory_));
    } else if (options_.filesystem == "nfs") {
      add("directory", FindingStatus::warning,
          fmt::format(
              "{} is on NFS: whether a sync reaches a disk is up to its server; a cold tier "
              "belongs on a local disk",
              directory_));
    } else {
      add("directory", FindingStatus::used,
          fmt::format("{} ({})", options_.directory, options_.filesystem));
    }
    direct_io();
  }

  // Writes a page past the page cache and reads it back.
  void direct_io() {
    const std::string path = directory_ + "/" + kSelfTestName;
    auto file = disk_.open(path, {.write = true, .create = true, .direct = true});
    if (!file) {
      return add("direct I/O", FindingStatus::failed,
                 fmt::format("nothing can be written in {}: {}", directory_, file.error().what));
    }
    const auto outcome = round_trip(**file);
    const bool direct = (*file)->direct();
    const IoAlignment alignment = (*file)->alignment();
    file->reset();
    static_cast<void>(disk_.remove(path));
    if (!outcome) return add("direct I/O", FindingStatus::failed, outcome.error().what);
    if (direct) {
      return add("direct I/O", FindingStatus::used,
                 fmt::format("O_DIRECT; memory aligned to {}, offsets to {}", alignment.memory,
                             alignment.offset));
    }
    const auto notes = disk_.notes();
    add("direct I/O", FindingStatus::unavailable,
        notes.empty() ? "buffered I/O instead" : notes.front());
  }

  static Result<void> round_trip(File& file) {
    TIERCEL_TRY(const auto arena, Arena::create({.bytes = 2 * kPage, .huge_pages = false}));
    TIERCEL_TRY(const auto page, arena->take(kPage));
    TIERCEL_TRY(const auto back, arena->take(kPage));
    for (std::size_t i = 0; i < kPage; ++i) page[i] = static_cast<std::byte>(i * 31 >> 3);
    TIERCEL_TRY_VOID(file.allocate(kPage));
    TIERCEL_TRY_VOID(file.write(0, page));
    TIERCEL_TRY_VOID(file.sync());
    TIERCEL_TRY_VOID(file.read(0, back));
    if (!std::ranges::equal(page, back))
      return fail(Errc::io, fmt::format("{}: what was written comes back changed", file.path()));
    return {};
  }

  void ring() {
    const auto queue = disk_.make_queue({});
    if (!queue) return add("ring", FindingStatus::failed, queue.error().what);
    const bool ring = (*queue)->fallback_reason().empty();
    add("ring", ring ? FindingStatus::used : FindingStatus::unavailable,
        ring ? (*queue)->engine_name()
             : fmt::format("{} instead: {}", (*queue)->engine_name(), (*queue)->fallback_reason()));
  }

  void space() {
    const auto space = disk_.space(directory_);
    if (!space) return add("free space", FindingStatus::failed, space.error().what);
    const std::uint64_t have = space->free_bytes + options_.reusable_bytes;
    const bool enough = have >= options_.cold_bytes;
    add("free space", enough ? FindingStatus::used : FindingStatus::failed,
        fmt::format(
            "{} of {} free{}; cold.bytes is {}{}", pretty_byte_size(space->free_bytes),
            pretty_byte_size(space->total_bytes),
            options_.reusable_bytes == 0
                ? ""
                : fmt::format(", {} in the store", pretty_byte_size(options_.reusable_bytes)),
            pretty_byte_size(options_.cold_bytes),
            enough ? "" : ": make room, or make cold.bytes smaller"));
  }

  void quota() {
#if defined(SYS_quotactl_fd)
    dqblk limits{};
    const int descriptor = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const long outcome = descriptor < 0
                             ? -1
                             : ::syscall(SYS_quotactl_fd, descriptor, QCMD(Q_GETQUOTA, USRQUOTA),
                                         ::getuid(), &limits);
    const int os_errno = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (outcome == 0 && limits.dqb_bhardlimit > 0) {
      const std::uint64_t hard = limits.dqb_bhardlimit * kKiB;
      const std::uint64_t left = hard > limits.dqb_curspace ? hard - limits.dqb_curspace : 0;
      const bool enough = left + options_.reusable_bytes >= options_.cold_bytes;
      return add(
          "quota", enough ? FindingStatus::used : FindingStatus::failed,
          fmt::format("{} left of {}{}", pretty_byte_size(left), pretty_byte_size(hard),
                      enough ? "" : ": less than cold.bytes; what does not fit is not cached"));
    }
    if (outcome == 0) return add("quota", FindingStatus::used, "none set for this user");
    return add("quota", FindingStatus::unavailable,
               fmt::format("none told by this file system ({}); one that is hit all the same costs "
                           "stores, nothing that is stored",
                           std::strerror(os_errno)));
#else
    add("quota", FindingStatus::unavailable, "this build cannot ask for it");
#endif
  }

  void open_files() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const std::uint64_t needed =
        kFilesBesideSegments +
        (options_.segment_bytes == 0 ? 0 : options_.cold_bytes / options_.segment_bytes);
    const bool enough = needed <= limit.rlim_cur;
    add("open files", enough ? FindingStatus::used : FindingStatus::failed,
        fmt::format("{} segments keep as many files open; the limit is {} (hard {}){}",
                    needed - kFilesBesideSegments, limit.rlim_cur, limit.rlim_max,
                    enough ? "" : ": raise it (ulimit -n), or make cold.segment_bytes larger"));
  }

  void huge_pages() {
    const auto arena = Arena::create({.bytes = kArenaProbe});
    if (!arena) return add("huge pages", FindingStatus::failed, arena.error().what);
    const ArenaReport& report = (*arena)->report();
    const bool huge = report.pages != PageKind::small;
    add("huge pages", huge ? FindingStatus::used : FindingStatus::unavailable,
        fmt::format("{} pages{}{}", page_kind_name(report.pages),
                    report.reason.empty() ? "" : "; nothing better: ", report.reason));
  }

  void memory() {
    std::uint64_t available = meminfo("MemAvailable:");
    std::string who = "this machine";
    std::ifstream file(options_.root + "/sys/fs/cgroup/memory.max");
    std::uint64_t limit = 0;
    if (file >> limit && limit < available) {
      available = limit;
      who = "the control group";
    }
    const bool enough = options_.memory_bytes <= available;
    add("memory", enough ? FindingStatus::used : FindingStatus::failed,
        fmt::format("{} to be had from {}; the tiers take {}{}", pretty_byte_size(available), who,
                    pretty_byte_size(options_.memory_bytes),
                    enough ? "" : ": make hot.bytes or warm.bytes smaller"));
  }

  std::uint64_t meminfo(const std::string& wanted) const {
    std::ifstream file(options_.root + "/proc/meminfo");
    std::string name, unit;
    for (std::uint64_t kib = 0; file >> name >> kib && std::getline(file, unit);) {
      if (name == wanted) return kib * kKiB;
    }
    return 0;
  }

  void memlock() {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    add("memlock", FindingStatus::unavailable,
        fmt::format("limit {}; no buffers are registered with the ring, so nothing is locked",
                    limit.rlim_cur == RLIM_INFINITY ? "none" : pretty_byte_size(limit.rlim_cur)));
  }

  bool exists(const char* path) const { return std::filesystem::exists(options_.root + path); }

  void devices() {
    const bool gpu = exists("/dev/nvidia0") || exists("/dev/kfd");
    add("GPU", FindingStatus::unavailable,
        gpu ? "there is one; this build moves no blocks to it: hot is hot(host), in host memory"
            : "no /dev/nvidia0 and no /dev/kfd: hot is hot(host), in host memory");
    add("GPUDirect Storage", FindingStatus::unavailable,
        exists("/proc/driver/nvidia-fs") ? "nvidia-fs is loaded; this build does not use it"
                                         : "no /proc/driver/nvidia-fs");
    std::error_code ignored;
    const bool rdma = exists("/sys/class/infiniband") &&
                      !std::filesystem::is_empty(options_.root + "/sys/class/infiniband", ignored);
    add("RDMA", FindingStatus::unavailable,
        rdma ? "there is a device; this build does not use it"
             : "no device in /sys/class/infiniband");
  }

  Disk& disk_;
  const SelfTestOptions& options_;
  const std::string directory_;
  std::vector<Finding> findings_;
};

}  // namespace

const char* finding_status_name(FindingStatus status) {
  switch (status) {
    case FindingStatus::used:
      return "used";
    case FindingStatus::unavailable:
      return "not available";
    case FindingStatus::warning:
      return "warning";
    case FindingStatus::failed:
      return "failed";
  }
  return "?";
}

std::vector<Finding> self_test(Disk& disk, const SelfTestOptions& options) {
  return SelfTest(disk, options).run();
}

}  // namespace tiercel
