// A disk in memory that loses power, lies, tears and fills up: for tests that run the real code above io/disk.h.
//
// Shape   Files and directories by absolute path, "/" is there from the start. Bytes are kept by pages of 4 KiB: a reserved
//         segment costs nothing until it is written; what was never written reads as zeros.
// Two     What the process sees, and what is durable. A write, an allocate or a truncate becomes durable with a sync of the
//   images  file that was submitted after it completed; a name (create, rename, remove, make directory) with a sync of its
//         directory, whatever was synced of the file. A rename inside one directory is one change, as every journaling file
//         system has it; across two, each directory's sync covers its own half.
// Steps   Whatever changes the disk (a completed write, a sync, an allocate, a truncate, a create, a rename, a remove, a
//         make directory) is numbered from 1. cut_power_after(n): step n is the last; from then on everything fails with
//         EIO ("the power is off"). What a queue had in flight at that moment counts as written and not synced.
// Restart restart(seed, mode) makes what the next boot finds: what was durable, and of what was not: see LossMode. Handles,
//         locks and queues of before stay dead. Steps are counted anew, so the power can be cut again during a recovery.
// Queue   Requests complete in an order of the seed, a few at a time, never more than the depth at once; wait() never sleeps.
//         A sync covers the writes that completed before it was submitted, and no others.
// Faults  add_fault() for what an operation says and does, flip() and the like for what happens behind its back; a sync that
//         failed takes what it covered out of the reach of later ones, as Linux does (it may or may not be on the disk).
// Locks   As flock: two opens of one path exclude each other within the process as well; a restart frees them.
// Pace    set_pace(): transfers move a ManualClock, one after the other, as a disk of so many bytes a second would.
// Direct  Files opened direct ask for `alignment` and refuse other requests (EINVAL).
// Threads Any; one mutex. From one thread everything is decided by the seed, so a failure repeats.
// Bounds  The log keeps the first kSimLogMax steps.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "io/disk.h"

namespace tiercel {

class SimState;

// What becomes of that which no sync covered.
enum class LossMode : std::uint8_t {
  keep,  // All of it is there: the cache of the disk was written back in time.
  drop,  // None of it.
  // Each sector of 512 bytes (or each page of 4096, a coin per file decides) has some prefix of the writes it saw, on its
  // own: a write is torn, and a later one may have landed where an earlier one did not.
  torn,
  reorder,  // Each write is there whole or not at all, whatever came of those before it.
};
// torn and reorder also toss for the length (and reservation) of each file, old or new, and for each change of a name; the
// changes of one name stay in their order.
inline constexpr LossMode kLossModes[] = {LossMode::keep, LossMode::drop, LossMode::torn,
                                          LossMode::reorder};
const char* loss_mode_name(LossMode mode);

enum class SimOp : std::uint8_t {
  read,
  write,
  sync,
  allocate,
  truncate,
  open,  // Of what is there; no step.
  create,
  rename,
  remove,
  make_directory,
};
const char* sim_op_name(SimOp op);

struct SimStep {
  std::uint64_t number = 0;
  SimOp op = SimOp::write;
  std::string path;
  std::uint64_t offset = 0, bytes = 0;
};
inline constexpr std::size_t kSimLogMax = 1U << 18;

inline constexpr std::uint64_t kForever = ~std::uint64_t{0};

// What goes wrong, by kind of operation, path and count. Examples:
//   an error once        {.op = SimOp::read, .path_part = "segment-"}
//   a disk that is ill   {.op = SimOp::write, .times = kForever}
//   full amid a batch    {.op = SimOp::write, .skip = 3, .times = 2, .os_errno = ENOSPC}
//   short, told as done  {.op = SimOp::write, .os_errno = 0, .bytes_done = 4096}
//   a sync that lies     {.op = SimOp::sync, .times = kForever, .os_errno = 0}
struct SimFault {
  SimOp op = SimOp::write;
  std::string path_part = {};   // Only where the path contains it.
  std::uint64_t from_step = 0;  // Only once so many steps were taken.
  std::uint64_t skip = 0;       // So many operations that fit pass first.
  std::uint64_t times = 1;      // So many are hit.
  int os_errno = EIO;           // 0: reads, writes and syncs say that they succeeded.
  std::uint64_t bytes_done =
      0;  // Of a read or a write: the part at its start that happens all the same.
};

struct SimDiskOptions {
  std::uint64_t seed = 1;
  std::uint64_t total_bytes = 1024 * kGiB;
  std::uint64_t quota_bytes = 0;  // Where given, what may be taken (EDQUOT beyond).
  bool quota_told = false;        // space() knows of the quota: many file systems do not tell.
  bool direct = true;             // False: files are buffered whatever is asked.
  IoAlignment alignment = {.memory = 4096, .offset = 4096};
};

class SimDisk final : public Disk {
 public:
  explicit SimDisk(const SimDiskOptions& options = {});
  ~SimDisk() override;  // Handles may outlive it.

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Result<std::unique_ptr<File>> open_directory(const std::string& path) override;
  Result<void> make_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;  // Of files.
  Result<void> remove(const std::string& path) override;
  Result<DiskSpace> space(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path, const std::string& note) override;
  Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) override;
  Result<std::unique_ptr<IoQueue>> make_queue(const IoQueueOptions& options) override;
  std::vector<std::string> notes() const override;

  // Power.
  void cut_power_after(std::uint64_t step);  // At once where so many steps were taken.
  void cut_power();
  bool powered() const;
  void restart(std::uint64_t seed, LossMode mode);  // Cuts the power first where it is on.
  // The same as a disk of its own; this one stays as it is. Options are kept; faults, read-only paths and pace are not.
  std::unique_ptr<SimDisk> restarted(std::uint64_t seed, LossMode mode) const;

  // What the next boot would find if the power went off at this very step.
  using Image = std::function<std::unique_ptr<SimDisk>(std::uint64_t seed, LossMode mode)>;
  // Called at the end of each step: asks for images of this disk, but must not call it. Empty: nobody watches.
  void watch_steps(std::function<void(std::uint64_t step, const Image& image)> watcher);

  // Faults. All of them outlast a restart.
  void add_fault(SimFault fault);
  void clear_faults();
  void set_limits(std::uint64_t total_bytes, std::uint64_t quota_bytes);  // As in the options.
  void set_read_only(const std::string& path, bool on);  // All below it: changes end in EROFS.
  void set_pace(std::uint64_t bytes_per_second, ManualClock* clock);  // 0: no pace.

  // Behind the back of whoever uses it, in both images. Require that the path is there.
  void flip(const std::string& path, std::uint64_t offset, unsigned bit);
  void cut_file(const std::string& path, std::uint64_t bytes);
  void remove_tree(const std::string& path);  // What is open in it goes on without a name.

  // What a test looks at.
  std::uint64_t steps() const;
  std::vector<SimStep> log() const;
  std::string describe_step(std::uint64_t step) const;           // "step 17: write /a/b 4096+8192".
  std::uint64_t allocated_bytes(const std::string& path) const;  // Of all files below, as du.
  std::vector<std::string> files() const;                        // Sorted.

 private:
  explicit SimDisk(std::shared_ptr<SimState> state);
  // The caller holds the mutex of `state`, which only sim_disk_state.h could say.
  static std::unique_ptr<SimDisk> next_boot(const SimState& state, std::uint64_t seed,
                                            LossMode mode)
      TIERCEL_THREAD_ATTRIBUTE(no_thread_safety_analysis);

  const std::shared_ptr<SimState> state_;  // Shared with its handles; the last one frees it.
};

}  // namespace tiercel
