// SimState, the part that knows names: paths, directories, locks.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "io/posix_file.h"
#include "io/sim_disk_state.h"

namespace tiercel {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

SimNodePointer make_node(bool is_directory) {
  auto node = std::make_shared<SimNode>();
  node->is_directory = is_directory;
  return node;
}

std::string note_in(const SimNode& node) {
  std::string note(std::min<std::uint64_t>(node.content.now().bytes(), 200), '\0');
  node.content.now().read(0, std::as_writable_bytes(std::span(note)));
  std::erase_if(note, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return note.empty() ? "no note" : note;
}

}  // namespace

SimNodePointer SimState::make_root() { return make_node(true); }

Result<SimNodePointer> SimState::find(const char* what, const std::string& path) const {
  SimNodePointer node = root;
  for (const std::string& name : parts_of(path)) {
    if (!node->is_directory) return posix_error(what, path, ENOTDIR);
    const auto entry = node->entries.find(name);
    if (entry == node->entries.end()) return posix_error(what, path, ENOENT);
    node = entry->second;
  }
  return node;
}

Result<std::pair<SimNodePointer, std::string>> SimState::parent_of(const char* what,
                                                                   const std::string& path) const {
  const auto parts = parts_of(path);
  if (parts.empty()) return posix_error(what, path, EISDIR);
  std::string parent;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) parent += "/" + parts[i];
  const auto found = find(what, parent);
  if (!found) return posix_error(what, path, found.error().os_errno);
  SimNodePointer node = *found;
  if (!node->is_directory) return posix_error(what, path, ENOTDIR);
  return std::pair(std::move(node), parts.back());
}

void SimState::count_space(const SimNode& node, bool more) {
  if (node.names == 0 && node.handles == 0) return;
  const std::uint64_t bytes = node.content.now().allocated_bytes();
  used_bytes = more ? used_bytes + bytes : used_bytes - bytes;
}

void SimState::open_handle(SimNode& node) {
  count_space(node, false);
  ++node.handles;
  count_space(node, true);
}

void SimState::close_handle(SimNode& node) {
  count_space(node, false);
  --node.handles;
  count_space(node, true);
}

void SimState::count_names(SimNode& node, int by) {
  count_space(node, false);
  node.names = static_cast<std::uint32_t>(static_cast<int>(node.names) + by);
  count_space(node, true);
}

void SimState::set_name(SimNode& directory, const std::string& name, SimNodePointer target) {
  if (target) count_names(*target, 1);
  if (const auto old = directory.entries.find(name); old != directory.entries.end()) {
    count_names(*old->second, -1);
    directory.entries.erase(old);
  }
  if (target) directory.entries[name] = std::move(target);
}

void SimState::change_names(std::vector<SimNameEdge> edges) {
  for (const SimNameEdge& edge : edges) set_name(*edge.directory, edge.name, edge.target);
  name_changes.push_back({.sequence = ++sequence, .edges = std::move(edges)});
}

Result<SimNodePointer> SimState::open_file(const std::string& path, bool write, bool create) {
  TIERCEL_TRY_VOID(check_power("open", path, generation));
  TIERCEL_TRY(const auto place, parent_of("open", path));
  const auto& [parent, name] = place;
  const auto entry = parent->entries.find(name);
  if (entry == parent->entries.end() && !(create && write))
    return posix_error("open", path, ENOENT);
  if (write) TIERCEL_TRY_VOID(check_writable("open", path));
  if (entry != parent->entries.end()) {
    TIERCEL_TRY_VOID(refuse_by_fault(SimOp::open, path));
    if (entry->second->is_directory)
      return fail(Errc::invalid, fmt::format("{} is not a regular file", path));
    return entry->second;
  }
  TIERCEL_TRY_VOID(refuse_by_fault(SimOp::create, path));
  SimNodePointer node = make_node(false);
  change_names({{.directory = parent, .name = name, .target = node}});
  take_step(SimOp::create, path);
  return node;
}

Result<void> SimState::make_directory(const std::string& path) {
  const char* const what = "make directory";
  TIERCEL_TRY_VOID(check_power(what, path, generation));
  std::string prefix;
  for (const std::string& name : parts_of(path)) {
    TIERCEL_TRY(const SimNodePointer parent, find(what, prefix));
    if (!parent->is_directory) return posix_error(what, path, ENOTDIR);
    const std::string parent_path = prefix.empty() ? "/" : prefix;
    prefix += "/" + name;
    if (parent->entries.contains(name)) continue;
    TIERCEL_TRY_VOID(check_writable(what, prefix));
    TIERCEL_TRY_VOID(refuse_by_fault(SimOp::make_directory, prefix));
    change_names({{.directory = parent, .name = name, .target = make_node(true)}});
    take_step(SimOp::make_directory, prefix);
    SimTransfer parent_sync{
        .request = {.type = IoType::sync},
        .handle = {.node = parent, .path = parent_path, .generation = generation},
        .sequence = sequence};
    TIERCEL_TRY_VOID(carry_out(parent_sync));
  }
  TIERCEL_TRY(const SimNodePointer made, find(what, path));
  if (!made->is_directory) return fail(Errc::invalid, fmt::format("{} is not a directory", path));
  return {};
}

