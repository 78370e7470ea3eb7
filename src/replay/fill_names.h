// What `store fill` writes, and `store audit` expects: names, bytes and sessions that all follow from a seed.
//
// Shape   Blocks are numbered; a prompt is a chain of kPromptBlocks of them. Four prompts in a row make a group and share their
//         first kSharedBlocks. A session is one prompt and blocks of its own behind it: full ones, a partial tail, a record of
//         recurrent state at its end. With every second version it grows by full blocks, so that its tail is superseded; with
//         the others it is about another prompt.
// Bytes   Of every block: BlockContent of its key. Of tokens and state: from name and version.
// Threads immutable.
// Source  docs/durability.md
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/session_store.h"
#include "replay/block_content.h"

namespace tiercel {

struct FillBlock {
  RecordHead head;  // Without chunks.
  std::uint32_t index = 0;
  std::uint64_t bytes = 0;
};

// A session as it should be; blocks in prefix order.
struct FillSession {
  std::string name;
  std::uint64_t version = 0;
  std::uint32_t position = 0;
  std::uint64_t token_count = 0;
  std::vector<FillBlock> blocks;
  std::vector<std::uint32_t> tokens;  // The first two are the number of its prompt.
  std::vector<std::byte> state;
};

class FillNames {
 public:
  static constexpr std::uint32_t kPromptBlocks = 8, kSharedBlocks = 2, kGroupPrompts = 4;
  static constexpr std::uint32_t kBlockTokens = 16;
  static constexpr std::uint64_t kBlockBytesMin = 64;

  FillNames(std::uint64_t seed, std::uint64_t block_bytes);

  std::vector<FillBlock> prompt(std::uint64_t number) const;
  // Behind the last prompt, from `from` on, of which any block is known; gives up after a few thousand that are not.
  std::uint64_t end_of_prompts(std::uint64_t from,
                               const std::function<bool(const Key&)>& known) const;
  FillSession session(const std::string& name, std::uint64_t version, std::uint64_t prompt) const;
  std::uint64_t block_bytes() const { return block_bytes_; }
  const Fingerprint& fingerprint() const { return fingerprint_; }
  const BlockContent& content() const { return content_; }

 private:
  FillBlock next_block(const std::vector<FillBlock>& before, std::uint64_t number,
                       std::uint32_t token_count) const;

  const std::uint64_t block_bytes_;
  std::array<std::byte, 8> salt_;
  Fingerprint fingerprint_;
  BlockContent content_;
};

}  // namespace tiercel
