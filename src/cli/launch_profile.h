// tcc bench --profile: what each launch takes, as medians over many runs, beside the whole run.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tcc/runtime/library.h"

namespace tcc::cli {

struct LaunchProfile {
  struct Row {
    std::string label, kernel;
    uint64_t grid = 0;
    double median_us = 0;
    std::optional<double> share;  ///< of the sum, in percent; none where the times do not say
  };
  std::vector<Row> rows;
  int runs = 0;
  double sum_us = 0;    ///< of the medians
  double whole_us = 0;  ///< median of runs without a clock in between
  std::string doubt;    ///< why there are no shares; empty where there are
};

/// Profiles the prepared run `runs` times, or less when that takes longer than a second. `whole_us` is the median of whole runs.
LaunchProfile profile_launches(runtime::Instance& instance, double whole_us, int runs);

std::string to_text(const LaunchProfile& profile);
void add_to(const LaunchProfile& profile, nlohmann::ordered_json* report);

}  // namespace tcc::cli
