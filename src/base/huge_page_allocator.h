// Memory for large tables on transparent huge pages where the system gives them: the first touch of a 4 KiB page costs more than
// filling it, and a restart touches hundreds of megabytes of index at once.
//
// For vectors that are small most of the time: below kHugePagesFrom it is plain memory.
// Threads as std::allocator.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tiercel {

template <class T>
struct HugePageAllocator {
  using value_type = T;
  static constexpr std::size_t kHugePage = 2 << 20;
  static constexpr std::size_t kHugePagesFrom = 4 * kHugePage;

  HugePageAllocator() = default;
  template <class U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT: containers convert it at will.

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    const bool huge = bytes >= kHugePagesFrom;
    void* const memory =
        huge ? std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage)
             : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    if (huge) ::madvise(memory, bytes, MADV_HUGEPAGE);  // Refused: 4 KiB pages, as before.
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }

  template <class U>
  bool operator==(const HugePageAllocator<U>&) const {
    return true;
  }
};

}  // namespace tiercel
