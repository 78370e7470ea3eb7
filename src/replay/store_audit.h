// Opens a store that was killed, or lost its power, and holds it to what it had told (replay/store_fill.h).
//
// Law     Told as synced and not announced as evicting since: the block is there. Told as suspended: the session is there, in
//         that version or a later one, with every block, its tokens and its state. Whatever the store would deliver, told or
//         not, has the bytes that follow from its key.
// Threads one thread.
// Source  docs/durability.md
#pragma once

#include <map>
#include <string>
#include <vector>

#include "replay/store_fill.h"

namespace tiercel {

// What a fill had told when it ended: the last word about each block counts.
class AckedLog final : public FillListener {
 public:
  void on_phase(FillPhase) override {}
  void on_synced(const Key& key) override { blocks_[key] = true; }
  void on_evicting(const Key& key) override { blocks_[key] = false; }
  void on_suspended(const std::string& name) override { ++sessions_[name]; }

  // The lines that `tiercel store fill` prints, of one run or several in a row. A last line without its end was cut off with
  // the process and does not count. Errors: invalid  names the line.
  static Result<AckedLog> parse(const std::string& text);

  const std::map<Key, bool>& blocks() const { return blocks_; }  // False: announced as evicting.
  const std::map<std::string, std::uint64_t>& sessions() const { return sessions_; }  // How often.

 private:
  std::map<Key, bool> blocks_;
  std::map<std::string, std::uint64_t> sessions_;
};

// Of the blocks that were put between two ages: how many are back. The age of a block is how many prompts came after its own.
struct BackByAge {
  std::uint64_t prompts_from = 0, prompts_to = 0;
  std::uint64_t put = 0;
  std::uint64_t evicted = 0;  // Announced.
  std::uint64_t back = 0;
};

struct StoreAudit {
  std::uint64_t acked = 0, found = 0, missing = 0, evicted = 0;
  std::uint64_t checked = 0;      // Blocks read and compared, told or not, those of sessions too.
  std::uint64_t wrong_bytes = 0;  // In what was delivered.
  std::uint64_t refused = 0;      // Not told, and an error when read: never delivered.
  std::uint64_t sessions_acked = 0, sessions_resumed = 0;
  std::uint64_t physical_bytes = 0;  // Of all files, as the disk counts them.
  std::uint64_t recovered_torn = 0;
  double open_s = 0;
  double first_hit_s =
      0;  // From the start of the open to the first block delivered; 0: there was none.
  std::vector<BackByAge> back_by_age;   // Youngest first.
  std::vector<std::string> complaints;  // The first few things that are not as they should be.

  bool holds() const {
    return missing == 0 && wrong_bytes == 0 && sessions_resumed == sessions_acked;
  }
};

// Of `options`, directory, seed, clock and recovery_threads count; sizes are those the store was made with.
// by_age: takes as long again on a small store, for the names of thousands of prompts are computed.
Result<StoreAudit> audit_store(Disk& disk, const FillOptions& options, const AckedLog& acked,
                               bool by_age = false);

}  // namespace tiercel
