// A record from a disk that lies: no bytes crash the parser, and what it accepts is a head that encodes to an equal one.
// Input: the record. It is parsed as it is, and once more with the head's checksum set right, or the fuzzer would never get
// behind it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "kv/record.h"

namespace tiercel {
namespace {

constexpr std::size_t kChecksumAt = 248;  // docs/formats/record.md

void set_checksum(std::span<std::byte> head) {
  std::vector<std::byte> hashed(head.begin(), head.end());
  std::fill_n(hashed.begin() + kPlacementOffset, kPlacementBytes, std::byte{0});
  std::fill_n(hashed.begin() + kChecksumAt, 8, std::byte{0});
  const std::uint64_t sum = checksum64(hashed);
  std::memcpy(head.data() + kChecksumAt, &sum, sizeof sum);
}

void parse(std::span<const std::byte> bytes) {
  const auto head = parse_head(bytes);
  if (!head) {
    TIERCEL_CHECK(head.error().code == Errc::corrupt && !head.error().what.empty());
    return;
  }
  const std::uint64_t head_bytes = record_head_bytes(head->chunks.size());
  TIERCEL_CHECK(head_bytes <= bytes.size());
  TIERCEL_CHECK(*peek_head_bytes(bytes) == head_bytes);
  std::vector<std::byte> encoded(head_bytes);
  TIERCEL_CHECK(encode_head(*head, encoded));
  const auto again = parse_head(encoded);
  TIERCEL_CHECK(again && *again == *head);

  // The body in two pieces, cut anywhere: verified and copied alike.
  const auto body = bytes.subspan(head_bytes);
  const std::size_t cut = body.size() / 3;
  const std::span<const std::byte> pieces[] = {body.first(cut), body.subspan(cut)};
  std::vector<std::byte> copy(body.size());
  const std::span<std::byte> whole[] = {std::span(copy)};
  const bool verified = verify_chunks(*head, pieces).has_value();
  if (record_bytes(head->chunks) != bytes.size()) {
    TIERCEL_CHECK(!verified);
    return;
  }
  const bool copied = copy_verified(*head, pieces, whole).has_value();
  TIERCEL_CHECK(copied == verified);
  TIERCEL_CHECK(!copied || std::ranges::equal(copy, body));
}

}  // namespace
}  // namespace tiercel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const auto bytes = std::as_bytes(std::span(data, size));
  parse(bytes);
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  if (const auto head_bytes = peek_head_bytes(repaired)) {
    if (*head_bytes <= repaired.size()) set_checksum(std::span(repaired).first(*head_bytes));
    parse(repaired);
  }
  return 0;
}
