// What a long compilation is doing, on stderr.
//
// automatic: one line that is rewritten, only on a terminal and only once a second has passed, so that a quick compilation stays silent.
// plain: a line per step, for logs. json, for tools: an object when a step begins, {"step": "import", "parts": 0}, and one when it is over, with
// "done": true and "ms".
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "tcc/driver/options.h"

namespace tcc::driver {

class Progress {
 public:
  explicit Progress(ProgressStyle style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A new step begins; `total` is the number of parts that advance() will count, 0 when it has none.
  void step(const std::string& name, int64_t total = 0);
  /// One more part is done. May be called by several threads.
  void advance();
  /// Removes the line, so that messages begin at the left edge.
  void clear();

 private:
  void show();
  void finish();

  std::mutex mutex_;
  ProgressStyle style_;
  std::string name_;
  int64_t done_ = 0, total_ = 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_ = start_, step_start_ = start_;
};

}  // namespace tcc::driver
