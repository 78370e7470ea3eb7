#include "trace/json_records.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "trace/json_locate.h"
#include "trace/limits.h"

namespace tiercel {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kNsPerS = 1'000'000'000;

Error field_error(std::string_view field, std::string_view what) {
  return fail(Errc::invalid, fmt::format("field \"{}\": {}", field, what));
}

const char* type_name(dom::element_type type) {
  switch (type) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    case dom::element_type::DOUBLE:
      return "a fraction";
    default:
      return "an integer";
  }
}

Error wrong_type(std::string_view field, const dom::element& value, std::string_view wanted) {
  return field_error(field, fmt::format("is {}, not {}", type_name(value.type()), wanted));
}

Result<std::uint64_t> whole(std::string_view field, const dom::element& value, std::int64_t max) {
  if (value.type() == dom::element_type::UINT64) {  // simdjson's type for what int64 cannot hold.
    return field_error(field,
                       fmt::format("{} is beyond {}", value.get_uint64().value_unsafe(), max));
  }
  if (value.type() != dom::element_type::INT64) return wrong_type(field, value, "an integer");
  const std::int64_t number = value.get_int64().value_unsafe();
  if (number < 0) return field_error(field, fmt::format("{} is negative", number));
  if (number > max) return field_error(field, fmt::format("{} is beyond {}", number, max));
  return static_cast<std::uint64_t>(number);
}

Result<std::uint32_t> tokens(std::string_view field, const dom::element& value) {
  TIERCEL_TRY(const std::uint64_t count, whole(field, value, kTraceTokensMax));
  return static_cast<std::uint32_t>(count);
}

Result<std::int64_t> time_ns(std::string_view field, const dom::element& value,
                             std::int64_t unit_ns) {
  if (value.type() != dom::element_type::DOUBLE) {
    TIERCEL_TRY(const std::uint64_t units, whole(field, value, kTraceTimeNsMax / unit_ns));
    return static_cast<std::int64_t>(units) * unit_ns;
  }
  const double units = value.get_double().value_unsafe();
  if (!(units >= 0)) return field_error(field, fmt::format("{} is negative", units));
  if (units * static_cast<double>(unit_ns) > static_cast<double>(kTraceTimeNsMax)) {
    return field_error(field,
                       fmt::format("{} is more than a hundred years; check its unit", units));
  }
  // The whole part apart: times since 1970 in nanoseconds are beyond the 53 bits of a double.
  const double whole_units = std::floor(units);
  return static_cast<std::int64_t>(whole_units) * unit_ns +
         std::llround((units - whole_units) * static_cast<double>(unit_ns));
}

Result<void> append_ids(std::string_view field, const dom::element& value,
                        std::vector<std::uint64_t>& out) {
  dom::array ids;
  if (value.get_array().get(ids) != simdjson::SUCCESS)
    return wrong_type(field, value, "an array of block ids");
  for (const dom::element id : ids) {
    TIERCEL_TRY(const std::uint64_t number, whole(field, id, INT64_MAX));
    out.push_back(number);
  }
  return {};
}

// Watches the keys of one object: each at most once, the required ones present.
class Keys {
 public:
  template <std::size_t N>
  explicit Keys(const std::string_view (&names)[N]) : names_(names, N) {}

  // The position of `key` among the names, or -1; an error where it came before.
  Result<int> find(std::string_view key) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] != key) continue;
      if ((seen_ >> i & 1U) != 0) return field_error(key, "is given twice");
      seen_ |= 1U << i;
      return static_cast<int>(i);
    }
    return -1;
  }
  bool has(int index) const { return (seen_ >> index & 1U) != 0; }
  Result<void> require(std::size_t first_count) const {
    for (std::size_t i = 0; i < first_count; ++i) {
      if (!has(static_cast<int>(i))) return field_error(names_[i], "is missing");
    }
    return {};
  }

 private:
  std::span<const std::string_view> names_;
  std::uint32_t seen_ = 0;
};

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

struct JsonRecords::Parser {
  dom::parser json;
  std::size_t capacity = 0;

  Result<dom::object> object(std::string_view text) {
    if (text.size() > capacity) {
      const std::size_t wanted =
          std::bit_ceil(std::max<std::size_t>(text.size(), std::size_t{4} << 10));
      if (json.allocate(wanted, kTraceJsonDepthMax) != simdjson::SUCCESS) {
        return fail(Errc::no_space, "no memory to parse it");
      }
      capacity = wanted;
    }
    dom::element root;
    const auto error = json.parse(text.data(), text.size(), true).get(root);
    if (error != simdjson::SUCCESS) {
      return fail(Errc::invalid,
                  "not valid JSON: " + describe_json_error(text, kTraceJsonDepthMax,
                                                           simdjson::error_message(error)));
    }
    dom::object object;
    if (root.get_object().get(object) != simdjson::SUCCESS) {
      return fail(Errc::invalid, std::string("is ") + type_name(root.type()) + ", not an object");
    }
    return object;
  }
};

