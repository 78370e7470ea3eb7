#include "kv/layout.h"

#include <fmt/format.h>

namespace tiercel {

std::uint64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::bytes:
    case DType::fp8_e4m3:
    case DType::i8:
      return 1;
  }
  return 1;
}

Layout Layout::opaque(std::uint32_t bytes_per_token) {
  return Layout{.regions = {Region{.head_dim = bytes_per_token}}};
}

std::uint64_t Layout::bytes_per_token() const {
  std::uint64_t bytes = 0;
  for (const Region& region : regions) {
    bytes += dtype_bytes(region.dtype) * region.layer_count * region.heads * region.head_dim;
  }
  return bytes;
}

std::uint64_t Layout::block_bytes(std::uint32_t token_count) const {
  return bytes_per_token() * token_count;
}

std::string Layout::canonical() const {
  std::string text;
  for (const Region& r : regions) {
    text += fmt::format("[{} {} {}+{} {}x{}]", static_cast<int>(r.type), static_cast<int>(r.dtype),
                        r.layer_first, r.layer_count, r.heads, r.head_dim);
  }
  return text;
}

}  // namespace tiercel
