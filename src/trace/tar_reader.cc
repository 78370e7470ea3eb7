#include "trace/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

namespace tiercel {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

}  // namespace

struct TarReader::Archive {
  std::unique_ptr<ByteSource> source;
  std::vector<std::byte> chunk = std::vector<std::byte>(kChunkBytes);
  std::optional<Error> source_error;  // What the source said, for whoever sees libarchive give up.
  struct archive* handle = archive_read_new();
  bool opened = false;

  ~Archive() { archive_read_free(handle); }

  static la_ssize_t read(struct archive* handle, void* self_pointer, const void** out) {
    auto* self = static_cast<Archive*>(self_pointer);
    auto count = self->source->read(self->chunk);
    if (!count) {
      self->source_error = count.error();
      archive_set_error(handle, EIO, "source");
      return -1;
    }
    *out = self->chunk.data();
    return static_cast<la_ssize_t>(*count);
  }

  Error error() const {
    if (source_error) return *source_error;
    const char* text = archive_error_string(handle);
    return fail(Errc::corrupt, source->name() + ": tar is damaged (" +
                                   (text != nullptr ? text : "unknown error") +
                                   "); fetch it again and compare its checksum");
  }
};

TarReader::TarReader(std::unique_ptr<ByteSource> source) : archive_(std::make_unique<Archive>()) {
  archive_->source = std::move(source);
}

TarReader::~TarReader() = default;

Result<bool> TarReader::next(std::string& name) {
  Archive& archive = *archive_;
  if (archive.handle == nullptr)
    return fail(Errc::no_space, archive.source->name() + ": no memory to read tar");
  if (!archive.opened) {
    archive_read_support_format_tar(archive.handle);
    if (archive_read_open(archive.handle, &archive, nullptr, Archive::read, nullptr) !=
        ARCHIVE_OK) {
      return archive.error();
    }
    archive.opened = true;
  }
  for (;;) {
    struct archive_entry* entry = nullptr;
    const int status = archive_read_next_header(archive.handle, &entry);
    if (archive.source_error) return archive.error();
    if (status == ARCHIVE_EOF) return false;
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return archive.error();
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* path = archive_entry_pathname(entry);
    name = path != nullptr ? path : "?";
    return true;
  }
}

Result<bool> TarReader::read_all(std::string& text, std::size_t bytes_max) {
  text.clear();
  for (;;) {
    const std::size_t have = text.size();
    if (have > bytes_max) return false;
    text.resize(have + kChunkBytes);
    const la_ssize_t count = archive_read_data(archive_->handle, text.data() + have, kChunkBytes);
    if (count < 0 || archive_->source_error) return archive_->error();
    text.resize(have + static_cast<std::size_t>(count));
    if (count == 0) return true;
  }
}

}  // namespace tiercel
