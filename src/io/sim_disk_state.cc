#include "io/sim_disk_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "io/posix_file.h"

namespace tiercel {
namespace {

std::uint64_t length_of(const IoRequest& request) {
  std::uint64_t bytes = 0;
  for (const IoPiece& piece : request.pieces) bytes += piece.bytes;
  return bytes;
}

std::vector<std::byte> gather(const IoRequest& request) {
  std::vector<std::byte> bytes;
  bytes.reserve(length_of(request));
  for (const IoPiece& piece : request.pieces)
    bytes.insert(bytes.end(), piece.data, piece.data + piece.bytes);
  return bytes;
}

// Direct I/O takes whole blocks in memory of its alignment.
bool is_aligned(const SimTransfer& transfer) {
  const IoAlignment& alignment = transfer.handle.alignment;
  return transfer.request.offset % alignment.offset == 0 &&
         std::ranges::all_of(transfer.request.pieces, [&](const IoPiece& piece) {
           return reinterpret_cast<std::uintptr_t>(piece.data) % alignment.memory == 0 &&
                  piece.bytes % alignment.offset == 0;
         });
}

bool lies_below(const std::string& path, const std::string& directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

bool may_lie(SimOp op) { return op == SimOp::read || op == SimOp::write || op == SimOp::sync; }

}  // namespace

std::uint64_t allocated_below(const SimNode& node) {
  std::uint64_t bytes = node.content.now().allocated_bytes();
  for (const auto& [name, entry] : node.entries) bytes += allocated_below(*entry);
  return bytes;
}

Result<void> SimState::check_power(const char* what, const std::string& path,
                                   std::uint64_t of_generation) const {
  if (!powered) return fail(Errc::io, fmt::format("{} {}: the power is off", what, path), EIO);
  if (of_generation != generation) {
    return fail(Errc::io,
                fmt::format("{} {}: the handle is from before the power was cut", what, path), EIO);
  }
  return {};
}

Result<void> SimState::check_writable(const char* what, const std::string& path) const {
  const bool read_only = std::ranges::any_of(
      read_only_paths, [&](const std::string& directory) { return lies_below(path, directory); });
  if (read_only) return posix_error(what, path, EROFS);
  return {};
}

std::optional<SimFault> SimState::next_fault(SimOp op, const std::string& path) {
  std::optional<SimFault> hit;
  for (SimFault& fault : faults) {
    if (fault.op != op || fault.times == 0 || steps < fault.from_step ||
        path.find(fault.path_part) == std::string::npos) {
      continue;
    }
    if (fault.skip > 0) {
      --fault.skip;
      continue;
    }
    if (hit) continue;
    if (fault.times != kForever) --fault.times;
    hit = fault;
  }
  return hit;
}

Result<void> SimState::refuse_by_fault(SimOp op, const std::string& path) {
  const auto fault = next_fault(op, path);
  if (!fault) return {};
  TIERCEL_CHECK(fault->os_errno != 0 || may_lie(op));
  return posix_error(sim_op_name(op), path, fault->os_errno);
}

void SimState::take_step(SimOp op, const std::string& path, std::uint64_t offset,
                         std::uint64_t bytes) {
  ++steps;
  if (log.size() < kSimLogMax)
    log.push_back({.number = steps, .op = op, .path = path, .offset = offset, .bytes = bytes});
  if (steps >= last_step) cut_power();
  if (on_step) on_step(steps);
}

std::vector<SimLateWrite> SimState::writes_in_flight() const {
  std::vector<SimLateWrite> writes;
  for (const auto& [queue, transfers] : in_flight) {
    for (const SimTransfer& transfer : transfers) {
      if (transfer.request.type != IoType::write || transfer.handle.generation != generation)
        continue;
      writes.push_back({.node = transfer.handle.node,
                        .offset = transfer.request.offset,
                        .bytes = gather(transfer.request)});
    }
  }
  return writes;
}

void SimState::cut_power() {
  if (!powered) return;
  powered = false;
  late_writes = writes_in_flight();  // Now: their memory is the caller's again once they failed.
}

void SimState::boot(SimNodePointer found) {
  root = std::move(found);
  name_changes.clear();
  late_writes.clear();
  ++generation;
  powered = true;
  steps = 0;
  last_step = kForever;
  log.clear();
  used_bytes = allocated_below(*root);
}

std::uint64_t SimState::free_bytes(bool with_quota) const {
  std::uint64_t limit = options.total_bytes;
  if (with_quota && options.quota_bytes != 0) limit = std::min(limit, options.quota_bytes);
  return limit - std::min(limit, used_bytes);
}

std::int64_t SimState::pace(std::uint64_t bytes) {
  const auto took_ns = static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 /
                                                 static_cast<double>(bytes_per_second));
  busy_until_ns = std::max(busy_until_ns, clock->now_ns()) + took_ns;
  return busy_until_ns;
}

Result<void> SimState::make_room(const char* what, const std::string& path, std::uint64_t bytes) {
  if (bytes <= free_bytes(true)) return {};
  return posix_error(what, path, bytes <= free_bytes(false) ? EDQUOT : ENOSPC);
}

Result<void> SimState::carry_out(SimTransfer& transfer) {
  const SimOp op = transfer.request.type == IoType::read    ? SimOp::read
                   : transfer.request.type == IoType::write ? SimOp::write
                                                            : SimOp::sync;
  TIERCEL_TRY_VOID(check_power(sim_op_name(op), transfer.handle.path, transfer.handle.generation));
  if (op == SimOp::sync) return sync(transfer);
  if (transfer.handle.node->is_directory)
    return posix_error(sim_op_name(op), transfer.handle.path, EISDIR);
  if (!is_aligned(transfer)) return posix_error(sim_op_name(op), transfer.handle.path, EINVAL);
  return op == SimOp::read ? read(transfer) : write(transfer);
}

Result<void> SimState::read(SimTransfer& transfer) {
  const auto fault = next_fault(SimOp::read, transfer.handle.path);
  std::uint64_t wanted = length_of(transfer.request);
  if (fault) wanted = std::min(wanted, fault->bytes_done);
  const SimImage& image = transfer.handle.node->content.now();
  std::uint64_t offset = transfer.request.offset;
  for (const IoPiece& piece : transfer.request.pieces) {
    const std::uint64_t there = image.bytes() - std::min(image.bytes(), offset);
    const std::uint64_t part = std::min({piece.bytes, there, wanted});
    image.read(offset, {piece.data, part});
    offset += part;
    wanted -= part;
    if (part < piece.bytes) break;
  }
  if (fault && fault->os_errno != 0)
    return posix_error("read", transfer.handle.path, fault->os_errno);
  if (wanted > 0) return early_end(transfer.handle.path, offset);
  return {};
}

Result<void> SimState::write(SimTransfer& transfer) {
  const std::string& path = transfer.handle.path;
  if (!transfer.handle.writable) return posix_error("write", path, EBADF);
  TIERCEL_TRY_VOID(check_writable("write", path));
  const auto fault = next_fault(SimOp::write, path);
  const std::vector<std::byte> bytes = gather(transfer.request);
  std::span<const std::byte> landing(bytes);
  Result<void> outcome;
  if (fault) {
    landing = landing.first(std::min<std::uint64_t>(landing.size(), fault->bytes_done));
    if (fault->os_errno != 0) outcome = posix_error("write", path, fault->os_errno);
  }
  SimContent& content = transfer.handle.node->content;
  const std::uint64_t offset = transfer.request.offset;
  std::uint64_t missing = content.now().pages_missing(offset, landing.size());
  if (missing > 0) {
    if (const auto room = make_room("write", path, missing * kSimPageBytes); !room) {
      outcome = room.error();
      while (missing * kSimPageBytes > free_bytes(true)) {  // What fits does land.
        landing = landing.first((landing.size() - 1) / kSimPageBytes * kSimPageBytes);
        missing = content.now().pages_missing(offset, landing.size());
      }
    }
  }
  if (landing.empty()) return outcome;
  count_space(*transfer.handle.node, false);
  content.write(++sequence, offset, landing);
  count_space(*transfer.handle.node, true);
  take_step(SimOp::write, path, offset, landing.size());
  return outcome;
}

Result<void> SimState::sync(SimTransfer& transfer) {
  const auto fault = next_fault(SimOp::sync, transfer.handle.path);
  SimNode& node = *transfer.handle.node;
  if (fault && fault->os_errno != 0) {
    node.content.sync_failed(transfer.sequence);
    names_failed(node, transfer.sequence);
    return posix_error("sync", transfer.handle.path, fault->os_errno);
  }
  if (!fault) {
    node.content.sync(transfer.sequence, rng_);
    sync_names(node, transfer.sequence);
  }
  take_step(SimOp::sync, transfer.handle.path);
  return {};
}

Result<void> SimState::allocate(const SimHandle& handle, std::uint64_t bytes) {
  TIERCEL_TRY_VOID(check_power("allocate", handle.path, handle.generation));
  if (!handle.writable) return posix_error("allocate", handle.path, EBADF);
  TIERCEL_TRY_VOID(check_writable("allocate", handle.path));
  TIERCEL_TRY_VOID(refuse_by_fault(SimOp::allocate, handle.path));
  SimContent& content = handle.node->content;
  const std::uint64_t missing = content.now().pages_missing(0, bytes);
  TIERCEL_TRY_VOID(make_room("allocate", handle.path, missing * kSimPageBytes));
  count_space(*handle.node, false);
  content.reserve(++sequence, bytes);
  count_space(*handle.node, true);
  take_step(SimOp::allocate, handle.path, 0, bytes);
  return {};
}

Result<void> SimState::truncate(const SimHandle& handle, std::uint64_t bytes) {
  TIERCEL_TRY_VOID(check_power("truncate", handle.path, handle.generation));
  if (!handle.writable) return posix_error("truncate", handle.path, EBADF);
  TIERCEL_TRY_VOID(check_writable("truncate", handle.path));
  TIERCEL_TRY_VOID(refuse_by_fault(SimOp::truncate, handle.path));
  count_space(*handle.node, false);
  handle.node->content.truncate(++sequence, bytes);
  count_space(*handle.node, true);
  take_step(SimOp::truncate, handle.path, 0, bytes);
  return {};
}

void SimState::cut_file(SimNode& node, std::uint64_t bytes) {
  count_space(node, false);
  node.content.cut(bytes);
  count_space(node, true);
}

}  // namespace tiercel
