// Reductions and arg-reductions. `axes` was an attribute before opset 13 (ReduceSum) or 18 (the others).
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_reduce(NodeContext& node, const char* op, int64_t operand_since) {
  Value* axes = node.operand_or_ints(1, "axes", operand_since);
  std::vector<Value*> operands{node.in(0)};
  if (axes != nullptr) operands.push_back(axes);
  const bool noop = node.opset() >= operand_since && node.flag("noop_with_empty_axes", false);
  node.result(Op::dynamic_reduce_, std::move(operands),
              {{"op", std::string(op)}, {"keepdims", node.flag("keepdims", true)}, {"noop_with_empty_axes", noop}});
}

void import_arg_reduce(NodeContext& node, const char* op) {
  const bool last = node.opset() >= 12 && node.flag("select_last_index", false);
  node.result(Op::arg_reduce_, {node.in(0)},
              {{"op", std::string(op)}, {"axis", node.axis("axis", 0)}, {"keepdims", node.flag("keepdims", true)}, {"last", last}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "ArgMax", [](NodeContext& node) { import_arg_reduce(node, "max"); }},
    {"", "ArgMin", [](NodeContext& node) { import_arg_reduce(node, "min"); }},
    {"", "ReduceL1", [](NodeContext& node) { import_reduce(node, "l1", 18); }},
    {"", "ReduceL2", [](NodeContext& node) { import_reduce(node, "l2", 18); }},
    {"", "ReduceLogSum", [](NodeContext& node) { import_reduce(node, "log_sum", 18); }},
    {"", "ReduceLogSumExp", [](NodeContext& node) { import_reduce(node, "log_sum_exp", 18); }},
    {"", "ReduceMax", [](NodeContext& node) { import_reduce(node, "max", 18); }},
    {"", "ReduceMean", [](NodeContext& node) { import_reduce(node, "mean", 18); }},
    {"", "ReduceMin", [](NodeContext& node) { import_reduce(node, "min", 18); }},
    {"", "ReduceProd", [](NodeContext& node) { import_reduce(node, "prod", 18); }},
    {"", "ReduceSum", [](NodeContext& node) { import_reduce(node, "sum", 13); }},
    {"", "ReduceSumSquare", [](NodeContext& node) { import_reduce(node, "sum_square", 18); }},
});

}  // namespace

std::span<const Handler> reduce_handlers() { return kHandlers; }

}  // namespace tcc::onnx
