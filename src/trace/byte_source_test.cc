// Files and compression: what cannot be a trace is refused at once, damage is noticed, bombs stay small.
#include "trace/byte_source.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "trace/limits.h"
#include "trace/read_trace.h"

namespace tiercel {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

Result<std::string> inflate_all(const std::string& bytes, std::size_t step = 1000) {
  TIERCEL_TRY(auto source, open_decompressed(memory_source("m", bytes)));
  std::string all, part(step, '\0');
  for (;;) {
    TIERCEL_TRY(const std::size_t count, source->read(std::as_writable_bytes(std::span(part))));
    if (count == 0) return all;
    all.append(part, 0, count);
  }
}

std::string noise(std::size_t bytes) {
  Rng rng(5);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(rng.next());
  return text;
}

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tiercel-trace-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kLine =
    "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 7, \"hash_ids\": [4]}\n";

TEST(Decompress, PlainGzipAndZstdGiveTheSameBytesAtAnyReadSize) {
  const std::string text = noise(300'000) + std::string(2'000'000, 'a') + noise(10);
  for (const std::size_t step : {std::size_t{1} << 12, std::size_t{77'777}, std::size_t{4} << 20}) {
    EXPECT_EQ(*inflate_all(text, step), text);
    EXPECT_EQ(*inflate_all(gzip(text), step), text);
    EXPECT_EQ(*inflate_all(zstd(text), step), text);
  }
  EXPECT_EQ(*inflate_all(gzip("ab") + gzip("") + gzip("c")), "abc") << "all members of a gzip file";
  EXPECT_EQ(*inflate_all(zstd("ab") + zstd("") + zstd("c")), "abc") << "all frames of a zstd file";
}

TEST(Decompress, EveryTruncationIsCorrupt) {
  for (const std::string& whole : {gzip(noise(700)), zstd(noise(700))}) {
    for (std::size_t length = 6; length < whole.size(); ++length) {
      const auto text = inflate_all(whole.substr(0, length));
      ASSERT_FALSE(text) << length;
      EXPECT_EQ(text.error().code, Errc::corrupt);
      EXPECT_NE(text.error().what.find("fetch it again"), std::string::npos);
    }
  }
}

TEST(Decompress, AWrongCrcOrLengthIsCorrupt) {
  const std::string whole = gzip(noise(700));
  for (std::size_t from_end = 1; from_end <= 8; ++from_end) {
    std::string damaged = whole;
    damaged[whole.size() - from_end] ^= 1;
    const auto text = inflate_all(damaged);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, Errc::corrupt);
    EXPECT_NE(text.error().what.find("check"), std::string::npos) << text.error().what;
  }
  EXPECT_FALSE(inflate_all(whole + "trailing garbage"));
}

TEST(Decompress, OtherCompressionsAreNamed) {
  const std::pair<const char*, std::string> magics[] = {{"xz", std::string("\xfd"
                                                                           "7zXZ\0",
                                                                           6)},
                                                        {"bzip2", "BZh91AY"},
                                                        {"zip", "PK\x03\x04zip"}};
  for (const auto& [word, magic] : magics) {
    const auto text = inflate_all(magic);
    ASSERT_FALSE(text);
    EXPECT_NE(text.error().what.find(word), std::string::npos);
    EXPECT_NE(text.error().what.find("use gzip or zstd"), std::string::npos);
  }
}

TEST(Decompress, AZstdFrameThatWantsAHugeWindowIsRefused) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 30);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  std::string out(1000, '\0');
  ZSTD_inBuffer input{"abc", 3, 0};
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  ZSTD_compressStream2(context, &output, &input,
                       ZSTD_e_flush);  // Unknown length: the frame states its window.
  ZSTD_compressStream2(context, &output, &input, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  out.resize(output.pos);
  const auto text = inflate_all(out);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::corrupt);
}

TEST(TraceFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TempDir dir;
  const auto expect_refused = [](const std::string& path, const char* phrase) {
    const auto trace = read_trace(path, {.skip_bad = true});
    ASSERT_FALSE(trace) << path;
    EXPECT_EQ(trace.error().code, Errc::invalid);
    EXPECT_EQ(trace.error().what.find(path), 0U) << trace.error().what;
    EXPECT_NE(trace.error().what.find(phrase), std::string::npos) << trace.error().what;
  };
  ASSERT_EQ(::mkfifo(dir.path("fifo").c_str(), 0600), 0);
  expect_refused(dir.path("fifo"), "is a FIFO");  // Without a writer: opening it must not wait.
  expect_refused(dir.path(""), "is a directory");
  expect_refused("/dev/null", "is a device");
  expect_refused(dir.path("absent"), "cannot be opened: No such file");
  expect_refused(dir.file("empty", ""), "is empty (0 bytes)");
  expect_refused(dir.file("empty.gz", gzip("")), "is empty after decompression");
  expect_refused(dir.file("empty.zst", zstd("")), "is empty after decompression");
}

TEST(TraceFile, PlainAndCompressedAreReadAlike) {
  const TempDir dir;
  for (const std::string& path :
       {dir.file("a", kLine), dir.file("b", gzip(kLine)), dir.file("c", zstd(kLine))}) {
    const auto trace = read_trace(path, {});
    ASSERT_TRUE(trace) << trace.error().what;
    EXPECT_EQ(trace->requests.size(), 1U);
  }
}

TEST(TraceFile, DamageInTheMiddleOfATraceIsAnErrorEvenWhenSkipping) {
  const TempDir dir;
  std::string text;
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    text += "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 7, \"hash_ids\": [" +
            std::to_string(rng.next() >> 1) + "]}\n";
  }
  const std::string whole = gzip(text);
  const auto truncated =
      read_trace(dir.file("t.gz", whole.substr(0, whole.size() / 2)), {.skip_bad = true});
  ASSERT_FALSE(truncated);
  EXPECT_EQ(truncated.error().code, Errc::corrupt);
  EXPECT_NE(truncated.error().what.find("gzip data ends in the middle"), std::string::npos);
}

// Writes `repeats` times `piece` through gzip, never holding it.
void write_bomb(const std::string& path, const std::string& head, const std::string& piece,
                int repeats) {
  gzFile file = gzopen(path.c_str(), "wb1");
  gzwrite(file, head.data(), static_cast<unsigned>(head.size()));
  for (int i = 0; i < repeats; ++i)
    gzwrite(file, piece.data(), static_cast<unsigned>(piece.size()));
  gzclose(file);
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

TEST(TraceFile, BombsEndInOneErrorWithoutTakingMemory) {
  const TempDir dir;
  const std::string piece(1 << 20, '[');
  write_bomb(dir.path("line.gz"), kLine, piece, 400);
  write_bomb(dir.path("ends.gz"), kLine, std::string(1 << 20, '\n'), 40);
  const std::uint64_t before = peak_rss_bytes();
  const auto line = read_trace(dir.path("line.gz"), {});
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().what.find(":2: is longer than 16 MiB"), std::string::npos)
      << line.error().what;
  const auto skipped = read_trace(dir.path("line.gz"), {.skip_bad = true});
  ASSERT_TRUE(skipped) << skipped.error().what;
  EXPECT_EQ(skipped->skipped_lines, 1U);
  const auto ends = read_trace(dir.path("ends.gz"), {.skip_bad = true});
  ASSERT_FALSE(ends);
  EXPECT_NE(ends.error().what.find("more than 20000000 lines"), std::string::npos)
      << ends.error().what;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(peak_rss_bytes() - before, std::uint64_t{100} << 20);  // 400 MiB of text went by.
#else
  (void)before;
#endif
}

}  // namespace
}  // namespace tiercel
