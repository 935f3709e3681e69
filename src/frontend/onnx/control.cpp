// Control flow: an If whose condition is known takes its branch; one that depends on data is refused.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_if(NodeContext& node) {
  const auto condition = node.constant(0);
  const auto& then_branch = node.graph("then_branch");
  const auto& else_branch = node.graph("else_branch");
  node.in(0);
  if (!condition) node.refuse("unsupported-control-flow", "the condition of this If depends on the inputs of the model");
  if (condition->count() != 1)
    node.refuse("type-error", "the condition has " + std::to_string(condition->count()) + " elements, 1 was expected");
  const auto values = node.inline_subgraph(condition->as_int64(0) != 0 ? then_branch : else_branch);
  if (static_cast<int>(values.size()) < node.num_outputs()) {
    node.refuse("malformed-file",
                "the branch has " + std::to_string(values.size()) + " outputs, the node has " + std::to_string(node.num_outputs()));
  }
  for (int i = 0; i < node.num_outputs(); ++i) node.set(i, values[static_cast<size_t>(i)]);
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "If", import_if},
});

}  // namespace

std::span<const Handler> control_handlers() { return kHandlers; }

}  // namespace tcc::onnx
