// The JSON side of the trace formats: one line or one session as text in, plain values out.
//
// Strict: every value is checked for type, sign and range; a key given twice, a missing one or a second document on the
// line is an error. Keys a foreign format has beyond ours are ignored; in Tiercel's own format they are errors.
// Errors  invalid, naming the column or the field; the caller puts file and line before it.
// Threads one thread; a reader keeps its parser's memory between calls.
// Source  docs/formats/traces.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tiercel {

struct RequestRecord {
  std::int64_t arrival_ns = 0;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> ids = {};  // As in the file, each below 2^63.
  std::optional<std::uint64_t> session = {};
};

struct TiercelHeader {
  std::uint32_t block_tokens = 0;         // 0: requests list no blocks.
  std::optional<std::uint64_t> requests;  // How many lines follow, where the writer knew.
};

struct WekaSession {
  struct Request {
    std::int64_t at_ns =
        0;  // From the session's start; for a sub-agent's the marker's time is added.
    std::uint32_t input_tokens = 0;
    std::uint32_t output_tokens = 0;
    std::uint64_t id_first = 0;
    std::uint64_t id_count = 0;
  };
  std::vector<Request> requests;   // In file order, a sub-agent's in place of its marker.
  std::vector<std::uint64_t> ids;  // One per 64 tokens.
};

inline constexpr std::uint32_t kMooncakeBlockTokens = 512;
inline constexpr std::uint32_t kWekaIdTokens = 64;

class JsonRecords {
 public:
  JsonRecords();
  ~JsonRecords();

  // Each overwrites `out`; after an error its contents mean nothing.
  Result<void> read_mooncake(std::string_view line, RequestRecord& out);
  Result<void> read_tiercel_header(std::string_view line, TiercelHeader& out);
  Result<void> read_tiercel(std::string_view line, std::uint32_t block_tokens, RequestRecord& out);
  Result<void> read_weka(std::string_view text, WekaSession& out);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tiercel
