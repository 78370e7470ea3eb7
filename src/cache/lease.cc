#include "cache/lease.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace tiercel {
namespace {

// Field 22 of /proc/self/stat. The second field is the name in parentheses and may hold anything, so
// counting starts behind the last ')'. 0 where the system does not tell.
std::uint64_t process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  try {
    return std::stoull(field);
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace

LeaseOwner this_process() { return {.pid = ::getpid(), .process_start = process_start()}; }

LeaseId LeaseTable::take(LeaseOwner owner, std::int64_t now_ns, std::int64_t deadline_ns,
                         std::vector<Pin> pins) {
  const LeaseId id = next_++;
  leases_[id] = {.owner = std::move(owner),
                 .taken_ns = now_ns,
                 .deadline_ns = deadline_ns,
                 .pins = std::move(pins)};
  by_deadline_.emplace(deadline_ns, id);
  return id;
}

std::vector<Pin> LeaseTable::release(LeaseId lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return {};
  std::vector<Pin> pins = std::move(found->second.pins);
  by_deadline_.erase({found->second.deadline_ns, lease});
  leases_.erase(found);
  return pins;
}

std::vector<Pin> LeaseTable::expire(std::int64_t now_ns) {
  std::vector<Pin> pins;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now_ns) {
    const LeaseId id = by_deadline_.begin()->second;
    const Lease& lease = leases_.at(id);
    ++leaked_;
    if (leaked_names_.size() == kLeakedNames) leaked_names_.erase(leaked_names_.begin());
    leaked_names_.push_back(fmt::format(
        "{}{}pid {} (started at {}): {} blocks, not released within {:.3f} s", lease.owner.name,
        lease.owner.name.empty() ? "" : ", ", lease.owner.pid, lease.owner.process_start,
        lease.pins.size(), static_cast<double>(lease.deadline_ns - lease.taken_ns) * 1e-9));
    const std::vector<Pin> own = release(id);
    pins.insert(pins.end(), own.begin(), own.end());
  }
  return pins;
}

std::vector<Pin> LeaseTable::release_all() {
  std::vector<Pin> pins;
  while (!leases_.empty()) {
    const std::vector<Pin> own = release(leases_.begin()->first);
    pins.insert(pins.end(), own.begin(), own.end());
  }
  return pins;
}

std::optional<std::int64_t> LeaseTable::next_deadline_ns() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

}  // namespace tiercel
