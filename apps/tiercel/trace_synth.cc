// `tiercel trace synth`: writes a synthetic trace in Tiercel's own format, to a file or to standard output.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/tiercel/commands.h"
#include "apps/tiercel/say.h"
#include "trace/synthesize.h"
#include "trace/write_trace.h"

namespace tiercel::app {
namespace {

// Closes a file only where it is ours.
class Output {
 public:
  explicit Output(const std::string& path)
      : file_(path.empty() ? stdout : std::fopen(path.c_str(), "we")), owned_(!path.empty()) {}
  ~Output() {
    if (owned_ && file_ != nullptr) std::fclose(file_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool is_open() const { return file_ != nullptr; }
  bool write(const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), file_) == text.size();
  }
  bool flush() { return std::fflush(file_) == 0; }

 private:
  std::FILE* const file_;
  const bool owned_;
};

bool write_all(Output& output, const Trace& trace, const TraceSynthArgs& args) {
  const std::string source =
      fmt::format("tiercel trace synth --kind {} --seed {}", args.kind, args.seed);
  if (!output.write(trace_header_line(trace, source))) return false;
  for (const Request& request : trace.requests) {
    if (!output.write(trace_request_line(trace, request))) return false;
  }
  return output.flush();
}

}  // namespace

int run_trace_synth(const TraceSynthArgs& args) {
  const auto trace = synthesize({.kind = args.kind, .seed = args.seed, .requests = args.requests});
  if (!trace) return complain(trace.error());
  Output output(args.output);
  if (!output.is_open()) {
    complain(fail_errno(args.output + ": cannot be written", errno));
    return kBadInput;
  }
  if (!write_all(output, *trace, args)) {
    return complain(fail_errno((args.output.empty() ? "standard output" : args.output) +
                                   ": writing failed, what is there is incomplete",
                               errno));
  }
  return kOk;
}

}  // namespace tiercel::app
