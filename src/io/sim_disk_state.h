// What a simulated disk and its handles share: the tree, power, faults, space. Everything under one mutex.
//
// Threads Methods need `mutex` held.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/sim_disk.h"
#include "io/sim_disk_content.h"

namespace tiercel {

struct SimNode;
using SimNodePointer = std::shared_ptr<SimNode>;
using SimNames = std::map<std::string, SimNodePointer>;

struct SimNode {
  bool is_directory = false;
  std::uint32_t names = 0, handles = 0;  // With neither, it takes no space.
  SimContent content;
  std::uint32_t shared_locks = 0;
  bool exclusive_lock = false;
  SimNames entries, durable_entries;  // Of a directory.
};

std::uint64_t allocated_below(const SimNode& node);

// One name of a directory gets a file, or loses it (null).
struct SimNameEdge {
  SimNodePointer directory;
  std::string name;
  SimNodePointer target;
};

struct SimNameChange {
  std::uint64_t sequence = 0;
  std::vector<SimNameEdge> edges;  // Those that no sync covered yet; kept or lost together.
  bool doubtful = false;
};

struct SimHandle {
  SimNodePointer node;
  std::string path;
  std::uint64_t generation = 0;
  bool writable = false;
  IoAlignment alignment;
};

// A request between submit and completion, or a call that is carried out at once.
struct SimTransfer {
  IoRequest request;
  SimHandle handle;
  std::uint64_t sequence = 0;  // Of a sync: the last change it covers.
  std::int64_t due_ns = 0;     // With a pace.
};

// A write that was in flight when the power was cut.
struct SimLateWrite {
  SimNodePointer node;
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

// The tree that the next boot finds, all of it durable (sim_disk_loss.cc).
SimNodePointer root_after_loss(const SimNode& root, const std::vector<SimNameChange>& name_changes,
                               const std::vector<SimLateWrite>& late_writes, std::uint64_t seed,
                               LossMode mode);

class SimState {
 public:
  explicit SimState(const SimDiskOptions& options) : options(options), rng_(options.seed) {}

  mutable Mutex mutex;

  // sim_disk_state.cc: power, steps, faults, transfers.
  Result<void> check_power(const char* what, const std::string& path,
                           std::uint64_t generation) const REQUIRES(mutex);
  Result<void> check_writable(const char* what, const std::string& path) const REQUIRES(mutex);
  std::optional<SimFault> next_fault(SimOp op, const std::string& path) REQUIRES(mutex);
  Result<void> refuse_by_fault(SimOp op, const std::string& path) REQUIRES(mutex);
  void take_step(SimOp op, const std::string& path, std::uint64_t offset = 0,
                 std::uint64_t bytes = 0) REQUIRES(mutex);
  void cut_power() REQUIRES(mutex);
  std::vector<SimLateWrite> writes_in_flight() const REQUIRES(mutex);
  void boot(SimNodePointer found) REQUIRES(mutex);
  Result<void> carry_out(SimTransfer& transfer) REQUIRES(mutex);
  Result<void> allocate(const SimHandle& handle, std::uint64_t bytes) REQUIRES(mutex);
  Result<void> truncate(const SimHandle& handle, std::uint64_t bytes) REQUIRES(mutex);
  std::uint64_t free_bytes(bool with_quota) const REQUIRES(mutex);
  std::int64_t pace(std::uint64_t bytes) REQUIRES(mutex);  // When a transfer that starts now ends.

  // sim_disk_tree.cc: names.
  Result<SimNodePointer> find(const char* what, const std::string& path) const REQUIRES(mutex);
  Result<SimNodePointer> open_file(const std::string& path, bool write, bool create)
      REQUIRES(mutex);
  Result<void> make_directory(const std::string& path) REQUIRES(mutex);
  Result<void> rename(const std::string& from, const std::string& to) REQUIRES(mutex);
  Result<void> remove(const std::string& path) REQUIRES(mutex);
  void remove_tree(const std::string& path) REQUIRES(mutex);
  void cut_file(SimNode& node, std::uint64_t bytes) REQUIRES(mutex);
  Result<SimNodePointer> lock(const std::string& path, const std::string* note) REQUIRES(mutex);
  void open_handle(SimNode& node) REQUIRES(mutex);
  void close_handle(SimNode& node) REQUIRES(mutex);
  void sync_names(SimNode& directory, std::uint64_t up_to) REQUIRES(mutex);
  void names_failed(SimNode& directory, std::uint64_t up_to) REQUIRES(mutex);

