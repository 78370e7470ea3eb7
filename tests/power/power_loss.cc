// Power loss after every write: the workload of `tiercel store fill` on a simulated disk under the real store. After each step of
// the disk (a write, a sync, a reservation, a name) what the next boot would find is opened and audited; for a sample of them
// the power is lost again after each step of that recovery.
//
//   power_loss [--prompts N] [--every N] [--again-every N] [--seed S] [--all-modes 1]
//
// Built once as it is and ctest wants it green; and once for each negative control (tests/power/CMakeLists.txt: the sync of
// data left out, the manifest written first, the checksum not compared, the epoch not compared), where ctest wants it red.
// It prints how many points were tried, and stops at the first that does not hold: "RED" and what is wrong.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "io/sim_disk.h"
#include "replay/store_audit.h"

namespace tiercel {
namespace {

struct Flags {
  std::uint64_t prompts = 180;
  std::uint64_t every = 1;
  std::uint64_t again_every = 97;
  std::uint64_t seed = 1;
  bool all_modes = false;
};

constexpr std::uint64_t kBlockBytes = 4096;  // Records of two pages.
constexpr std::uint64_t kCapacity = 7 << 20;

FillOptions fill_options(const Flags& flags, const Clock& clock) {
  return {.directory = "/store",
          .capacity_bytes = kCapacity,
          .block_bytes = kBlockBytes,
          .seed = flags.seed,
          .sync_interval_ns = 0,
          .recovery_threads = 1,
          .clock = &clock};
}

// What was told so far, and in which phase.
class Told final : public FillListener {
 public:
  void on_phase(FillPhase next) override { phase = next; }
  void on_synced(const Key& key) override { log.on_synced(key); }
  void on_evicting(const Key& key) override { log.on_evicting(key); }
  void on_suspended(const std::string& name) override { log.on_suspended(name); }

  AckedLog log;
  FillPhase phase = FillPhase::recover;
};

class PowerLoss {
 public:
  explicit PowerLoss(const Flags& flags) : flags_(flags) {}

  bool run() {
    SimDisk disk({.seed = flags_.seed});
    disk.watch_steps([&](std::uint64_t step, const SimDisk::Image& image) {
      if (red_ || step % flags_.every != 0) return;
      step_ = step;
      try_modes(image);
    });
    const auto filled = fill(disk);
    if (!red_ && !filled) turn_red("the workload itself failed: " + filled.error().what);
    report(disk.steps());
    return !red_;
  }

 private:
  Result<void> fill(SimDisk& disk) {
    TIERCEL_TRY(const auto fill, StoreFill::open(disk, fill_options(flags_, clock_), told_));
    for (std::uint64_t i = 0; i < flags_.prompts && !red_; ++i) TIERCEL_TRY_VOID(fill->step());
    TIERCEL_TRY_VOID(fill->finish());
    reclaims_ = fill->counts().reclaims;
    moved_ = fill->counts().moved;
    checkpoints_ = fill->checkpoints();
    suspends_ = fill->suspends();
    compactions_ = fill->compactions();
    return {};
  }

  // Of the four ways to lose what was not synced, at each step the two that find most, and one of the others in turn.
  void try_modes(const SimDisk::Image& image) {
    const LossMode other = step_ % 2 == 0 ? LossMode::reorder : LossMode::keep;
    for (const LossMode mode : kLossModes) {
      if (flags_.all_modes || mode == LossMode::torn || mode == LossMode::drop || mode == other)
        audit_image(image, mode);
    }
    if (step_ % flags_.again_every == 0) lose_power_again(image, kLossModes[step_ % 4]);
  }

  void audit_image(const SimDisk::Image& image, LossMode mode) {
    if (red_) return;
    const auto disk = image(step_, mode);
    ++points_[static_cast<std::size_t>(told_.phase)];
    hold(*disk, mode, "");
  }

  // The boot after a loss loses its power as well, after each of its own steps.
  void lose_power_again(const SimDisk::Image& image, LossMode mode) {
    const auto disk = image(step_, mode);
    disk->watch_steps([&](std::uint64_t step, const SimDisk::Image& second) {
      if (red_) return;
      const auto later = second(step, mode);
      ++again_;
      hold(*later, mode, ", and again after step " + std::to_string(step) + " of the recovery");
    });
    const auto audit = audit_store(*disk, fill_options(flags_, clock_), told_.log);
    if (!red_ && !audit) turn_red("recovery failed: " + audit.error().what);
  }

