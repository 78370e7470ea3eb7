#include "io/sim_disk.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "io/sim_disk_state.h"

namespace tiercel {
namespace {

class SimLock final : public FileLock {
 public:
  SimLock(std::shared_ptr<SimState> state, SimNodePointer node, bool exclusive)
      : state_(std::move(state)), node_(std::move(node)), exclusive_(exclusive) {}
  // After a restart the node is nobody's any more, and so is its lock.
  ~SimLock() override {
    const MutexLock lock(state_->mutex);
    if (exclusive_) {
      node_->exclusive_lock = false;
    } else {
      --node_->shared_locks;
    }
  }
  SimLock(const SimLock&) = delete;
  SimLock& operator=(const SimLock&) = delete;

 private:
  const std::shared_ptr<SimState> state_;
  const SimNodePointer node_;
  const bool exclusive_;
};

void list_below(const SimNode& node, const std::string& path, std::vector<std::string>& paths) {
  for (const auto& [name, entry] : node.entries) {
    if (entry->is_directory) {
      list_below(*entry, path + "/" + name, paths);
    } else {
      paths.push_back(path + "/" + name);
    }
  }
}

}  // namespace

const char* loss_mode_name(LossMode mode) {
  constexpr const char* kNames[] = {"keep", "drop", "torn", "reorder"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* sim_op_name(SimOp op) {
  constexpr const char* kNames[] = {"read", "write",  "sync",   "allocate", "truncate",
                                    "open", "create", "rename", "remove",   "make directory"};
  return kNames[static_cast<std::size_t>(op)];
}

SimDisk::SimDisk(const SimDiskOptions& options) : state_(std::make_shared<SimState>(options)) {}
SimDisk::SimDisk(std::shared_ptr<SimState> state) : state_(std::move(state)) {}
SimDisk::~SimDisk() = default;

Result<std::unique_ptr<File>> SimDisk::open(const std::string& path, OpenMode mode) {
  SimHandle handle{.path = path, .writable = mode.write};
  bool direct = false;
  {
    const MutexLock lock(state_->mutex);
    TIERCEL_TRY(handle.node, state_->open_file(path, mode.write, mode.create));
    direct = mode.direct && state_->options.direct;
    if (direct) handle.alignment = state_->options.alignment;
    handle.generation = state_->generation;
  }
  return std::make_unique<SimFile>(state_, std::move(handle), direct);
}

Result<std::unique_ptr<File>> SimDisk::open_directory(const std::string& path) {
  SimHandle handle{.path = path};
  {
    const MutexLock lock(state_->mutex);
    TIERCEL_TRY_VOID(state_->check_power("open", path, state_->generation));
    TIERCEL_TRY(handle.node, state_->find("open", path));
    if (!handle.node->is_directory) return fail_errno("open " + path, ENOTDIR);
    TIERCEL_TRY_VOID(state_->refuse_by_fault(SimOp::open, path));
    handle.generation = state_->generation;
  }
  return std::make_unique<SimFile>(state_, std::move(handle), false);
}

Result<void> SimDisk::make_directory(const std::string& path) {
  const MutexLock lock(state_->mutex);
  return state_->make_directory(path);
}

Result<std::vector<std::string>> SimDisk::list(const std::string& path) {
  const MutexLock lock(state_->mutex);
  TIERCEL_TRY_VOID(state_->check_power("list", path, state_->generation));
  TIERCEL_TRY(const SimNodePointer node, state_->find("list", path));
  if (!node->is_directory) return fail_errno("list " + path, ENOTDIR);
  std::vector<std::string> names;
  for (const auto& [name, entry] : node->entries) names.push_back(name);
  return names;
}

Result<void> SimDisk::rename(const std::string& from, const std::string& to) {
  const MutexLock lock(state_->mutex);
  return state_->rename(from, to);
}

Result<void> SimDisk::remove(const std::string& path) {
  const MutexLock lock(state_->mutex);
  return state_->remove(path);
}

Result<DiskSpace> SimDisk::space(const std::string& path) {
  const MutexLock lock(state_->mutex);
  TIERCEL_TRY_VOID(state_->check_power("space", path, state_->generation));
  TIERCEL_TRY_VOID(state_->find("space", path));
  return DiskSpace{.total_bytes = state_->options.total_bytes,
                   .free_bytes = state_->free_bytes(state_->options.quota_told)};
}

Result<std::unique_ptr<FileLock>> SimDisk::lock(const std::string& path, const std::string& note) {
  SimNodePointer node;
  {
    const MutexLock lock(state_->mutex);
    TIERCEL_TRY(node, state_->lock(path, &note));
  }
  return std::make_unique<SimLock>(state_, std::move(node), true);
}

Result<std::unique_ptr<FileLock>> SimDisk::lock_shared(const std::string& path) {
  SimNodePointer node;
  {
    const MutexLock lock(state_->mutex);
    TIERCEL_TRY(node, state_->lock(path, nullptr));
  }
  return std::make_unique<SimLock>(state_, std::move(node), false);
}

Result<std::unique_ptr<IoQueue>> SimDisk::make_queue(const IoQueueOptions& options) {
  return make_sim_queue(state_, options);
}

std::vector<std::string> SimDisk::notes() const { return {}; }

void SimDisk::cut_power_after(std::uint64_t step) {
  const MutexLock lock(state_->mutex);
  state_->last_step = step;
  if (state_->steps >= step) state_->cut_power();
}

void SimDisk::cut_power() {
  const MutexLock lock(state_->mutex);
  state_->cut_power();
}

bool SimDisk::powered() const {
  const MutexLock lock(state_->mutex);
  return state_->powered;
}

void SimDisk::restart(std::uint64_t seed, LossMode mode) {
  const MutexLock lock(state_->mutex);
  state_->cut_power();
  state_->boot(
      root_after_loss(*state_->root, state_->name_changes, state_->late_writes, seed, mode));
}

std::unique_ptr<SimDisk> SimDisk::next_boot(const SimState& state, std::uint64_t seed,
                                            LossMode mode) {
  auto next = std::make_shared<SimState>(state.options);
  auto found =
      root_after_loss(*state.root, state.name_changes,
                      state.powered ? state.writes_in_flight() : state.late_writes, seed, mode);
  {
    const MutexLock next_lock(next->mutex);
    next->boot(std::move(found));
  }
  return std::unique_ptr<SimDisk>(new SimDisk(std::move(next)));
}

std::unique_ptr<SimDisk> SimDisk::restarted(std::uint64_t seed, LossMode mode) const {
  const MutexLock lock(state_->mutex);
  return next_boot(*state_, seed, mode);
}

void SimDisk::watch_steps(std::function<void(std::uint64_t, const Image&)> watcher) {
  const MutexLock lock(state_->mutex);
  if (!watcher) {
    state_->on_step = {};
    return;
  }
  const SimState* const state = state_.get();
  const Image image = [state](std::uint64_t seed, LossMode mode) {
    return next_boot(*state, seed, mode);
  };
  state_->on_step = [watcher = std::move(watcher), image](std::uint64_t step) {
    watcher(step, image);
  };
}

void SimDisk::add_fault(SimFault fault) {
  const MutexLock lock(state_->mutex);
  state_->faults.push_back(std::move(fault));
}

void SimDisk::clear_faults() {
  const MutexLock lock(state_->mutex);
  state_->faults.clear();
}

void SimDisk::set_limits(std::uint64_t total_bytes, std::uint64_t quota_bytes) {
  const MutexLock lock(state_->mutex);
  state_->options.total_bytes = total_bytes;
  state_->options.quota_bytes = quota_bytes;
}

void SimDisk::set_read_only(const std::string& path, bool on) {
  const MutexLock lock(state_->mutex);
  std::erase(state_->read_only_paths, path);
  if (on) state_->read_only_paths.push_back(path);
}

void SimDisk::set_pace(std::uint64_t bytes_per_second, ManualClock* clock) {
  const MutexLock lock(state_->mutex);
  TIERCEL_CHECK(bytes_per_second == 0 || clock != nullptr);
  state_->bytes_per_second = bytes_per_second;
  state_->clock = clock;
}

void SimDisk::flip(const std::string& path, std::uint64_t offset, unsigned bit) {
  const MutexLock lock(state_->mutex);
  const auto node = state_->find("flip", path);
  TIERCEL_CHECK(node && bit < 8 && offset < (*node)->content.now().bytes());
  (*node)->content.flip(offset, bit);
}

void SimDisk::cut_file(const std::string& path, std::uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  const auto node = state_->find("cut", path);
  TIERCEL_CHECK(node.has_value());
  state_->cut_file(**node, bytes);
}

void SimDisk::remove_tree(const std::string& path) {
  const MutexLock lock(state_->mutex);
  state_->remove_tree(path);
}

std::uint64_t SimDisk::steps() const {
  const MutexLock lock(state_->mutex);
  return state_->steps;
}

std::vector<SimStep> SimDisk::log() const {
  const MutexLock lock(state_->mutex);
  return state_->log;
}

std::string SimDisk::describe_step(std::uint64_t step) const {
  const MutexLock lock(state_->mutex);
  if (step == 0 || step > state_->log.size()) return fmt::format("step {}", step);
  const SimStep& taken = state_->log[step - 1];
  return fmt::format("step {}: {} {} {}+{}", taken.number, sim_op_name(taken.op), taken.path,
                     taken.offset, taken.bytes);
}

std::uint64_t SimDisk::allocated_bytes(const std::string& path) const {
  const MutexLock lock(state_->mutex);
  const auto node = state_->find("measure", path);
  return node ? allocated_below(**node) : 0;
}

std::vector<std::string> SimDisk::files() const {
  const MutexLock lock(state_->mutex);
  std::vector<std::string> paths;
  list_below(*state_->root, "", paths);
  std::ranges::sort(paths);
  return paths;
}

}  // namespace tiercel
