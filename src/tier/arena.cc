#include "tier/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "base/byte_size.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kHugePageBytes = 2 * kMiB;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The word in brackets of a sysfs switch: "always [madvise] never" -> "madvise".
std::string chosen(const std::string& switches) {
  const std::size_t open = switches.find('['), close = switches.find(']');
  return open == std::string::npos || close == std::string::npos
             ? "absent"
             : switches.substr(open + 1, close - open - 1);
}

struct Choice {
  PageKind pages = PageKind::small;
  std::string reason;
};

// What this machine is set up for, before anything is mapped. `hugetlb_error`: why reserved huge pages were not to be had; empty
// before they were tried.
Choice choose_pages(const ArenaOptions& options, std::uint64_t bytes,
                    const std::string& hugetlb_error) {
  if (!options.huge_pages) return {PageKind::small, "huge pages were switched off"};
  const std::string free_pages =
      first_line(options.settings + "/hugepages/hugepages-2048kB/free_hugepages");
  const std::uint64_t free_count =
      free_pages.empty() ? 0 : std::strtoull(free_pages.c_str(), nullptr, 10);
  if (hugetlb_error.empty() && free_count * kHugePageBytes >= bytes) return {PageKind::hugetlb, ""};
  std::string reason = fmt::format("hugetlb: {} of {} pages reserved and free (vm.nr_hugepages)",
                                   free_count, bytes / kHugePageBytes);
  if (!hugetlb_error.empty()) reason += ", but " + hugetlb_error;
  const std::string shmem =
      chosen(first_line(options.settings + "/transparent_hugepage/shmem_enabled"));
  if (shmem == "advise" || shmem == "always" || shmem == "within_size" || shmem == "force")
    return {PageKind::shmem_thp, reason};
  reason += fmt::format("; shmem THP: shmem_enabled is {}", shmem);
  if (options.shareable) return {PageKind::small, reason};
  const std::string anonymous =
      chosen(first_line(options.settings + "/transparent_hugepage/enabled"));
  if (anonymous == "madvise" || anonymous == "always") return {PageKind::anonymous_thp, reason};
  return {PageKind::small, reason + fmt::format("; anonymous THP: enabled is {}", anonymous)};
}

// Touches every page from several threads: one alone is bound by the kernel's clearing of pages.
bool populate(std::byte* base, std::uint64_t bytes) {
  const std::uint64_t count = std::clamp<std::uint64_t>(std::thread::hardware_concurrency(), 1, 8);
  const std::uint64_t part = align_up(bytes / count + 1, kHugePageBytes);
  std::vector<std::thread> threads;
  std::atomic<bool> good = true;
  for (std::uint64_t first = 0; first < bytes; first += part) {
    threads.emplace_back([=, &good] {
      const std::uint64_t length = std::min(part, bytes - first);
      if (::madvise(base + first, length, MADV_POPULATE_WRITE) == 0) return;
      if (errno != EINVAL) {  // ENOMEM, or EFAULT and SIGBUS to come: there is not so much memory.
        good = false;
        return;
      }
      // Before Linux 5.14: touch by hand.
      for (std::uint64_t at = 0; at < length; at += 4096)
        static_cast<volatile std::byte*>(base + first)[at] = std::byte{0};
    });
  }
  for (std::thread& thread : threads) thread.join();
  return good;
}

// How much of a mapping lies on huge pages, from /proc/self/smaps.
std::uint64_t huge_bytes_of(const std::byte* base, std::uint64_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  bool inside = false;
  std::uint64_t kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0;
    char name[32] = {};
    unsigned long long value = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      inside = from < first + bytes && to > first;
    } else if (inside && std::sscanf(line.c_str(), "%31[^:]: %llu kB", name, &value) == 2) {
      const std::string key = name;
      if (key == "AnonHugePages" || key == "ShmemPmdMapped" || key == "Shared_Hugetlb" ||
          key == "Private_Hugetlb")
        kib += value;
    }
  }
  return std::min(kib * 1024, bytes);
}

std::uint32_t new_generation() {
  std::random_device source;
  const std::uint32_t generation = source();
  return generation == 0 ? 1 : generation;
}

}  // namespace

std::uint64_t Arena::huge_bytes() const { return huge_bytes_of(base_, bytes_); }

