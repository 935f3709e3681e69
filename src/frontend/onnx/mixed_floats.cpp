// Weights of another float type than the data beside them. ONNX forbids them, but exporters write them: one that folds a batch norm into a convolution computes
// the new weights in f32, also in a model of bf16. Such weights are converted to the type of the data, with a warning.
#include <algorithm>
#include <array>

#include "frontend/onnx/importer.h"

namespace tcc::onnx {
namespace {

// Ops of ONNX whose float operands all have one type.
constexpr auto kOfOneType = std::to_array<std::string_view>(
    {"Add",  "Concat", "Conv", "ConvTranspose", "Div", "Einsum", "Equal", "Gemm", "Greater", "InstanceNormalization",
     "Less", "MatMul", "Max",  "Mean",          "Min", "Mul",    "PRelu", "Sub",  "Sum",     "Where"});

bool is_common_float(DType dtype) { return is_float(dtype) && size_bits(dtype) >= 16; }

}  // namespace

void Importer::convert_weights(NodeContext& context, Builder& builder, std::string_view domain) {
  if (!domain.empty() || std::find(kOfOneType.begin(), kOfOneType.end(), context.op_type()) == kOfOneType.end()) return;
  const auto is_usable = [&](const Value* value) {
    return value != nullptr && sequence(value) == nullptr && is_common_float(value->type.dtype);
  };
  const Value* data = nullptr;
  for (const Value* operand : context.inputs_) {
    if (!is_usable(operand) || operand->weight != nullptr || narrow(operand) != nullptr) continue;
    if (data != nullptr && data->type.dtype != operand->type.dtype) return;  // a fault of its own
    data = operand;
  }
  if (data == nullptr) return;
  for (Value*& operand : context.inputs_) {
    if (!is_usable(operand) || operand->weight == nullptr || narrow(operand) != nullptr || operand->type.dtype == data->type.dtype)
      continue;
    if (num_converted_weights_++ == 0) {
      first_converted_weight_ = {builder.loc().node, "the weight `" + operand->name + "` is " + std::string(name_of(operand->type.dtype)) +
                                                         ", `" + data->name + "` beside it is " + std::string(name_of(data->type.dtype))};
    }
    operand = builder.cast(operand, data->type.dtype);
  }
}

void Importer::warn_of_converted_weights() {
  if (num_converted_weights_ == 0) return;
  std::string text = first_converted_weight_.second + ": it is converted";
  if (num_converted_weights_ > 1)
    text += ", as " + std::to_string(num_converted_weights_ - 1) + " more operand" + (num_converted_weights_ > 2 ? "s are" : " is");
  diagnostics_.warning("mixed-dtypes", faults_.where(first_converted_weight_.first), text);
}

}  // namespace tcc::onnx
