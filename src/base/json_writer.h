// Writes one JSON document as text: for --json output and reports. Reading is elsewhere.
//
// Numbers are written unrounded: the shortest text that reads back to the same double; NaN and infinities become null.
// Keys keep the order of the calls. Commas, quoting and (with pretty) indentation are the writer's business.
//
//   JsonWriter json;
//   json.begin_object().key("schema").value("tiercel.trace_info/1").key("requests").value(12U).end_object();
//
// Threads one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tiercel {

class JsonWriter {
 public:
  explicit JsonWriter(bool pretty = true) : pretty_(pretty) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint32_t number) { return value(static_cast<std::uint64_t>(number)); }
  JsonWriter& value(std::int32_t number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& null();

  template <class T>
  JsonWriter& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  // The document so far; complete once every begin has its end.
  const std::string& text() const { return text_; }

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();

  const bool pretty_;
  std::string text_;
  std::vector<bool> empty_;  // One per open bracket: nothing written in it yet.
  bool after_key_ = false;
};

}  // namespace tiercel
