// A whole program around the library: keeps the KV cache of a small hybrid model in RAM and in a directory.
//
//   c++ -std=c++20 embed.cc $(pkg-config --cflags --libs tiercel) -o embed && ./embed DIRECTORY && ./embed DIRECTORY
// The first run computes and stores a prompt of 100 tokens; the second, in another process, finds it there.
#include <cstdio>
#include <numeric>
#include <tiercel/tiercel.hpp>

using namespace std::chrono_literals;

constexpr std::uint32_t kBlockTokens = 16, kKvBytesPerToken = 2048, kStateBytes = 65536;
constexpr std::uint16_t kAttention = 0, kState = 1;

// Stands for the engine.
std::vector<std::byte> compute(const tiercel::Key& key, std::uint64_t bytes) {
  std::vector<std::byte> block(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i)
    block[i] = static_cast<std::byte>(key.bytes[i % 16] + i / 16);
  return block;
}

int give_up(const tiercel::Error& error) {
  return std::fprintf(stderr, "embed: %s\n", error.what.c_str()), 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return give_up({.what = "usage: embed DIRECTORY"});
  const auto model = tiercel::make_fingerprint({.model_weights_id = "demo"});  // And much more.
  tiercel::CacheOptions options;
  options.block_tokens = kBlockTokens;
  options.kinds = {{.kind = {.id = kAttention, .reach = tiercel::Reach::all},
                    .fingerprint = model,
                    .bytes_per_token = kKvBytesPerToken},
                   {.kind = {.id = kState, .reach = tiercel::Reach::last},
                    .fingerprint = model,
                    .bytes_per_block = kStateBytes}};
  options.warm_bytes = 16 << 20;
  options.directory = argv[1];
  options.cold_bytes = 64 << 20;
  std::vector<std::vector<std::byte>> memory;  // Outlives the cache, which may be at work on it.
  auto cache = tiercel::Cache::open(options);
  if (!cache) return give_up(cache.error());

  std::vector<std::uint32_t> prompt(100);
  std::iota(prompt.begin(), prompt.end(), 1U);
  const tiercel::Chain chain = cache->chain(prompt);  // 6 full blocks and one of 4 tokens.
  const auto match = cache->match(chain);
  if (!match) return give_up(match.error());

  if (match->position() == chain.size()) {  // Everything is there: read it back, and look.
    std::vector<tiercel::Destination> destinations;
    for (std::uint32_t i = 0; i < match->blocks().size(); ++i) {
      auto& block = memory.emplace_back(match->blocks()[i].bytes);
      destinations.push_back({.block = i, .memory = {tiercel::host_piece(std::span(block))}});
    }
    const auto loaded = cache->wait(cache->fetch(*match, destinations).value_or(0), 5s);
    if (!loaded) return give_up(loaded.error());
    if (!loaded->all_delivered()) return give_up({.what = "a block is to be computed again"});
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto expected = compute(match->blocks()[i].key, memory[i].size());
      if (memory[i] != expected) return give_up({.what = "wrong bytes"});
    }
    std::printf("found %zu blocks, every byte as it was\n", memory.size());
    return 0;
  }
  tiercel::Txn transaction{.position = chain.size(), .blocks = {}};
  const auto add = [&](std::uint16_t kind, std::uint32_t index, std::uint64_t bytes) {
    const auto& block = memory.emplace_back(compute(chain.key(kind, index), bytes));
    transaction.blocks.push_back(
        {.kind = kind, .index = index, .source = {tiercel::host_piece(std::span(block))}});
  };
  for (std::uint32_t i = 0; i < chain.size(); ++i)
    add(kAttention, i, kKvBytesPerToken * chain.tokens_in(i));
  add(kState, chain.size() - 1, kStateBytes);
  const auto stored = cache->wait(cache->put(chain, transaction).value_or(0), 5s);
  if (!stored) return give_up(stored.error());
  if (const auto durable = cache->sync(); !durable) return give_up(durable.error());
  std::printf("stored %zu blocks, durably\n", transaction.blocks.size());
}
