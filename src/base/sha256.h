// SHA-256 by OpenSSL, which uses the processor's SHA instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tiercel {

using Sha256Digest = std::array<std::uint8_t, 32>;

// Incremental. One thread. finish() ends it; update() after that is a broken invariant.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  Sha256Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);
std::string hex(std::span<const std::uint8_t> bytes);  // Lower case.

}  // namespace tiercel
