#include "io/sim_disk_state.h"

namespace tiercel {

SimFile::SimFile(std::shared_ptr<SimState> state, SimHandle handle, bool direct)
    : state_(std::move(state)), handle_(std::move(handle)), direct_(direct) {
  const MutexLock lock(state_->mutex);
  if (handle_.generation == state_->generation) state_->open_handle(*handle_.node);
}

SimFile::~SimFile() {
  const MutexLock lock(state_->mutex);
  if (handle_.generation == state_->generation) state_->close_handle(*handle_.node);
}

Result<FileStatus> SimFile::status() const {
  const MutexLock lock(state_->mutex);
  TIERCEL_TRY_VOID(state_->check_power("stat", handle_.path, handle_.generation));
  const SimImage& image = handle_.node->content.now();
  return FileStatus{.bytes = image.bytes(), .allocated_bytes = image.allocated_bytes()};
}

Result<void> SimFile::allocate(std::uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  return state_->allocate(handle_, bytes);
}

Result<void> SimFile::truncate(std::uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  return state_->truncate(handle_, bytes);
}

Result<void> SimFile::read(std::uint64_t offset, std::span<std::byte> memory) {
  return now({.type = IoType::read, .offset = offset, .pieces = {{memory.data(), memory.size()}}});
}

Result<void> SimFile::write(std::uint64_t offset, std::span<const std::byte> memory) {
  // Only read from.
  auto* const data = const_cast<std::byte*>(memory.data());
  return now({.type = IoType::write, .offset = offset, .pieces = {{data, memory.size()}}});
}

Result<void> SimFile::sync() { return now({.type = IoType::sync}); }

Result<void> SimFile::now(IoRequest request) {
  std::uint64_t bytes = 0;
  for (const IoPiece& piece : request.pieces) bytes += piece.bytes;
  const MutexLock lock(state_->mutex);
  SimTransfer call{.request = std::move(request), .handle = handle_, .sequence = state_->sequence};
  if (state_->bytes_per_second != 0) {
    const std::int64_t due_ns = state_->pace(bytes);
    state_->clock->advance_ns(due_ns - state_->clock->now_ns());
  }
  return state_->carry_out(call);
}

}  // namespace tiercel
