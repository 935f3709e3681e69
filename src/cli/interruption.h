// SIGINT and SIGTERM as a request, for work that has something to save first.
#pragma once

#include <csignal>

namespace tcc::cli {

/// While it lives the first of these signals only sets requested(); a second one that comes later than a fifth of a second does what the first would
/// have done without this.
/// One at a time in a process.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool requested() const;
  /// 128 + the signal's number, as shells have it: 130 for SIGINT, 143 for SIGTERM.
  int exit_code() const;
};

}  // namespace tcc::cli
