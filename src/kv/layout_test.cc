#include "kv/layout.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tiercel {
namespace {

// Source: the Llama-3-8B geometry: 32 layers, 8 KV heads of 128, BF16 = 128 KiB per token.
Layout llama_8b() {
  return Layout{.regions = {{.type = RegionType::k,
                             .dtype = DType::bf16,
                             .layer_count = 32,
                             .heads = 8,
                             .head_dim = 128},
                            {.type = RegionType::v,
                             .dtype = DType::bf16,
                             .layer_count = 32,
                             .heads = 8,
                             .head_dim = 128}}};
}

TEST(Layout, BytesFollowFromTheGeometry) {
  EXPECT_EQ(llama_8b().bytes_per_token(), 131072U);
  EXPECT_EQ(llama_8b().block_bytes(512), 64U * 1024 * 1024);
  EXPECT_EQ(Layout::opaque(100).block_bytes(3), 300U);
  EXPECT_EQ(Layout{}.bytes_per_token(), 0U);
}

// 1,000 layers of 4,096 heads of 4,096 values of 4 bytes: beyond 32 bits.
TEST(Layout, BytesDoNotWrapAt32Bits) {
  const Layout huge{
      .regions = {{.dtype = DType::f32, .layer_count = 1000, .heads = 4096, .head_dim = 4096}}};
  EXPECT_EQ(huge.bytes_per_token(), 67108864000U);
}

TEST(Layout, CanonicalTextTellsEveryFieldApart) {
  std::set<std::string> texts{llama_8b().canonical()};
  const auto add = [&](auto change) {
    Layout layout = llama_8b();
    change(layout.regions);
    EXPECT_TRUE(texts.insert(layout.canonical()).second) << layout.canonical();
  };
  add([](std::vector<Region>& r) { r[0].type = RegionType::latent; });
  add([](std::vector<Region>& r) { r[0].dtype = DType::f16; });
  add([](std::vector<Region>& r) { r[0].layer_first = 1; });
  add([](std::vector<Region>& r) { r[0].layer_count = 31; });
  add([](std::vector<Region>& r) { r[0].heads = 4; });
  add([](std::vector<Region>& r) { r[0].head_dim = 64; });
  add([](std::vector<Region>& r) { std::swap(r[0], r[1]); });
  add([](std::vector<Region>& r) { r.pop_back(); });
}

}  // namespace
}  // namespace tiercel
