// Constants: nodes that hold their value become weights with the name of their output, which do not train.
#include <array>

#include "frontend/onnx/handlers.h"
#include "frontend/onnx/importer.h"

namespace tcc::onnx {
namespace {

void import_constant(NodeContext& node) {
  for (const char* name : {"value_string", "value_strings"}) {
    if (node.has_attribute(name)) node.refuse("unsupported-dtype", "`" + std::string(name) + "` holds text");
  }
  if (node.has_attribute("value_int")) {  // a scalar needs no weight
    return node.result(Op::full_, {}, {{"value", node.integer("value_int", 0)}, {"shape", std::vector<int64_t>()}, {"dtype", DType::i64}});
  }
  if (node.has_attribute("value_float")) {
    return node.result(Op::full_, {}, {{"value", node.number("value_float", 0)}, {"shape", std::vector<int64_t>()}, {"dtype", DType::f32}});
  }
  Tensor tensor;
  if (node.has_attribute("value_ints")) {
    tensor = Tensor::from_ints(node.integers("value_ints"));
  } else if (node.has_attribute("value_floats")) {
    const auto values = node.numbers("value_floats");
    tensor = Tensor(DType::f32, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) tensor.set_double(static_cast<int64_t>(i), values[i]);
  } else {
    auto value = node.tensor("value");
    if (!value) value = node.tensor("sparse_value");
    if (!value) node.refuse("malformed-file", "the constant has no value");
    tensor = *value;
  }
  node.set_weight(0, std::move(tensor));
  node.set_narrow(0, node.narrow_tensor(node.has_attribute("value") ? "value" : "sparse_value"));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Constant", import_constant},
});

}  // namespace

std::span<const Handler> constant_handlers() { return kHandlers; }

}  // namespace tcc::onnx
