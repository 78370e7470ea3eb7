#include "replay/decision_digest.h"

#include <charconv>
#include <cstring>
#include <string_view>

namespace tiercel {
namespace {

// Three numbers of 20 digits, a key of 32, names and blanks.
constexpr std::size_t kLineBytesMax = 160;

char* put(char* at, std::string_view text) {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

template <class Number>
char* put_number(char* at, Number number) {
  return std::to_chars(at, at + 20, number).ptr;
}

// Two digits per byte of a key.
constexpr std::array<std::array<char, 2>, 256> kHexPairs = [] {
  std::array<std::array<char, 2>, 256> pairs{};
  for (std::size_t byte = 0; byte < pairs.size(); ++byte) {
    pairs[byte] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  }
  return pairs;
}();

char* put_key(char* at, const Key& key) {
  for (const std::uint8_t byte : key.bytes) {
    std::memcpy(at, kHexPairs[byte].data(), 2);
    at += 2;
  }
  return at;
}

}  // namespace

void DecisionDigest::add(const Action& executed) {
  if (used_ + kLineBytesMax > buffer_.size()) {
    hash_.update(std::string_view(buffer_.data(), used_));
    used_ = 0;
  }
  const bool to_place = executed.type == ActionType::store || executed.type == ActionType::move ||
                        executed.type == ActionType::compute;
  const Place& place = to_place ? executed.target : executed.source;
  char* at = put_number(buffer_.data() + used_, executed.time_ns);
  *at++ = ' ';
  at = put(at, action_name(executed.type));
  *at++ = ' ';
  at = executed.block == kNoBlock ? put(at, "-") : put_key(at, executed.key);
  *at++ = ' ';
  at = put(at, tier_name(executed.from));
  *at++ = ' ';
  at = put(at, tier_name(executed.to));
  *at++ = ' ';
  at = put_number(at, place.segment);
  *at++ = ' ';
  at = put_number(at, place.offset);
  *at++ = '\n';
  used_ = static_cast<std::size_t>(at - buffer_.data());
}

std::string DecisionDigest::finish() {
  hash_.update(std::string_view(buffer_.data(), used_));
  used_ = 0;
  return hex(hash_.finish());
}

}  // namespace tiercel
