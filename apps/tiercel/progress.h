// Progress of long work on standard error: a bar that redraws itself on a terminal, a plain line every tenth elsewhere.
//
// Threads one thread.
#pragma once

#include <cstddef>
#include <string>

namespace tiercel::app {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // Clears the bar.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t done, std::size_t total);

 private:
  const std::string what_;
  const bool terminal_;
  std::size_t shown_ = static_cast<std::size_t>(-1);  // Percent on a terminal, tenths elsewhere.
};

}  // namespace tiercel::app
