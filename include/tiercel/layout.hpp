// What the bytes of a block mean (regions in order, each over a range of layers), and the fingerprint that says who may
// share them.
//
// Shape   A block of `token_count` tokens holds, region after region, `bytes_per_token(region) * token_count` bytes
//         (state: bytes_per_block bytes). No padding between regions; the order is that of `regions`.
// Cost    A plain value; compare with ==. It enters the fingerprint, so two layouts never share a block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiercel/names.hpp"

namespace tiercel {

enum class RegionType : std::uint8_t { k = 0, v = 1, latent = 2, rope = 3, state = 4, opaque = 5 };
enum class DType : std::uint8_t { bytes = 0, f32 = 1, f16 = 2, bf16 = 3, fp8_e4m3 = 4, i8 = 5 };

std::uint64_t dtype_bytes(DType dtype);

struct Region {
  RegionType type = RegionType::opaque;
  DType dtype = DType::bytes;
  std::uint16_t layer_first = 0;
  std::uint16_t layer_count = 1;
  std::uint32_t heads = 1;
  std::uint32_t head_dim = 1;  // For opaque: bytes per token of the region.

  bool operator==(const Region&) const = default;
};

struct Layout {
  std::vector<Region> regions;

  // A layout that says nothing about its bytes: what a store needs when no codec looks inside.
  static Layout opaque(std::uint32_t bytes_per_token);

  std::uint64_t bytes_per_token() const;
  std::uint64_t block_bytes(std::uint32_t token_count) const;
  std::string canonical() const;  // The text that enters the fingerprint.

  bool operator==(const Layout&) const = default;
};

// Everything two caches must agree on before bytes may be shared.
struct FingerprintParts {
  std::string model_weights_id;
  std::string tokenizer;
  std::string rope;
  std::string adapter;  // LoRA, empty for none.
  std::string quantization_scales;
  std::string rotation;
  Layout layout;
  std::uint32_t block_tokens = 0;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
};

Fingerprint make_fingerprint(const FingerprintParts& parts);

}  // namespace tiercel