Result<void> SimState::rename(const std::string& from, const std::string& to) {
  TIERCEL_TRY_VOID(check_power("rename", from, generation));
  TIERCEL_TRY(const SimNodePointer node, find("rename", from));
  TIERCEL_TRY(const auto source, parent_of("rename", from));
  TIERCEL_TRY(const auto target, parent_of("rename", to));
  const auto replaced = target.first->entries.find(target.second);
  if (node->is_directory ||
      (replaced != target.first->entries.end() && replaced->second->is_directory))
    return posix_error("rename", from, EISDIR);
  TIERCEL_TRY_VOID(check_writable("rename", from));
  TIERCEL_TRY_VOID(check_writable("rename", to));
  TIERCEL_TRY_VOID(refuse_by_fault(SimOp::rename, from));
  if (source == target) return {};
  change_names({{.directory = target.first, .name = target.second, .target = node},
                {.directory = source.first, .name = source.second, .target = nullptr}});
  take_step(SimOp::rename, from);
  return {};
}

Result<void> SimState::remove(const std::string& path) {
  TIERCEL_TRY_VOID(check_power("remove", path, generation));
  TIERCEL_TRY(const SimNodePointer node, find("remove", path));
  TIERCEL_TRY(const auto place, parent_of("remove", path));
  if (node->is_directory) return posix_error("remove", path, EISDIR);
  TIERCEL_TRY_VOID(check_writable("remove", path));
  TIERCEL_TRY_VOID(refuse_by_fault(SimOp::remove, path));
  change_names({{.directory = place.first, .name = place.second, .target = nullptr}});
  take_step(SimOp::remove, path);
  return {};
}

void SimState::drop_names_below(SimNode& directory) {
  directory.durable_entries.clear();
  while (!directory.entries.empty()) {
    const auto [name, node] = *directory.entries.begin();
    if (node->is_directory) drop_names_below(*node);
    set_name(directory, name, nullptr);
  }
  std::erase_if(name_changes, [&](SimNameChange& change) {
    std::erase_if(change.edges,
                  [&](const SimNameEdge& edge) { return edge.directory.get() == &directory; });
    return change.edges.empty();
  });
}

void SimState::remove_tree(const std::string& path) {
  const auto node = find("remove", path);
  const auto place = parent_of("remove", path);
  TIERCEL_CHECK(node && place);
  if ((*node)->is_directory) drop_names_below(**node);
  set_name(*place->first, place->second, nullptr);
  place->first->durable_entries.erase(place->second);
  std::erase_if(name_changes, [&](SimNameChange& change) {
    std::erase_if(change.edges, [&](const SimNameEdge& edge) {
      return edge.directory == place->first && edge.name == place->second;
    });
    return change.edges.empty();
  });
}

void SimState::sync_names(SimNode& directory, std::uint64_t up_to) {
  for (SimNameChange& change : name_changes) {
    if (change.sequence > up_to) break;
    const bool kept = !change.doubtful || rng_.chance(0.5);
    std::erase_if(change.edges, [&](const SimNameEdge& edge) {
      if (edge.directory.get() != &directory) return false;
      if (!kept) return true;
      if (edge.target) {
        directory.durable_entries[edge.name] = edge.target;
      } else {
        directory.durable_entries.erase(edge.name);
      }
      return true;
    });
  }
  std::erase_if(name_changes, [](const SimNameChange& change) { return change.edges.empty(); });
}

void SimState::names_failed(SimNode& directory, std::uint64_t up_to) {
  for (SimNameChange& change : name_changes) {
    const bool touched = std::ranges::any_of(
        change.edges, [&](const SimNameEdge& edge) { return edge.directory.get() == &directory; });
    if (touched && change.sequence <= up_to) change.doubtful = true;
  }
}

Result<SimNodePointer> SimState::lock(const std::string& path, const std::string* note) {
  const bool exclusive = note != nullptr;
  TIERCEL_TRY(const SimNodePointer node, open_file(path, exclusive, exclusive));
  if (node->exclusive_lock || (exclusive && node->shared_locks > 0)) {
    return fail(
        Errc::busy,
        fmt::format("{} is held by another process (last writer: {})", path, note_in(*node)),
        EWOULDBLOCK);
  }
  if (!exclusive) {
    ++node->shared_locks;
    return node;
  }
  const SimHandle handle{.node = node, .path = path, .generation = generation, .writable = true};
  std::string text = *note;
  SimTransfer write;
  write.handle = handle;
  write.request.type = IoType::write;
  write.request.pieces.push_back({reinterpret_cast<std::byte*>(text.data()), text.size()});
  TIERCEL_TRY_VOID(truncate(handle, 0));
  TIERCEL_TRY_VOID(carry_out(write));
  node->exclusive_lock = true;
  return node;
}

}  // namespace tiercel
