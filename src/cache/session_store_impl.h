// Behind SessionStore: the log's account, the tier that carries it out, the manifests.
//
// Turn    One caller at a time has the store: it alone touches tier, buffers and files. What it knows is under mutex_, which is
//         not held while the disk is waited for, so that those who only ask are answered at once.
// Files   session_open.cc (start), session_suspend.cc, session_compact.cc (room), session_read.cc, session_store.cc (the rest).
// Threads Any.
// Source  docs/adr/0006-sessions.md
#pragma once

#include <map>

#include "base/mutex.h"
#include "cache/session_io.h"
#include "cache/session_log.h"
#include "cache/session_store.h"

namespace tiercel {

// The key of a piece of tokens or state: a hash of its kind and bytes, so equal pieces are one record.
Key piece_key(std::uint16_t kind, std::span<const std::byte> bytes);

class SessionStore::Impl {
 public:
  static Result<std::unique_ptr<Impl>> open(Disk& disk, const Options& options);

  Result<SessionManifest> suspend(const SessionDraft& draft, std::int64_t deadline_ns);
  Result<std::vector<SessionManifest>> list();
  Result<SessionManifest> find(const std::string& name);
  bool holds(const Key& key);
  std::uint64_t missing(const SessionManifest& manifest);
  Result<void> read(const SessionManifest& manifest, std::span<const std::size_t> which,
                    std::span<const ScatterList> memory, std::int64_t deadline_ns,
                    const std::function<void(std::size_t, Outcome, const Error&)>& on_block);
  Result<std::vector<std::byte>> read_pieces(const SessionManifest& manifest,
                                             std::span<const SessionPiece> pieces,
                                             std::uint16_t kind, std::int64_t deadline_ns);
  Result<void> read_records(
      std::span<const Key> keys,
      const std::function<Result<void>(std::span<const std::byte>)>& on_record);
  static Result<std::uint64_t> memory_bytes(Disk& disk, const Options& options);
  Result<void> forget(const std::string& name);
  Result<std::vector<std::string>> expire(std::int64_t now_unix_s);
  SessionStoreStats stats();
  LinkEstimate link() const { return tier_->link(); }
  std::vector<std::string> notes();

 private:
  // Held by the caller whose turn it is.
  class Turn {
   public:
    explicit Turn(Impl* store) : store_(store) {}
    Turn(Turn&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    Impl* store_;
  };
  struct Session {
    SessionManifest manifest;
    std::uint64_t disk_bytes = 0;  // Of its file, as the share is charged.
  };
  // What a suspend has to write: a block of the draft, or a piece of its tokens or state.
  struct Part {
    RecordHead head;
    std::uint64_t bytes = 0;
    std::optional<std::size_t> block;         // Of the draft.
    std::span<const std::byte> content = {};  // Of a piece.
  };
  // Of a suspend: what is still to be written, in records, and by when (0: whenever).
  struct Ahead {
    const std::string& name;
    std::int64_t deadline_ns = 0;
    std::uint64_t bytes = 0;
  };
  struct Wanted {
    Key key;
    std::uint64_t bytes = 0;
    ScatterList memory;
  };
  using OnEnd = std::function<void(std::size_t, Outcome, const Error&)>;

  Impl(Disk& disk, const Options& options, std::unique_ptr<NvmeTier> tier, SegmentGeometry geometry,
       std::uint64_t manifest_share)
      : disk_(disk),
        options_(options),
        manifest_share_(manifest_share),
        tier_(std::move(tier)),
        log_(geometry, tier_->superblock().record_bytes_max) {}

  // session_open.cc
  struct Shape;
  static Result<Shape> plan(Disk& disk, const Options& options);
  Result<void> restore(const Recovered& recovered);
  void take_back(const std::vector<std::pair<Key, Place>>& earlier);
  Result<void> read_manifest(const std::string& file_name);
  Result<void> set_aside(const std::string& file_name, const Error& why);

  // session_suspend.cc
  Result<SessionManifest> describe(const SessionDraft& draft, std::vector<Part>& parts) const;
  void cut(std::span<const std::byte> content, std::uint16_t kind,
           std::vector<SessionPiece>& pieces, std::vector<Part>& parts) const;
  Result<void> check_room(const SessionManifest& manifest, std::span<const Part> parts);
  Result<void> write_parts(const SessionDraft& draft, std::span<const Part> parts,
                           std::int64_t deadline_ns, std::vector<Key>& held,
                           std::vector<Key>& written);
  Result<void> write_all(const SessionDraft& draft, std::span<const Part> parts,
                         std::int64_t deadline_ns, std::vector<Key>& held,
                         std::vector<Key>& written);
  Result<void> write_part(const SessionDraft& draft, const Part& part, const Ahead& ahead,
                          std::vector<Key>& written);
  std::vector<Part> lost_of(std::span<const Part> parts);
  Result<void> check_time(const Ahead& ahead) const;
  Result<void> make_durable(const SessionManifest& manifest);
  Result<void> commit();
  Result<void> replace_manifest(const SessionManifest& manifest);
  void roll_back(const std::vector<Key>& held, const std::vector<Key>& written);
  std::uint64_t charge_of(const std::string& file_name, std::uint64_t bytes);

  // session_compact.cc
  Result<void> make_room(const Ahead& ahead, std::uint64_t record_bytes);
  Result<bool> compact();
  Result<bool> move_all(const std::vector<std::pair<Key, Place>>& alive);
  Result<bool> move_some(std::span<const std::pair<Key, Place>> alive);
  bool place_anew(SessionIo::Record& record, std::vector<std::uint32_t>& full);
  void sweep();
  Error no_room(std::uint64_t needed_bytes) REQUIRES(mutex_);

  // session_read.cc
  struct Loading;
  Result<void> stream(const SessionManifest& manifest, std::span<const Wanted> wanted,
                      std::int64_t deadline_ns, const OnEnd& on_end);
  std::optional<Op> begin_load(const SessionManifest& manifest, const Wanted& wanted,
                               Loading& loading);
  void end_load(const Wanted& wanted, Completion completion, Loading& loading);
  static void end_late(Loading& loading);

  // session_store.cc
  Result<Turn> take_turn(std::int64_t deadline_ns);
  Result<void> check_writable();
  void fail_for_good(const Error& why);
  Result<void> remove_files(std::span<const std::string> names);
  void drop(const SessionManifest& manifest) REQUIRES(mutex_);
  void count_disk();
  void note(std::string sentence);
  std::string path_of(const std::string& file_name) const {
    return options_.directory + "/" + file_name;
  }

  Disk& disk_;
  const Options options_;
  const std::uint64_t manifest_share_;

  // Of the one whose turn it is.
  std::unique_ptr<NvmeTier> tier_;
  std::unique_ptr<SessionIo> io_;
  std::vector<std::unique_ptr<std::byte[]>> abandoned_;  // The disk may still write to it.

  Mutex turn_mutex_;
  ConditionVariable turn_over_;
  bool taken_ GUARDED_BY(turn_mutex_) = false;

  Mutex mutex_;
  SessionLog log_ GUARDED_BY(mutex_);
  std::map<std::string, Session> sessions_ GUARDED_BY(mutex_);
  std::uint64_t manifest_bytes_ GUARDED_BY(mutex_) =
      0;  // Charged to the share, damaged ones included.
  std::optional<Error> failed_ GUARDED_BY(mutex_);
  SessionStoreStats stats_ GUARDED_BY(mutex_);
  std::vector<std::string> notes_ GUARDED_BY(mutex_);
};

}  // namespace tiercel
