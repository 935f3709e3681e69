#include "cli/expected_outputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/tensor_summary.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/npy.h"

namespace tcc::cli {
namespace {

const runtime::TensorInfo* find(const std::vector<runtime::TensorInfo>& tensors, const std::string& name) {
  const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const runtime::TensorInfo& tensor) { return tensor.name == name; });
  return at == tensors.end() ? nullptr : &*at;
}

std::string list_of(const std::vector<runtime::TensorInfo>& tensors) {
  std::string text;
  for (const runtime::TensorInfo& tensor : tensors) text += (text.empty() ? "`" : ", `") + tensor.name + "`";
  return text;
}

}  // namespace

ExpectedOutputs::ExpectedOutputs(const std::string& path, const runtime::FunctionInfo& function) {
  Diagnostics diagnostics;
  bool unknown = false;
  for (auto& [name, tensor] : read_npz(path)) {
    const runtime::TensorInfo* output = find(function.outputs, name);
    if (output == nullptr) {
      if (find(function.inputs, name) != nullptr) continue;
      diagnostics.error("unknown-output", path, "array `" + name + "` is neither an output nor an input of the library");
      unknown = true;
    } else if (tensor.shape() != output->shape) {
      diagnostics.error(
          "invalid-argument", path,
          "array `" + name + "` is " + to_string(std::span(tensor.shape())) + ", the output is " + to_string(std::span(output->shape)));
    } else {
      arrays_.emplace(name, std::move(tensor));
    }
  }
  if (arrays_.empty() && diagnostics.num_errors() == 0) {
    diagnostics.error("unknown-output", path, "holds no output of the library");
    unknown = true;
  }
  if (unknown) diagnostics.help(path, "outputs are " + list_of(function.outputs));
  diagnostics.checkpoint(ExitCode::usage);
}

std::optional<driver::Comparison> ExpectedOutputs::compare(const std::string& name, const Tensor& found, std::optional<double> rtol,
                                                           std::optional<double> atol) const {
  const auto at = arrays_.find(name);
  if (at == arrays_.end()) return std::nullopt;
  const DType dtype = found.dtype();
  driver::Tolerance tolerance = driver::default_tolerance(is_float(dtype) ? std::optional(dtype) : std::nullopt);
  if (rtol) tolerance.rtol = *rtol;
  if (atol) tolerance.atol = *atol, tolerance.of_largest = 0;
  return driver::compare(found, at->second, tolerance);
}

std::string describe(const driver::Comparison& comparison) {
  return "largest difference " + number_text(comparison.max_absolute) + " (largest element " + number_text(comparison.largest) + ")" +
         (comparison.num_wrong > 0 ? ", differs" : ", as expected");
}

nlohmann::ordered_json to_json(const driver::Comparison& comparison) {
  return {{"elements", comparison.num_elements},
          {"different", comparison.num_wrong},
          {"largest_difference", comparison.max_absolute},
          {"largest_element", comparison.largest}};
}

}  // namespace tcc::cli
