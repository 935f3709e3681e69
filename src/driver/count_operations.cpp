#include "tcc/driver/count_operations.h"

namespace tcc::driver {

namespace {

/// CompiledModule that are summed up to one element of the result.
double depth_of(const Node& node) {
  const Shape a = node.operand(0)->type.shape(), b = node.operand(1)->type.shape();
  double depth = 1;
  if (node.op == Op::dot_general_) {
    for (const int64_t axis : node.attrs.get_ints("lhs_contract")) depth *= static_cast<double>(a[static_cast<size_t>(axis)]);
  } else {
    for (size_t i = 1; i < b.size(); ++i) depth *= static_cast<double>(b[i]);  // channels of a group, and the window
  }
  return depth;
}

double count(const Node& node) {
  const auto elements = static_cast<double>(node.result()->type.count());
  switch (info(node.op).lowering) {
    case Lowering::contract: return 2 * depth_of(node) * elements;
    case Lowering::pointwise: return node.op == Op::cast_ || node.op == Op::bitcast_ ? 0 : elements;
    case Lowering::reduce:
    case Lowering::scan: return static_cast<double>(node.operand(0)->type.count());
    case Lowering::window: {
      double window = 1;
      for (const int64_t extent : node.attrs.get_ints("window")) window *= static_cast<double>(extent);
      return window * elements;
    }
    default: return 0;
  }
}

}  // namespace

double count_operations(const Graph& prims) {
  double total = 0;
  for (const auto& node : prims.body.nodes) total += count(*node);
  return total;
}

}  // namespace tcc::driver