  SimDiskOptions options GUARDED_BY(mutex);
  bool powered GUARDED_BY(mutex) = true;
  std::uint64_t generation GUARDED_BY(mutex) = 0;  // Grows with each restart.
  std::uint64_t sequence GUARDED_BY(mutex) = 0;    // Of the last change.
  std::uint64_t steps GUARDED_BY(mutex) = 0;
  std::uint64_t last_step GUARDED_BY(mutex) = kForever;
  std::vector<SimStep> log GUARDED_BY(mutex);
  SimNodePointer root GUARDED_BY(mutex) = make_root();
  std::vector<SimNameChange> name_changes GUARDED_BY(mutex);  // In order of sequence.
  std::uint64_t used_bytes GUARDED_BY(mutex) = 0;
  std::vector<SimFault> faults GUARDED_BY(mutex);
  std::vector<std::string> read_only_paths GUARDED_BY(mutex);
  std::uint64_t bytes_per_second GUARDED_BY(mutex) = 0;
  ManualClock* clock GUARDED_BY(mutex) = nullptr;
  std::int64_t busy_until_ns GUARDED_BY(mutex) = 0;
  std::uint64_t queues_made GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, std::vector<SimTransfer>> in_flight GUARDED_BY(mutex);  // By queue.
  std::vector<SimLateWrite> late_writes GUARDED_BY(mutex);  // Of the last power cut.
  std::function<void(std::uint64_t)> on_step GUARDED_BY(mutex);

 private:
  static SimNodePointer make_root();
  Result<void> read(SimTransfer& transfer) REQUIRES(mutex);
  Result<void> write(SimTransfer& transfer) REQUIRES(mutex);
  Result<void> sync(SimTransfer& transfer) REQUIRES(mutex);
  Result<void> make_room(const char* what, const std::string& path, std::uint64_t bytes)
      REQUIRES(mutex);
  Result<std::pair<SimNodePointer, std::string>> parent_of(const char* what,
                                                           const std::string& path) const
      REQUIRES(mutex);
  void change_names(std::vector<SimNameEdge> edges) REQUIRES(mutex);
  void set_name(SimNode& directory, const std::string& name, SimNodePointer target) REQUIRES(mutex);
  void count_space(const SimNode& node, bool more) REQUIRES(mutex);
  void count_names(SimNode& node, int by) REQUIRES(mutex);
  void drop_names_below(SimNode& directory) REQUIRES(mutex);

  Rng rng_ GUARDED_BY(mutex);  // For what failed syncs leave behind.
};

std::unique_ptr<IoQueue> make_sim_queue(std::shared_ptr<SimState> state,
                                        const IoQueueOptions& options);

// A handle, which the queue takes its transfers from.
class SimFile final : public File {
 public:
  // Counts itself among the handles of the node.
  SimFile(std::shared_ptr<SimState> state, SimHandle handle, bool direct);
  ~SimFile() override;
  SimFile(const SimFile&) = delete;
  SimFile& operator=(const SimFile&) = delete;

  const SimHandle& handle() const { return handle_; }

  const std::string& path() const override { return handle_.path; }
  bool direct() const override { return direct_; }
  IoAlignment alignment() const override { return handle_.alignment; }
  Result<FileStatus> status() const override;
  Result<void> allocate(std::uint64_t bytes) override;
  Result<void> truncate(std::uint64_t bytes) override;
  Result<void> read(std::uint64_t offset, std::span<std::byte> memory) override;
  Result<void> write(std::uint64_t offset, std::span<const std::byte> memory) override;
  Result<void> sync() override;

 private:
  Result<void> now(IoRequest request);

  const std::shared_ptr<SimState> state_;
  const SimHandle handle_;
  const bool direct_;
};

}  // namespace tiercel
