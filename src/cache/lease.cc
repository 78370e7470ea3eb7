#include "cache/lease.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

namespace tiercel {
namespace {

struct ProcessStatus {
  char state = 0;
  std::uint64_t start = 0;
};

// Fields 3 and 22 of PROC/PID/stat. The second field is the name in parentheses and may hold anything, so counting starts behind
// the last ')'. nullopt where the system does not tell.
std::optional<ProcessStatus> status_of(const std::string& proc, const std::string& pid) {
  std::ifstream file(proc + "/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStatus status;
  std::string field;
  for (int number = 3; number < 22 && fields >> field; ++number) {
    if (number == 3) status.state = field[0];
  }
  if (!(fields >> status.start)) return std::nullopt;
  return status;
}

std::uint64_t start_of(const std::string& pid) {
  const auto status = status_of("/proc", pid);
  return status ? status->start : 0;
}

}  // namespace

LeaseOwner this_process() { return {.pid = ::getpid(), .process_start = start_of("self")}; }

LeaseOwner process_of(std::int64_t pid) {
  return {.pid = pid, .process_start = start_of(std::to_string(pid))};
}

bool is_alive(const LeaseOwner& owner, const std::string& proc) {
  if (::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH) return false;
  const auto status = status_of(proc, std::to_string(owner.pid));
  if (!status) return true;
  return status->start == owner.process_start && status->state != 'Z' && status->state != 'X';
}

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
    leak(id,
         fmt::format("not released within {:.3f} s",
                     static_cast<double>(lease.deadline_ns - lease.taken_ns) * 1e-9),
         pins);
  }
  return pins;
}

std::vector<Pin> LeaseTable::reap(const LeaseOwner& passed_over,
                                  const std::function<bool(const LeaseOwner&)>& alive) {
  using Process = std::pair<std::int64_t, std::uint64_t>;
  std::map<Process, bool> asked;
  std::vector<LeaseId> dead;
  for (const auto& [id, lease] : leases_) {
    const Process process{lease.owner.pid, lease.owner.process_start};
    if (process == Process{passed_over.pid, passed_over.process_start}) continue;
    const auto [entry, fresh] = asked.try_emplace(process, true);
    if (fresh) entry->second = alive(lease.owner);
    if (!entry->second) dead.push_back(id);
  }
  std::vector<Pin> pins;
  for (const LeaseId id : dead) leak(id, "its process has ended", pins);
  return pins;
}

void LeaseTable::leak(LeaseId id, const std::string& how, std::vector<Pin>& pins) {
  const Lease& lease = leases_.at(id);
  ++leaked_;
  if (leaked_names_.size() == kLeakedNames) leaked_names_.erase(leaked_names_.begin());
  leaked_names_.push_back(fmt::format("{}{}pid {} (started at {}): {} blocks, {}", lease.owner.name,
                                      lease.owner.name.empty() ? "" : ", ", lease.owner.pid,
                                      lease.owner.process_start, lease.pins.size(), how));
  const std::vector<Pin> own = release(id);
  pins.insert(pins.end(), own.begin(), own.end());
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
