// `tcc tune`: candidates for the schedules of a model's units, timed on the device at hand; the fastest go to the file of --tune-db.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/schedule/candidates.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

struct TuneOptions {
  int candidates = static_cast<int>(schedule::kFewCandidates);  ///< of a unit, at most
  int threads = 0;                                              ///< that kernels for the CPU are timed with; 0: what this process may use
  bool again = false;                                           ///< also what the file has
  bool cuda_needed = false;                                     ///< --target names cuda: without a device that is an error
  std::function<bool()> stop = {};                              ///< asked between units; what was measured is kept
};

struct TunedUnit {
  std::string target, computes;
  double default_us = 0, tuned_us = 0;
  size_t candidates = 0;
};

struct TuneReport {
  std::vector<std::string> devices;  ///< "x86-64-v3 on AMD EPYC 9354, 2 threads"
  std::vector<TunedUnit> tuned;      ///< now
  size_t known = 0, single = 0;      ///< units that the file had already; that have nothing to be tuned
  bool stopped = false;
};

/// Writes the file whenever some units are measured, whole. Errors: those of compiling; environment when a device is missing, or refuses a candidate.
TuneReport tune(const Options& options, const TuneOptions& tuning, Diagnostics& diagnostics);

}  // namespace tcc::driver
