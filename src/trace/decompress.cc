// gzip by zlib, which verifies CRC and length of each member; zstd by its own library, which
// verifies the checksum where a frame has one. Both in constant memory: 32 KiB windows, and at most
// 128 MiB for zstd.
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "trace/byte_source.h"
#include "trace/limits.h"

namespace tiercel {
namespace {

constexpr std::size_t kInputBytes =
    std::size_t{128} << 10;  // Compressed bytes held; large enough for one read each.

// zstd --long=27 is what archives of traces are made with; a frame that wants more is refused, so a
// hostile header cannot take gigabytes.
constexpr int kZstdWindowLogMax = 27;

constexpr const char* kFetchAgain =
    "; the file is truncated or damaged: fetch it again and compare its checksum";

// The compressed side, common to both: a buffer that is refilled when the decoder has used it up.
class Input {
 public:
  explicit Input(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), buffer_(kInputBytes) {}

  Result<std::span<std::byte>> refill() {
    TIERCEL_TRY(const std::size_t count, source_->read(buffer_));
    return std::span(buffer_).first(count);
  }
  const std::string& name() const { return source_->name(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> source) : input_(std::move(source)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~GzipSource() override {
    if (ready_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (!ready_) return fail(Errc::no_space, name() + ": no memory to inflate gzip");
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        TIERCEL_TRY(const auto bytes, input_.refill());
        if (bytes.empty()) {
          if (between_members_) return 0;
          return fail(Errc::corrupt, name() + ": gzip data ends in the middle" + kFetchAgain);
        }
        stream_.next_in = reinterpret_cast<Bytef*>(bytes.data());
        stream_.avail_in = static_cast<uInt>(bytes.size());
      }
      between_members_ = false;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {  // CRC and length agreed; another member may follow.
        between_members_ = true;
        inflateReset(&stream_);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return fail(Errc::corrupt, name() + ": gzip data is damaged (" +
                                       (stream_.msg != nullptr ? stream_.msg : "unknown error") +
                                       ")" + kFetchAgain);
      }
    }
    return wanted - stream_.avail_out;
  }
  const std::string& name() const override { return input_.name(); }

 private:
  Input input_;
  z_stream stream_{};
  bool ready_ = false;
  bool between_members_ = false;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> source)
      : input_(std::move(source)), stream_(ZSTD_createDStream()) {
    if (stream_ != nullptr)
      ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (stream_ == nullptr) return fail(Errc::no_space, name() + ": no memory to inflate zstd");
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos == 0) {
      if (pending_.pos == pending_.size && !may_hold_output_) {
        TIERCEL_TRY(const auto bytes, input_.refill());
        if (bytes.empty()) {
          if (between_frames_) return 0;
          return fail(Errc::corrupt, name() + ": zstd data ends in the middle" + kFetchAgain);
        }
        pending_ = ZSTD_inBuffer{bytes.data(), bytes.size(), 0};
      }
      const std::size_t status = ZSTD_decompressStream(stream_.get(), &output, &pending_);
      if (ZSTD_isError(status) != 0) {
        return fail(Errc::corrupt, name() + ": zstd data is damaged (" + ZSTD_getErrorName(status) +
                                       ")" + kFetchAgain);
      }
      between_frames_ = status == 0;
      may_hold_output_ = output.pos == output.size && !between_frames_;
    }
    return output.pos;
  }
  const std::string& name() const override { return input_.name(); }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  Input input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  ZSTD_inBuffer pending_{nullptr, 0, 0};
  bool may_hold_output_ =
      false;  // The last call filled `out`, so the decoder may have more without new input.
  bool between_frames_ = false;
};

// Stops a stream that inflates without end.
class LimitedSource final : public ByteSource {
 public:
  explicit LimitedSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    TIERCEL_TRY(const std::size_t count, source_->read(out));
    total_ += count;
    if (total_ > kTraceBytesMax) {
      return fail(Errc::invalid, name() + ": more than " + std::to_string(kTraceBytesMax >> 30) +
                                     " GiB of text after decompression; split the trace");
    }
    return count;
  }
  const std::string& name() const override { return source_->name(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_decompressed(std::unique_ptr<ByteSource> source) {
  std::array<char, 6> head;
  TIERCEL_TRY(const std::size_t head_bytes, read_full(*source, head));
  const std::string_view magic(head.data(), head_bytes);
  const bool gzip = magic.starts_with("\x1f\x8b");
  const bool zstd = magic.starts_with("\x28\xb5\x2f\xfd");
  const char* other = magic.starts_with(
                          "\xfd"
                          "7zXZ")
                          ? "xz"
                      : magic.starts_with("BZh")        ? "bzip2"
                      : magic.starts_with("PK\x03\x04") ? "zip"
                                                        : nullptr;
  if (other != nullptr) {
    return fail(Errc::invalid, source->name() + ": is compressed with " + other +
                                   "; unpack it, or use gzip or zstd instead");
  }
  source = prepend_source(std::string(magic), std::move(source));
  if (gzip) source = std::make_unique<GzipSource>(std::move(source));
  if (zstd) source = std::make_unique<ZstdSource>(std::move(source));
  return std::unique_ptr<ByteSource>(std::make_unique<LimitedSource>(std::move(source)));
}

}  // namespace tiercel