  void hold(SimDisk& disk, LossMode mode, const std::string& where) {
    const auto audit = audit_store(disk, fill_options(flags_, clock_), told_.log);
    const std::string place = "power lost after step " + std::to_string(step_) + " (" +
                              fill_phase_name(told_.phase) + ", unsynced: " + loss_mode_name(mode) +
                              ")" + where + ": ";
    if (!audit) return turn_red(place + audit.error().what);
    compared_ += audit->checked;
    torn_ += audit->recovered_torn;
    if (audit->physical_bytes > kCapacity)
      return turn_red(place + std::to_string(audit->physical_bytes) + " bytes on a cap of " +
                      std::to_string(kCapacity));
    if (audit->holds()) return;
    turn_red(place + std::to_string(audit->missing) + " acknowledged blocks missing, " +
             std::to_string(audit->wrong_bytes) + " wrong bytes, " +
             std::to_string(audit->sessions_acked - audit->sessions_resumed) +
             " sessions not whole; " +
             (audit->complaints.empty() ? std::string("-") : audit->complaints.front()));
  }

  void turn_red(const std::string& why) {
    if (!red_) std::printf("RED: %s\n", why.c_str());
    red_ = true;
  }

  void report(std::uint64_t steps) {
    using Number = unsigned long long;
    Number points = 0;
    for (const Number count : points_) points += count;
    std::printf("%llu points after %llu steps of the disk:", points, static_cast<Number>(steps));
    for (const FillPhase phase : {FillPhase::fill, FillPhase::reclaim, FillPhase::checkpoint,
                                  FillPhase::suspend, FillPhase::recover})
      std::printf(" %llu %s", points_[static_cast<std::size_t>(phase)], fill_phase_name(phase));
    std::printf("; %llu points within recoveries\n", static_cast<Number>(again_));
    std::printf(
        "%llu reclaims, %llu blocks moved, %llu checkpoints, %llu suspends, %llu compactions; %llu "
        "blocks compared, "
        "%llu torn ones dropped\n",
        static_cast<Number>(reclaims_), static_cast<Number>(moved_),
        static_cast<Number>(checkpoints_), static_cast<Number>(suspends_),
        static_cast<Number>(compactions_), static_cast<Number>(compared_),
        static_cast<Number>(torn_));
    if (red_) return;
    // A workload that leaves a phase out shows nothing about it.
    if (reclaims_ == 0 || moved_ == 0 || compactions_ == 0 || checkpoints_ == 0 || suspends_ == 0 ||
        again_ == 0 || torn_ == 0)
      turn_red("the workload left a phase out");
  }

  const Flags flags_;
  ManualClock clock_;
  Told told_;
  bool red_ = false;
  std::uint64_t step_ = 0;
  unsigned long long points_[5] = {};
  std::uint64_t again_ = 0, compared_ = 0, torn_ = 0;
  std::uint64_t reclaims_ = 0, moved_ = 0, checkpoints_ = 0, suspends_ = 0;
  std::uint64_t compactions_ = 0;
};

bool parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--prompts") == 0) {
      flags.prompts = value;
    } else if (std::strcmp(argv[i], "--every") == 0) {
      flags.every = value;
    } else if (std::strcmp(argv[i], "--again-every") == 0) {
      flags.again_every = value;
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      flags.seed = value;
    } else if (std::strcmp(argv[i], "--all-modes") == 0) {
      flags.all_modes = value != 0;
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && flags.every > 0 && flags.again_every > 0;
}

}  // namespace
}  // namespace tiercel

int main(int argc, char** argv) {
  tiercel::Flags flags;
  if (!tiercel::parse(argc, argv, flags)) {
    std::fprintf(
        stderr,
        "power_loss: [--prompts N] [--every N] [--again-every N] [--seed S] [--all-modes 1]\n");
    return 2;
  }
  return tiercel::PowerLoss(flags).run() ? 0 : 1;
}
