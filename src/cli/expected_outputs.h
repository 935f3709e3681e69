// tcc run --expect ref.npz: the values that a run is to give.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tcc/driver/tolerance.h"
#include "tcc/runtime/library.h"
#include "tcc/support/tensor.h"

namespace tcc::cli {

class ExpectedOutputs {
 public:
  /// Reads the archive. Its arrays are named like outputs of `function`; those named like inputs are left alone, so that one file may hold
  /// both. Errors (usage): an array of another name or shape, or none that is an output.
  ExpectedOutputs(const std::string& path, const runtime::FunctionInfo& function);

  /// Null when the archive has none of that name. Tolerances that are not given are those of `tcc verify` for the output's dtype.
  std::optional<driver::Comparison> compare(const std::string& name, const Tensor& found, std::optional<double> rtol,
                                            std::optional<double> atol) const;

 private:
  std::map<std::string, Tensor> arrays_;
};

/// "largest difference 1e-06 (largest element 2.5), as expected"
std::string describe(const driver::Comparison& comparison);
nlohmann::ordered_json to_json(const driver::Comparison& comparison);

}  // namespace tcc::cli
