// Leases: pins with an owner and a deadline. There are no pins without a deadline.
//
// A lease ends by release(), by its deadline, or by reap() once its owner's process is gone, whichever comes first; the others
// find nothing left to do. One that was not released has leaked: its owner forgot it or died. It is counted, and the last few are
// remembered by name.
// Pure   No clock: times come in. The table does not unpin; it hands the pins back to whoever holds the core.
// Cost   O(log leases) each; remembers at most kLeakedNames leaks.
// Threads one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/core.h"

namespace tiercel {

using LeaseId = std::uint64_t;  // 0 is never given.

// Who holds it. The start time tells a process from a later one that got the same number.
struct LeaseOwner {
  std::int64_t pid = 0;
  std::uint64_t process_start = 0;  // As the system counts it (field 22 of /proc/PID/stat).
  std::string name = {};            // What the caller calls itself, may be empty.
};

// This process, as an owner, and another one; a start of 0 where there is none such.
LeaseOwner this_process();
LeaseOwner process_of(std::int64_t pid);

// False where its process has ended, also where another one has its number now, or nobody has waited for it yet. True where the
// system does not tell: the deadline ends its leases anyhow. `proc`: where the system tells.
bool is_alive(const LeaseOwner& owner, const std::string& proc = "/proc");

class LeaseTable {
 public:
  static constexpr std::size_t kLeakedNames = 16;

  LeaseId take(LeaseOwner owner, std::int64_t now_ns, std::int64_t deadline_ns,
               std::vector<Pin> pins);

  // The pins of the lease, to be unpinned; empty where it has ended.
  std::vector<Pin> release(LeaseId lease);

  // The pins of every lease whose deadline is at or before `now_ns`.
  std::vector<Pin> expire(std::int64_t now_ns);

  // The pins of every lease whose owner is dead. Each process is asked for once; `passed_over` is not.
  std::vector<Pin> reap(const LeaseOwner& passed_over,
                        const std::function<bool(const LeaseOwner&)>& alive);

  // At close: the pins of all that are left. These are not leaks.
  std::vector<Pin> release_all();

  std::optional<std::int64_t> next_deadline_ns() const;
  std::uint64_t held() const { return leases_.size(); }
  std::uint64_t leaked() const { return leaked_; }
  const std::vector<std::string>& leaked_names() const { return leaked_names_; }

 private:
  struct Lease {
    LeaseOwner owner;
    std::int64_t taken_ns = 0;
    std::int64_t deadline_ns = 0;
    std::vector<Pin> pins;
  };

  void leak(LeaseId id, const std::string& how, std::vector<Pin>& pins);

  std::map<LeaseId, Lease> leases_;
  std::set<std::pair<std::int64_t, LeaseId>> by_deadline_;
  LeaseId next_ = 1;
  std::uint64_t leaked_ = 0;
  std::vector<std::string> leaked_names_;  // Oldest first.
};

}  // namespace tiercel
