// An exported session from anywhere: no bytes crash the parser, and what it accepts holds together: every record is one that the
// manifest lists, lies inside the file, and its bytes verify.
// Input: the file. It is parsed as it is, and once more with lengths and checksums of header, manifest, records and file set right,
// or the fuzzer would never get behind them.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/checksum.h"
#include "cache/session_export.h"
#include "kv/little_endian.h"

namespace tiercel {
namespace {

constexpr std::size_t kHeaderBytes = 64;  // docs/formats/session.md

void parse(std::span<const std::byte> bytes) {
  const ReadAt read = [&](std::uint64_t offset, std::span<std::byte> memory) -> Result<void> {
    TIERCEL_CHECK(offset <= bytes.size() && memory.size() <= bytes.size() - offset);
    std::ranges::copy(bytes.subspan(offset, memory.size()), memory.begin());
    return {};
  };
  const auto session = parse_export(read, bytes.size());
  if (!session) {
    const Errc code = session.error().code;
    TIERCEL_CHECK((code == Errc::corrupt || code == Errc::invalid) &&
                  !session.error().what.empty());
    return;
  }
  TIERCEL_CHECK(check_manifest(session->manifest));
  for (const ExportedRecord& record : session->records) {
    const std::uint64_t length = record_bytes(record.head.chunks);
    TIERCEL_CHECK(record.offset <= bytes.size() && length <= bytes.size() - record.offset);
    const auto body = bytes.subspan(record.offset, length).subspan(record_head_bytes(1));
    TIERCEL_CHECK(verify_chunks(record.head, std::span(&body, 1)));
  }
}

void put_sum(std::span<std::byte> bytes, std::size_t hashed, std::size_t at) {
  put_number<std::uint64_t>(bytes, at, checksum64(bytes.first(hashed)));
}

// The checksum of a record's head, as docs/formats/record.md has it.
void repair_head(std::span<std::byte> head) {
  std::vector<std::byte> hashed(head.begin(), head.end());
  std::fill_n(hashed.begin() + kPlacementOffset, kPlacementBytes, std::byte{0});
  std::fill_n(hashed.begin() + 248, 8, std::byte{0});
  put_number<std::uint64_t>(head, 248, checksum64(hashed));
}

void repair(std::span<std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + 16) return;
  put_number<std::uint64_t>(bytes, 16, bytes.size());
  const auto manifest_bytes = get_number<std::uint64_t>(bytes, 24);
  put_sum(bytes, 56, 56);
  if (manifest_bytes >= 32 && manifest_bytes <= bytes.size() - kHeaderBytes - 8) {
    const auto manifest = bytes.subspan(kHeaderBytes, manifest_bytes);
    put_number<std::uint64_t>(manifest, 16, manifest_bytes);
    put_sum(manifest, manifest_bytes - 8, manifest_bytes - 8);
  }
  for (std::size_t at = kRecordAlignment; at + kRecordAlignment <= bytes.size();
       at += kRecordAlignment) {
    const auto page = bytes.subspan(at, kRecordAlignment);
    if (const auto head = peek_head_bytes(page); head && *head == kRecordAlignment)
      repair_head(page);
  }
  put_sum(bytes, bytes.size() - 8, bytes.size() - 8);
}

}  // namespace
}  // namespace tiercel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercel;
  const auto bytes = std::as_bytes(std::span(data, size));
  parse(bytes);
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  repair(repaired);
  parse(repaired);
  return 0;
}