const char* page_kind_name(PageKind kind) {
  switch (kind) {
    case PageKind::hugetlb:
      return "hugetlb";
    case PageKind::shmem_thp:
      return "shmem_thp";
    case PageKind::anonymous_thp:
      return "anonymous_thp";
    case PageKind::small:
      return "4k";
  }
  return "unknown";
}

Arena::Arena(const ArenaOptions& options, std::byte* base, std::uint64_t bytes, int descriptor)
    : id_(options.id),
      generation_(new_generation()),
      base_(base),
      bytes_(bytes),
      descriptor_(descriptor) {}

Arena::~Arena() {
  ::munmap(base_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::unique_ptr<Arena>> Arena::create(const ArenaOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t bytes = align_up(std::max<std::uint64_t>(options.bytes, 1), kHugePageBytes);
  Choice choice = choose_pages(options, bytes, "");
  auto arena = map(options, choice.pages, bytes);
  if (!arena && choice.pages == PageKind::hugetlb) {
    choice = choose_pages(options, bytes, arena.error().what);
    arena = map(options, choice.pages, bytes);
  }
  if (!arena) return arena;
  ArenaReport& report = (*arena)->report_;
  report.pages = choice.pages;
  report.reason = choice.reason;
  report.warm_up_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return arena;
}

Result<std::unique_ptr<Arena>> Arena::map(const ArenaOptions& options, PageKind pages,
                                          std::uint64_t bytes) {
  int descriptor = -1;
  void* base = MAP_FAILED;
  if (pages == PageKind::anonymous_thp) {
    // Mapped larger, then cut, so that it starts on a huge page.
    void* const wide = ::mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wide != MAP_FAILED) {
      const auto address = reinterpret_cast<std::uintptr_t>(wide);
      const std::uintptr_t aligned = align_up(address, kHugePageBytes);
      if (aligned > address) ::munmap(wide, aligned - address);
      const std::uint64_t tail = kHugePageBytes - (aligned - address);
      if (tail > 0) ::munmap(reinterpret_cast<void*>(aligned + bytes), tail);
      base = reinterpret_cast<void*>(aligned);
    }
  } else {
    descriptor =
        ::memfd_create("tiercel", MFD_CLOEXEC | (pages == PageKind::hugetlb ? MFD_HUGETLB : 0U));
    if (descriptor < 0) return fail_errno("arena: memfd_create", errno);
    if (::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
      base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
  }
  if (base == MAP_FAILED) {
    const int os_errno = errno;
    if (descriptor >= 0) ::close(descriptor);
    return fail(Errc::no_space,
                fmt::format("arena: {} are not to be had: {}", pretty_byte_size(bytes),
                            std::strerror(os_errno)),
                os_errno);
  }
  std::unique_ptr<Arena> arena(
      new Arena(options, static_cast<std::byte*>(base), bytes, descriptor));
  if (pages == PageKind::shmem_thp || pages == PageKind::anonymous_thp) {
    ::madvise(base, bytes, MADV_HUGEPAGE);
  }
  if (!populate(arena->base_, bytes)) {
    return fail(Errc::no_space, fmt::format("arena: {} do not fit into this machine's memory",
                                            pretty_byte_size(bytes)));
  }
  return arena;
}

Result<std::span<std::byte>> Arena::take(std::uint64_t bytes) {
  const std::uint64_t wanted = align_up(bytes, kArenaAlignment);
  if (wanted > free_bytes()) {
    return fail(Errc::no_space,
                fmt::format("arena: {} asked for, {} left of {}", pretty_byte_size(wanted),
                            pretty_byte_size(free_bytes()), pretty_byte_size(bytes_)));
  }
  const std::span part(base_ + taken_, bytes);
  taken_ += wanted;
  return part;
}

Handle Arena::handle(const std::byte* pointer) const {
  return {.arena = id_,
          .generation = generation_,
          .offset = static_cast<std::uint64_t>(pointer - base_)};
}

std::byte* Arena::resolve(const Handle& handle, std::uint64_t bytes) const {
  if (handle.arena != id_ || handle.generation != generation_) return nullptr;
  if (handle.offset > bytes_ || bytes > bytes_ - handle.offset) return nullptr;
  return base_ + handle.offset;
}

}  // namespace tiercel