JsonRecords::JsonRecords() : parser_(std::make_unique<Parser>()) {}
JsonRecords::~JsonRecords() = default;

Result<void> JsonRecords::read_mooncake(std::string_view line, RequestRecord& out) {
  static constexpr std::string_view kNames[] = {"timestamp", "input_length", "output_length",
                                                "hash_ids"};
  TIERCEL_TRY(const dom::object object, parser_->object(line));
  out = RequestRecord{.ids = std::move(out.ids)};
  out.ids.clear();
  Keys keys(kNames);
  for (const auto& [key, value] : object) {
    TIERCEL_TRY(const int index, keys.find(key));
    if (index == 0) {
      TIERCEL_TRY(out.arrival_ns, time_ns(key, value, kNsPerMs));
    } else if (index == 1) {
      TIERCEL_TRY(out.input_tokens, tokens(key, value));
    } else if (index == 2) {
      TIERCEL_TRY(out.output_tokens, tokens(key, value));
    } else if (index == 3) {
      TIERCEL_TRY_VOID(append_ids(key, value, out.ids));
    }
  }
  TIERCEL_TRY_VOID(keys.require(4));
  const std::uint64_t wanted = ceil_div(out.input_tokens, kMooncakeBlockTokens);
  if (out.ids.size() != wanted) {
    return field_error("hash_ids",
                       fmt::format("{} ids, but input_length {} needs {} (one per {} tokens)",
                                   out.ids.size(), out.input_tokens, wanted, kMooncakeBlockTokens));
  }
  return {};
}

Result<void> JsonRecords::read_tiercel_header(std::string_view line, TiercelHeader& out) {
  static constexpr std::string_view kNames[] = {"schema", "block_tokens", "requests", "source"};
  TIERCEL_TRY(const dom::object object, parser_->object(line));
  out = TiercelHeader{};
  Keys keys(kNames);
  for (const auto& [key, value] : object) {
    TIERCEL_TRY(const int index, keys.find(key));
    if (index == 0) {
      std::string_view schema;
      if (value.get_string().get(schema) != simdjson::SUCCESS)
        return wrong_type(key, value, "a string");
      if (schema != "tiercel.trace/1") {
        return field_error(
            key, fmt::format("\"{}\" is not a version this program reads (tiercel.trace/1)",
                             printable(schema)));
      }
    } else if (index == 1) {
      TIERCEL_TRY(out.block_tokens, tokens(key, value));
    } else if (index == 2) {
      TIERCEL_TRY(out.requests, whole(key, value, INT64_MAX));
    } else if (index == 3) {
      if (!value.is_string()) return wrong_type(key, value, "a string");
    } else {
      return field_error(printable(key),
                         "is unknown; the header knows schema, block_tokens, requests, source");
    }
  }
  return keys.require(2);
}

Result<void> JsonRecords::read_tiercel(std::string_view line, std::uint32_t block_tokens,
                                       RequestRecord& out) {
  static constexpr std::string_view kNames[] = {"arrival_ns", "input_tokens", "output_tokens",
                                                "blocks", "session"};
  TIERCEL_TRY(const dom::object object, parser_->object(line));
  out = RequestRecord{.ids = std::move(out.ids)};
  out.ids.clear();
  Keys keys(kNames);
  for (const auto& [key, value] : object) {
    TIERCEL_TRY(const int index, keys.find(key));
    if (index == 0) {
      TIERCEL_TRY(const std::uint64_t arrival, whole(key, value, kTraceTimeNsMax));
      out.arrival_ns = static_cast<std::int64_t>(arrival);
    } else if (index == 1) {
      TIERCEL_TRY(out.input_tokens, tokens(key, value));
    } else if (index == 2) {
      TIERCEL_TRY(out.output_tokens, tokens(key, value));
    } else if (index == 3) {
      TIERCEL_TRY_VOID(append_ids(key, value, out.ids));
    } else if (index == 4) {
      TIERCEL_TRY(out.session, whole(key, value, INT64_MAX));
    } else {
      return field_error(
          printable(key),
          "is unknown; a request knows arrival_ns, input_tokens, output_tokens, blocks, session");
    }
  }
  TIERCEL_TRY_VOID(keys.require(block_tokens > 0 ? 4 : 3));
  if (block_tokens == 0) {
    if (keys.has(3))
      return field_error("blocks", "is given although the header says block_tokens 0");
    return {};
  }
  const std::uint64_t full = out.input_tokens / block_tokens;
  const std::uint64_t all = ceil_div(out.input_tokens, block_tokens);
  if (out.ids.size() != full && out.ids.size() != all) {
    return field_error(
        "blocks", fmt::format("{} ids, but input_tokens {} in blocks of {} needs {} (or {} without "
                              "the partial one)",
                              out.ids.size(), out.input_tokens, block_tokens, all, full));
  }
  return {};
}

