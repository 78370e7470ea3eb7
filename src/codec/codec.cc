#include "codec/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tiercel {
namespace {

class IdentityCodec final : public Codec {
 public:
  std::uint16_t id() const override { return kIdentityCodec; }
  const char* name() const override { return "identity"; }
  std::uint64_t stored_bytes_max(std::uint64_t plain_bytes) const override { return plain_bytes; }

  Result<Encoded> encode(std::span<const std::byte> plain,
                         std::span<std::byte> out) const override {
    if (out.size() < plain.size()) {
      return fail(Errc::invalid,
                  fmt::format("identity: {} bytes do not fit into {}", plain.size(), out.size()));
    }
    std::memcpy(out.data(), plain.data(), plain.size());
    return Encoded{.stored_bytes = plain.size()};
  }

  Result<void> decode(std::span<const std::byte> stored, const CodecParameters& parameters,
                      std::span<std::byte> out) const override {
    if (stored.size() != out.size()) {
      return fail(Errc::corrupt, fmt::format("identity: {} stored bytes for a plain length of {}",
                                             stored.size(), out.size()));
    }
    if (parameters != CodecParameters{})
      return fail(Errc::corrupt, "identity: takes no parameters, but has some");
    std::memcpy(out.data(), stored.data(), stored.size());
    return {};
  }
};

}  // namespace

Result<const Codec*> find_codec(std::uint16_t id) {
  static const IdentityCodec identity;
  if (id == identity.id()) return &identity;
  return fail(
      Errc::unavailable,
      fmt::format("no codec {} in this build (it has 0 = identity); a newer one may read it", id));
}

}  // namespace tiercel
