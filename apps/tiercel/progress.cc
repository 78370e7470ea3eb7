#include "apps/tiercel/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace tiercel::app {

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && shown_ != static_cast<std::size_t>(-1)) fmt::print(stderr, "\r\033[K");
}

void Progress::show(std::size_t done, std::size_t total) {
  const std::size_t step = terminal_ ? done * 100 / total : done * 10 / total;
  if (step == shown_) return;
  shown_ = step;
  if (!terminal_) {
    fmt::print(stderr, "{}: {} % ({} of {} requests)\n", what_, step * 10, done, total);
    return;
  }
  constexpr std::size_t kWidth = 40;
  const std::size_t filled = step * kWidth / 100;
  fmt::print(stderr, "\r{} [{}{}] {:3} %", what_, std::string(filled, '='),
             std::string(kWidth - filled, ' '), step);
  std::fflush(stderr);
}

}  // namespace tiercel::app
