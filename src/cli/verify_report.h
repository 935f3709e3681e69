// What `tcc verify` says: a line per output and per gradient as they come, then the verdict; or one JSON object. Faults go to standard error, after what is
// on standard output.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/tensor_summary.h"
#include "tcc/driver/array_files.h"
#include "tcc/driver/finite_differences.h"
#include "tcc/driver/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc::cli {

class VerifyReport {
 public:
  VerifyReport(std::string model, bool json) : model_(std::move(model)), json_(json) {}
  /// With the inputs that were random.
  void add(const driver::Verification& verification, const std::vector<driver::Drawn>& drawn);
  void add(const driver::DirectionalDerivative& derivative);
  /// After a verification that failed.
  void add(const driver::FirstDifference& first);
  /// Prints the verdict. 0, or an Error (verification) with all that differs.
  int finish();

 private:
  void say(const std::string& text) const;
  std::string verdict() const;

  std::string model_;
  bool json_;
  int num_outputs_ = 0, num_states_ = 0, num_runs_ = 1, num_wrong_ = 0, num_derivatives_ = 0, num_wrong_derivatives_ = 0;
  std::map<std::string, std::vector<std::string>> outputs_by_tolerance_;
  std::vector<driver::Comparison> wrong_;
  Diagnostics faults_;
  nlohmann::ordered_json object_;
};

}  // namespace tcc::cli
