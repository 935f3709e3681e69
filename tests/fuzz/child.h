// Programs run with limits on time and memory.
#pragma once

#include <string>
#include <vector>

namespace tcc::attack {

struct Outcome {
  int exit_code = -1;  ///< -1 where a signal ended it
  int signal = 0;
  bool timed_out = false;
  double cpu_seconds = 0;
  std::string errors;        ///< the last of what it wrote to standard error
  std::string output;        ///< and to standard output
  std::string text() const;  ///< "exit 4", "signal 11 (Segmentation fault)", "no end after 10 s"
};

/// Runs a command in `folder`, which is its TMPDIR too. It ends when it took 10 s of CPU time, a minute in all, or more than `memory_bytes` of address
/// space (of which it is told by failing allocations).
Outcome run(const std::vector<std::string>& command, const std::string& folder, size_t memory_bytes = size_t{6} << 30);

}  // namespace tcc::attack