namespace {

// One object of requests[]: either a request, or a marker that holds a sub-agent's requests in its
// own requests[].
Result<void> read_weka_requests(const dom::element& list, std::int64_t start_ns, int level,
                                WekaSession& out);

Result<void> read_weka_request(const dom::object& object, std::int64_t start_ns, int level,
                               WekaSession& out) {
  static constexpr std::string_view kNames[] = {"t", "in", "out", "hash_ids", "requests", "type"};
  constexpr int kLevelsMax =
      4;  // The format has two: the session's requests and those of its sub-agents.
  Keys keys(kNames);
  WekaSession::Request request{.id_first = out.ids.size()};
  dom::element nested;
  bool subagent = false;
  for (const auto& [key, value] : object) {
    TIERCEL_TRY(const int index, keys.find(key));
    if (index == 0) {
      TIERCEL_TRY(request.at_ns, time_ns(key, value, kNsPerS));
    } else if (index == 1) {
      TIERCEL_TRY(request.input_tokens, tokens(key, value));
    } else if (index == 2) {
      TIERCEL_TRY(request.output_tokens, tokens(key, value));
    } else if (index == 3) {
      TIERCEL_TRY_VOID(append_ids(key, value, out.ids));
    } else if (index == 4) {
      nested = value;
    } else if (index == 5) {
      std::string_view type;
      if (value.get_string().get(type) != simdjson::SUCCESS)
        return wrong_type(key, value, "a string");
      subagent = type == "subagent";
    }
  }
  request.at_ns += start_ns;
  if (request.at_ns > kTraceTimeNsMax)
    return field_error("t", "adds up to more than a hundred years");
  if (subagent) {
    if (!keys.has(0)) return field_error("t", "is missing in a subagent");
    if (!keys.has(4)) return field_error("requests", "is missing in a subagent");
    if (level + 1 >= kLevelsMax) return field_error("requests", "sub-agents nested too deep");
    out.ids.resize(request.id_first);
    return read_weka_requests(nested, request.at_ns, level + 1, out);
  }
  TIERCEL_TRY_VOID(keys.require(4));
  request.id_count = out.ids.size() - request.id_first;
  const std::uint64_t wanted = request.input_tokens / kWekaIdTokens;
  if (request.id_count != wanted) {
    return field_error("hash_ids",
                       fmt::format("{} ids, but in = {} needs {} (one per full {} tokens)",
                                   request.id_count, request.input_tokens, wanted, kWekaIdTokens));
  }
  out.requests.push_back(request);
  return {};
}

Result<void> read_weka_requests(const dom::element& list, std::int64_t start_ns, int level,
                                WekaSession& out) {
  dom::array requests;
  if (list.get_array().get(requests) != simdjson::SUCCESS)
    return wrong_type("requests", list, "an array");
  std::size_t index = 0;
  for (const dom::element element : requests) {
    dom::object object;
    Result<void> read;
    if (element.get_object().get(object) != simdjson::SUCCESS) {
      read = wrong_type("requests", element, "an object");
    } else {
      read = read_weka_request(object, start_ns, level, out);
    }
    if (!read) {
      Error error = read.error();
      error.what = fmt::format("requests[{}]: {}", index, error.what);
      return error;
    }
    ++index;
  }
  return {};
}

}  // namespace

Result<void> JsonRecords::read_weka(std::string_view text, WekaSession& out) {
  static constexpr std::string_view kNames[] = {"block_size", "requests"};
  TIERCEL_TRY(const dom::object object, parser_->object(text));
  out.requests.clear();
  out.ids.clear();
  Keys keys(kNames);
  for (const auto& [key, value] : object) {
    TIERCEL_TRY(const int index, keys.find(key));
    if (index == 0) {
      TIERCEL_TRY(const std::uint32_t block_size, tokens(key, value));
      if (block_size != kWekaIdTokens) {
        return field_error(key, fmt::format("is {}; only {} is known to merge into {}-token blocks",
                                            block_size, kWekaIdTokens, kMooncakeBlockTokens));
      }
    } else if (index == 1) {
      TIERCEL_TRY_VOID(read_weka_requests(value, 0, 0, out));
    }
  }
  TIERCEL_TRY_VOID(keys.require(2));
  if (out.requests.empty()) return field_error("requests", "holds no request");
  return {};
}

}  // namespace tiercel
