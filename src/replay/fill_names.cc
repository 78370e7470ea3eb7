#include "replay/fill_names.h"

#include "base/random.h"
#include "kv/chain.h"

namespace tiercel {
namespace {

constexpr Kind kAttention{.id = 0};
constexpr Kind kState{.id = 1, .reach = Reach::last};
constexpr std::uint64_t kSessionNumbers = 1ULL << 62;  // Blocks of sessions are numbered from here.
constexpr std::uint64_t kGrowth = 3;                   // Full blocks that a session grows by.

std::uint64_t hash_of(const std::string& name, std::uint64_t value) {
  std::uint64_t hash = mix64(value + 1);
  for (const char c : name) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

FillNames::FillNames(std::uint64_t seed, std::uint64_t block_bytes) : block_bytes_(block_bytes) {
  for (std::size_t i = 0; i < salt_.size(); ++i) salt_[i] = static_cast<std::byte>(seed >> (8 * i));
  fingerprint_ = make_fingerprint({.model_weights_id = "tiercel store fill",
                                   .layout = Layout::opaque(1),
                                   .block_tokens = kBlockTokens});
}

FillBlock FillNames::next_block(const std::vector<FillBlock>& before, std::uint64_t number,
                                std::uint32_t token_count) const {
  std::array<std::byte, 8> content;
  for (std::size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<std::byte>(number >> (8 * i));
  FillBlock block{.index = static_cast<std::uint32_t>(before.size()),
                  .bytes = block_bytes_ * token_count / kBlockTokens};
  std::optional<PrefixHash> parent;
  if (!before.empty()) {
    parent = before.back().head.prefix;
    block.head.parent = before.back().head.key;
  }
  block.head.prefix =
      make_prefix_hash(salt_, parent, token_count, ChainContent::engine_hash, content);
  block.head.kind = kAttention;
  block.head.fingerprint = fingerprint_;
  block.head.token_count = token_count;
  block.head.key = make_key(block.head.prefix, fingerprint_, kAttention);
  return block;
}

std::vector<FillBlock> FillNames::prompt(std::uint64_t number) const {
  constexpr std::uint64_t own = kPromptBlocks - kSharedBlocks;
  constexpr std::uint64_t group_blocks = kSharedBlocks + kGroupPrompts * own;
  const std::uint64_t first = number / kGroupPrompts * group_blocks;
  const std::uint64_t first_own = first + kSharedBlocks + number % kGroupPrompts * own;
  std::vector<FillBlock> blocks;
  for (std::uint32_t i = 0; i < kPromptBlocks; ++i) {
    const std::uint64_t block = i < kSharedBlocks ? first + i : first_own + i - kSharedBlocks;
    blocks.push_back(next_block(blocks, block, kBlockTokens));
  }
  return blocks;
}

std::uint64_t FillNames::end_of_prompts(std::uint64_t from,
                                        const std::function<bool(const Key&)>& known) const {
  constexpr std::uint64_t search = 4096;
  for (std::uint64_t at = from; at < from + search; ++at) {
    for (const FillBlock& block : prompt(at)) {
      if (known(block.head.key)) from = at + 1;
    }
  }
  return from;
}

FillSession FillNames::session(const std::string& name, std::uint64_t version,
                               std::uint64_t prompt_number) const {
  FillSession session{.name = name, .version = version, .blocks = prompt(prompt_number)};
  // Versions 2n + 1 and 2n + 2 are one conversation, which has grown between them.
  const std::uint64_t conversation = (version - 1) / 2;
  const bool grown = version % 2 == 0;
  const std::uint64_t base = kSessionNumbers + hash_of(name, conversation) % kSessionNumbers;
  const std::uint64_t full = 1 + (grown ? kGrowth : 0);
  for (std::uint64_t i = 0; i < full; ++i)
    session.blocks.push_back(next_block(session.blocks, base + i, kBlockTokens));
  const auto tail = static_cast<std::uint32_t>(1 + hash_of(name, version) % (kBlockTokens - 1));
  session.blocks.push_back(next_block(session.blocks, base + full, tail));
  session.position = static_cast<std::uint32_t>(session.blocks.size());
  session.token_count = (session.blocks.size() - 1) * kBlockTokens + tail;

  FillBlock recurrent = session.blocks.back();  // Taken at the very end, beside the last block.
  recurrent.head.parent = session.blocks.back().head.key;
  recurrent.head.kind = kState;
  recurrent.head.key = make_key(recurrent.head.prefix, fingerprint_, kState);
  recurrent.bytes = block_bytes_ / 2 + 17;
  session.blocks.push_back(std::move(recurrent));

  Rng rng(hash_of(name, version));
  session.tokens = {static_cast<std::uint32_t>(prompt_number),
                    static_cast<std::uint32_t>(prompt_number >> 32)};
  while (session.tokens.size() < session.token_count)
    session.tokens.push_back(static_cast<std::uint32_t>(rng.next()));
  // From nothing at all to more than one record holds.
  session.state.resize(version % 5 == 0 ? 0 : rng.below(block_bytes_ * 5 / 2));
  for (std::byte& byte : session.state) byte = static_cast<std::byte>(rng.next());
  return session;
}

}  // namespace tiercel
