// conv as conv_general, the bias added along the channels.

#include "rules/window.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {

namespace rules {

void check_conv_operands(const Node& node, const char* op) {
  const Type& x = node.operand(0)->type;
  const Type& w = node.operand(1)->type;
  if (x.rank() < 3 || x.rank() != w.rank()) {
    throw RuleError{"type-error", std::string(op) + " has the input `" + to_string(x) + "` and the weight `" + to_string(w) +
                                      "`, both need the same rank, 3 or more"};
  }
  const std::vector<int64_t>& kernel = node.attrs.get_ints("kernel");
  const Shape shape = w.shape();
  if (!kernel.empty() && !std::equal(kernel.begin(), kernel.end(), shape.begin() + 2, shape.end())) {
    throw RuleError{"type-error", "`kernel` is " + to_string(std::span<const int64_t>(kernel)) + ", the weight is `" + to_string(w) + "`"};
  }
}

Value* with_bias(Builder& b, Value* y, Value* bias) { return bias == nullptr ? y : b.add(y, along(b, bias, shape_of(y), 1)); }

}  // namespace rules

namespace {

using Results = std::vector<Value*>;

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

}  // namespace

Results decompose_conv(Builder& b, const Node& node) {
  rules::check_conv_operands(node, "conv");
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  const std::vector<rules::SpatialAxis> axes =
      rules::spatial_axes(node.attrs, spatial(rules::shape_of(x)), spatial(rules::shape_of(w)), false);
  std::vector<int64_t> strides, low, high, dilations;
  for (const rules::SpatialAxis& axis : axes) {
    strides.push_back(axis.stride);
    low.push_back(axis.low);
    high.push_back(axis.high);
    dilations.push_back(axis.dilation);
  }
  Value* y = b.emit(Op::conv_general_, {x, w},
                    {{"strides", strides},
                     {"low", low},
                     {"high", high},
                     {"lhs_dilation", std::vector<int64_t>(axes.size(), 1)},
                     {"rhs_dilation", dilations},
                     {"groups", node.attrs.get_int("groups")}});
  return {rules::with_bias(b, y, node.operand(2))};
}

}  // namespace tcc
