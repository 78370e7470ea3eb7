// Records for tests and benches: bytes from a seed, in memory aligned as direct I/O wants it.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "base/random.h"
#include "kv/record.h"
#include "tier/tier.h"

namespace tiercel {

class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes, std::byte fill = std::byte{0})
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, align_up(bytes, 4096)))),
        bytes_(bytes) {
    std::fill_n(data_.get(), bytes, fill);
  }
  std::span<std::byte> span() const { return {data_.get(), bytes_}; }
  std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_;
};

struct TestRecord {
  RecordHead head;
  AlignedBytes bytes;

  Op store(const Place& place, std::uint64_t tag = 0) const {
    return {.type = OpType::store,
            .key = head.key,
            .fingerprint = head.fingerprint,
            .place = place,
            .memory = {host_piece(bytes.span())},
            .tag = tag};
  }
  Op load(const Place& place, std::span<std::byte> into, std::uint64_t tag = 0) const {
    return {.type = OpType::load,
            .key = head.key,
            .fingerprint = head.fingerprint,
            .place = place,
            .memory = {host_piece(into)},
            .tag = tag};
  }
};

inline Key test_key(std::uint64_t seed) {
  Key key;
  Rng rng(seed);
  for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>(rng.next());
  return key;
}

inline Fingerprint test_fingerprint(std::uint8_t id = 1) {
  Fingerprint fingerprint;
  fingerprint.bytes.fill(id);
  return fingerprint;
}

// The same seed gives the same record.
inline TestRecord make_test_record(std::uint64_t seed, std::uint64_t payload_bytes,
                                   std::uint32_t chunk_count = 1) {
  const std::uint64_t part = (payload_bytes + chunk_count - 1) / chunk_count;
  RecordHead head;
  head.key = test_key(seed);
  head.parent = test_key(seed + 1'000'000);
  head.fingerprint = test_fingerprint();
  head.token_count = 512;
  AlignedBytes bytes(record_bytes(payload_bytes, chunk_count));
  Rng rng(seed);
  std::uint64_t at = record_head_bytes(chunk_count);
  for (std::uint64_t left = payload_bytes; left > 0;) {
    const std::uint64_t length = std::min(left, part);
    const auto chunk = bytes.span().subspan(at, length);
    for (std::size_t i = 0; i + 8 <= chunk.size(); i += 8) {
      const std::uint64_t word = rng.next();
      std::memcpy(chunk.data() + i, &word, 8);
    }
    head.chunks.push_back({.region = static_cast<std::uint16_t>(head.chunks.size()),
                           .plain_bytes = length,
                           .stored_bytes = length,
                           .checksum = checksum64(chunk)});
    at += align_up(length, kRecordAlignment);
    left -= length;
  }
  const auto encoded = encode_head(head, bytes.span().first(record_head_bytes(head.chunks.size())));
  TIERCEL_CHECK(encoded.has_value());
  return {.head = std::move(head), .bytes = std::move(bytes)};
}

}  // namespace tiercel
