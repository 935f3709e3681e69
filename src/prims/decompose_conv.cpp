// conv and conv_transpose as conv_general, the bias added along the channels.
//
// A transposed convolution is the gradient of a convolution: the input spread by the strides (lhs_dilation), correlated with the weight whose
// spatial axes are reversed and whose channel axes change places within each group.

#include "prims/rules_common.h"
#include "prims/window.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

void check_operands(const Node& node, const char* op) {
  const Type& x = node.operand(0)->type;
  const Type& w = node.operand(1)->type;
  if (x.rank() < 3 || x.rank() != w.rank()) {
    throw RuleError{"type-error", std::string(op) + " has the input `" + to_string(x) + "` and the weight `" + to_string(w) + "`, both need the same rank, 3 or more"};
  }
  const std::vector<int64_t>& kernel = node.attrs.get_ints("kernel");
  const Shape shape = w.shape();
  if (!kernel.empty() && !std::equal(kernel.begin(), kernel.end(), shape.begin() + 2, shape.end())) {
    throw RuleError{"type-error", "`kernel` is " + to_string(std::span<const int64_t>(kernel)) + ", the weight is `" + to_string(w) + "`"};
  }
}

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

Value* with_bias(Builder& b, Value* y, Value* bias) {
  return bias == nullptr ? y : b.add(y, prims::along(b, bias, prims::shape_of(y), 1));
}

int64_t floor_half(int64_t value) { return value >= 0 ? value / 2 : -((1 - value) / 2); }

}  // namespace

Results decompose_conv(Builder& b, const Node& node) {
  check_operands(node, "conv");
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  const std::vector<prims::SpatialAxis> axes =
      prims::spatial_axes(node.attrs, spatial(prims::shape_of(x)), spatial(prims::shape_of(w)), false);
  std::vector<int64_t> strides, low, high, dilations;
  for (const prims::SpatialAxis& axis : axes) {
    strides.push_back(axis.stride);
    low.push_back(axis.low);
    high.push_back(axis.high);
    dilations.push_back(axis.dilation);
  }
  Value* y = b.emit(Op::conv_general_, {x, w}, {{"strides", strides}, {"low", low}, {"high", high}, {"lhs_dilation", std::vector<int64_t>(axes.size(), 1)},
                                                {"rhs_dilation", dilations}, {"groups", node.attrs.get_int("groups")}});
  return {with_bias(b, y, node.operand(2))};
}

Results decompose_conv_transpose(Builder& b, const Node& node) {
  check_operands(node, "conv_transpose");
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  const Shape x_shape = prims::shape_of(x), w_shape = prims::shape_of(w);
  const size_t count = x_shape.size() - 2;
  const int64_t groups = node.attrs.get_int("groups");
  if (x_shape[1] != w_shape[0] || groups < 1 || x_shape[1] % groups != 0) {
    throw RuleError{"type-error", "conv_transpose has " + std::to_string(x_shape[1]) + " input channels, " + std::to_string(groups) + " groups and the weight `" +
                                      to_string(w->type) + "`"};
  }
  const std::vector<int64_t> strides = prims::per_axis(node.attrs, "strides", count, 1), dilations = prims::per_axis(node.attrs, "dilations", count, 1);
  const std::vector<int64_t> pads = prims::per_axis(node.attrs, "pads", 2 * count, 0), extra = prims::per_axis(node.attrs, "output_padding", count, 0);
  std::vector<int64_t> output_shape = node.attrs.get_ints("output_shape");
  if (output_shape.size() == count + 2) output_shape.erase(output_shape.begin(), output_shape.begin() + 2);   // batch and channels may be named
  const std::string& auto_pad = node.attrs.get_string("auto_pad");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "" && auto_pad != "NOTSET" && auto_pad != "VALID") {
    throw RuleError{"unsupported-attribute", "`auto_pad` is \"" + auto_pad + "\", known are NOTSET, VALID, SAME_UPPER and SAME_LOWER"};
  }
  if (!output_shape.empty() && output_shape.size() != count) {
    throw RuleError{"type-error", "`output_shape` has " + std::to_string(output_shape.size()) + " values, " + std::to_string(count) + " are needed"};
  }
  std::vector<int64_t> low, high;
  for (size_t i = 0; i < count; ++i) {
    const int64_t extent = (w_shape[i + 2] - 1) * dilations[i] + 1;
    const int64_t unpadded = (x_shape[i + 2] - 1) * strides[i] + extent + extra[i];
    int64_t begin = auto_pad == "VALID" ? 0 : pads[i], end = auto_pad == "VALID" ? 0 : pads[count + i];
    if (same || !output_shape.empty()) {
      const int64_t total = unpadded - (output_shape.empty() ? x_shape[i + 2] * strides[i] : output_shape[i]);
      // A total below 0 asks for more than there is; what is missing comes at the end.
      begin = auto_pad == "SAME_UPPER" ? floor_half(total) : total - floor_half(total);
      end = total - begin;
    }
    low.push_back(extent - 1 - begin);
    high.push_back(extent - 1 - end + extra[i]);
  }
  // [C, M / g, k...] -> [g, C / g, M / g, k...] -> [g, M / g, C / g, k...] -> [M, C / g, k...], k reversed.
  std::vector<int64_t> spatial_of_w = prims::axes_from(2, w->type.rank());
  Value* kernel = b.emit(Op::reverse_, {w}, {{"axes", spatial_of_w}});
  Shape split{groups, w_shape[0] / groups, w_shape[1]}, joined{w_shape[1] * groups, w_shape[0] / groups};
  std::vector<int64_t> permutation{0, 2, 1};
  for (size_t i = 0; i < count; ++i) {
    split.push_back(w_shape[i + 2]);
    joined.push_back(w_shape[i + 2]);
    permutation.push_back(static_cast<int64_t>(i) + 3);
  }
  if (groups == 1) {
    split.erase(split.begin());
    permutation.erase(permutation.begin());
    for (int64_t& axis : permutation) --axis;
  }
  kernel = b.reshape(b.transpose(b.reshape(kernel, split), permutation), joined);
  Value* y = b.emit(Op::conv_general_, {x, kernel}, {{"strides", std::vector<int64_t>(count, 1)}, {"low", low}, {"high", high}, {"lhs_dilation", strides},
                                                     {"rhs_dilation", dilations}, {"groups", groups}});
  return {with_bias(b, y, node.operand(2))};
}

}  // namespace tcc
