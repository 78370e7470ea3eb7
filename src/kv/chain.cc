#include "kv/chain.h"

#include <algorithm>
#include <string_view>

#include "base/sha256.h"

namespace tiercel {
namespace {

// Collects what is hashed: tags and lengths keep the serialisation injective.
class Serial {
 public:
  explicit Serial(std::string_view tag) { text(tag); }

  Serial& number(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  Serial& raw(std::span<const std::byte> bytes) {
    number(bytes.size());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Serial& text(std::string_view text) { return raw(std::as_bytes(std::span(text))); }

  template <class Name>
  Name name() const {
    const Sha256Digest digest = sha256(bytes_);
    Name name;
    std::copy_n(digest.begin(), name.bytes.size(), name.bytes.begin());
    return name;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::string hex(const std::array<std::uint8_t, 16>& bytes) {
  return hex(std::span<const std::uint8_t>(bytes));
}

Fingerprint make_fingerprint(const FingerprintParts& parts) {
  Serial serial("tiercel fingerprint 1");
  serial.text(parts.model_weights_id).text(parts.tokenizer).text(parts.rope).text(parts.adapter);
  serial.text(parts.quantization_scales).text(parts.rotation).text(parts.layout.canonical());
  serial.number(parts.block_tokens).number(parts.rank).number(parts.world);
  return serial.name<Fingerprint>();
}

PrefixHash make_prefix_hash(std::span<const std::byte> tenant_salt,
                            const std::optional<PrefixHash>& parent, std::uint32_t token_count,
                            ChainContent content_type, std::span<const std::byte> content) {
  Serial serial("tiercel prefix 1");
  if (parent) {
    serial.number(1).raw(std::as_bytes(std::span(parent->bytes)));
  } else {
    serial.number(0).raw(tenant_salt);
  }
  serial.number(token_count).number(static_cast<std::uint64_t>(content_type)).raw(content);
  return serial.name<PrefixHash>();
}

std::vector<PrefixHash> make_chain(std::span<const std::byte> tenant_salt,
                                   std::uint32_t block_tokens,
                                   std::span<const std::uint32_t> tokens) {
  std::vector<PrefixHash> chain;
  std::optional<PrefixHash> parent;
  for (std::size_t first = 0; first < tokens.size(); first += block_tokens) {
    const auto block =
        tokens.subspan(first, std::min<std::size_t>(block_tokens, tokens.size() - first));
    parent = make_prefix_hash(tenant_salt, parent, static_cast<std::uint32_t>(block.size()),
                              ChainContent::tokens, std::as_bytes(block));
    chain.push_back(*parent);
  }
  return chain;
}

Key make_key(const PrefixHash& prefix, const Fingerprint& fingerprint, const Kind& kind) {
  Serial serial("tiercel key 1");
  serial.raw(std::as_bytes(std::span(prefix.bytes)))
      .raw(std::as_bytes(std::span(fingerprint.bytes)));
  serial.number(kind.id).number(static_cast<std::uint64_t>(kind.reach)).number(kind.window_tokens);
  return serial.name<Key>();
}

}  // namespace tiercel
