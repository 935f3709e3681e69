// conv_transpose as conv_general, in one of two ways.
//
// With a stride above 1 and no dilation, by phases: the results at positions r, s + r, 2s + r, ... of an axis with stride s read every s-th weight
// only, w[r], w[s + r], ... So one convolution of stride 1 with ceil(k / s) weights computes all s phases of every axis as channels of their own,
// and the phases are then interleaved, which is a view:
//   F[q * s + r] = sum over t of x[q - t] * w[t * s + r]          (F: the result before padding crops it)
// It multiplies no zeros, where the other way does so for all but one weight in s (per axis).
//
// Otherwise as the gradient of a convolution: the input spread by the strides (lhs_dilation), correlated with the reversed weight. Either way the
// channel axes of the weight change places within each group. Weights are constants mostly, so that all rearranging of them folds away.

#include "rules/window.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

struct Axis {
  int64_t input, kernel, stride, dilation;
  int64_t begin;  ///< how much of the unpadded result is cropped at the start (negative: zeros are put there)
  int64_t output;
  int64_t extent() const { return checked_multiply(kernel - 1, dilation, "the extent of a dilated kernel") + 1; }
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::vector<Axis> axes_of(const Node& node) {
  const Attrs& attrs = node.attrs;
  const Shape x = rules::shape_of(node.operand(0)), w = rules::shape_of(node.operand(1));
  const size_t count = x.size() - 2;
  const std::vector<int64_t> strides = rules::per_axis(attrs, "strides", count, 1),
                             dilations = rules::per_axis(attrs, "dilations", count, 1);
  const std::vector<int64_t> pads = rules::per_axis(attrs, "pads", 2 * count, 0),
                             extra = rules::per_axis(attrs, "output_padding", count, 0);
  std::vector<int64_t> output_shape = attrs.get_ints("output_shape");
  if (output_shape.size() == count + 2)
    output_shape.erase(output_shape.begin(), output_shape.begin() + 2);  // batch and channels may be named
  if (!output_shape.empty() && output_shape.size() != count) {
    throw RuleError{"type-error",
                    "`output_shape` has " + std::to_string(output_shape.size()) + " values, " + std::to_string(count) + " are needed"};
  }
  const std::string& auto_pad = attrs.get_string("auto_pad");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "" && auto_pad != "NOTSET" && auto_pad != "VALID") {
    throw RuleError{"unsupported-attribute", "`auto_pad` is \"" + auto_pad + "\", known are NOTSET, VALID, SAME_UPPER and SAME_LOWER"};
  }
  std::vector<Axis> axes;
  for (size_t i = 0; i < count; ++i) {
    Axis axis{x[i + 2], w[i + 2], strides[i], dilations[i], 0, 0};
    if (axis.stride < 1 || axis.dilation < 1)
      throw RuleError{"type-error", "stride or dilation of spatial axis " + std::to_string(i) + " is below 1"};
    const int64_t spread = checked_multiply(axis.input, axis.stride, "the extent of the spread input");
    const int64_t unpadded = spread - axis.stride + axis.extent() + extra[i];
    int64_t total = auto_pad == "VALID" ? 0 : pads[i] + pads[count + i];
    axis.begin = auto_pad == "VALID" ? 0 : pads[i];
    if (same || !output_shape.empty()) {
      // A total below 0 asks for more than there is; what is missing comes at the end.
      total = unpadded - (output_shape.empty() ? spread : output_shape[i]);
      axis.begin = auto_pad == "SAME_UPPER" ? floor_div(total, 2) : total - floor_div(total, 2);
    }
    axis.output = unpadded - total;
    if (axis.output < 0)
      throw RuleError{"type-error",
                      "the pads of spatial axis " + std::to_string(i) + " crop more than its " + std::to_string(unpadded) + " results"};
    axes.push_back(axis);
  }
  return axes;
}

/// [C, M / g, k...] -> [g, M / g, C / g, k...]; the leading axis is there with one group too.
Value* channels_swapped(Builder& b, Value* w, int64_t groups) {
  const Shape shape = rules::shape_of(w);
  Shape split{groups, shape[0] / groups};
  split.insert(split.end(), shape.begin() + 1, shape.end());
  std::vector<int64_t> permutation{0, 2, 1};
  for (int64_t i = 3; i < static_cast<int64_t>(split.size()); ++i) permutation.push_back(i);
  return b.transpose(b.reshape(w, split), permutation);
}

Value* as_gradient(Builder& b, Value* x, Value* w, const std::vector<Axis>& axes, int64_t groups) {
  const Shape w_shape = rules::shape_of(w);
  std::vector<int64_t> low, high, strides, dilations;
  for (const Axis& axis : axes) {
    low.push_back(axis.extent() - 1 - axis.begin);
    const int64_t spread = (axis.input - 1) * axis.stride + 1;
    high.push_back(axis.output - 1 - spread - low.back() + axis.extent());
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
  }
  Shape joined{w_shape[1] * groups, w_shape[0] / groups};
  joined.insert(joined.end(), w_shape.begin() + 2, w_shape.end());
  Value* reversed = b.emit(Op::reverse_, {w}, {{"axes", rules::axes_from(2, w->type.rank())}});
  Value* kernel = b.reshape(channels_swapped(b, reversed, groups), joined);
  return b.emit(Op::conv_general_, {x, kernel},
                {{"strides", std::vector<int64_t>(axes.size(), 1)},
                 {"low", low},
                 {"high", high},
                 {"lhs_dilation", strides},
                 {"rhs_dilation", dilations},
                 {"groups", groups}});
}

Value* by_phases(Builder& b, Value* x, Value* w, Value* bias, const std::vector<Axis>& axes, int64_t groups) {
  const size_t count = axes.size();
  const Shape w_shape = rules::shape_of(w);
  const int64_t outputs = w_shape[1] * groups, inputs = w_shape[0] / groups;
  // Weights filled up to taps * stride per axis, then [g, M / g, C / g, taps, s, taps, s, ...] -> [M, s..., C / g, taps...], taps reversed.
  std::vector<int64_t> none(count + 2, 0), fill(count + 2, 0), taps(count), permutation{0, 1}, tap_axes;
  Shape split{groups, w_shape[1], inputs};
  int64_t phases = 1;
  for (size_t i = 0; i < count; ++i) {
    taps[i] = (axes[i].kernel + axes[i].stride - 1) / axes[i].stride;
    fill[i + 2] = taps[i] * axes[i].stride - axes[i].kernel;
    split.push_back(taps[i]);
    split.push_back(axes[i].stride);
    permutation.push_back(static_cast<int64_t>(4 + 2 * i));
    tap_axes.push_back(static_cast<int64_t>(i) + 2);
    phases = checked_multiply(phases, axes[i].stride, "the number of phases");
  }
  permutation.push_back(2);
  for (size_t i = 0; i < count; ++i) permutation.push_back(static_cast<int64_t>(3 + 2 * i));
  Value* filled = b.pad(w, b.full(rules::dtype_of(w), {}, 0), none, fill);
  Value* kernel = b.transpose(b.reshape(channels_swapped(b, filled, groups), split), permutation);
  Shape joined{checked_multiply(outputs, phases, "the number of channels of all phases"), inputs};
  joined.insert(joined.end(), taps.begin(), taps.end());
  kernel = b.reshape(kernel, joined);
  if (std::any_of(taps.begin(), taps.end(), [](int64_t n) { return n > 1; })) kernel = b.emit(Op::reverse_, {kernel}, {{"axes", tap_axes}});

  // Only the q that the result needs: first .. last of each axis.
  std::vector<int64_t> low, high, ones(count, 1);
  Shape interleaved{rules::extent_of(x, 0), outputs}, spread{rules::extent_of(x, 0), outputs};
  std::vector<int64_t> order{0, 1}, starts{0, 0}, limits{rules::extent_of(x, 0), outputs};
  for (const Axis& axis : axes) spread.push_back(axis.stride);
  for (size_t i = 0; i < count; ++i) {
    const Axis& axis = axes[i];
    const int64_t first = floor_div(axis.begin, axis.stride);
    const int64_t positions = floor_div(axis.begin + axis.output - 1, axis.stride) - first + 1;
    low.push_back(taps[i] - 1 - first);
    high.push_back(positions - 1 - axis.input - low.back() + taps[i]);
    spread.push_back(positions);
    order.push_back(static_cast<int64_t>(2 + count + i));
    order.push_back(static_cast<int64_t>(2 + i));
    interleaved.push_back(positions * axis.stride);
    starts.push_back(axis.begin - first * axis.stride);
    limits.push_back(starts.back() + axis.output);
  }
  Value* y = b.emit(Op::conv_general_, {x, kernel},
                    {{"strides", ones}, {"low", low}, {"high", high}, {"lhs_dilation", ones}, {"rhs_dilation", ones}, {"groups", groups}});
  // The bias goes first, while the result is that of a convolution.
  if (bias != nullptr) y = rules::with_bias(b, y, b.reshape(b.broadcast_in_dim(bias, {outputs, phases}, {0}), {outputs * phases}));
  return b.slice(b.reshape(b.transpose(b.reshape(y, spread), order), interleaved), starts, limits);
}

}  // namespace

Results decompose_conv_transpose(Builder& b, const Node& node) {
  rules::check_conv_operands(node, "conv_transpose");
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  const int64_t channels = rules::extent_of(x, 1), groups = node.attrs.get_int("groups");
  if (channels != rules::extent_of(w, 0) || groups < 1 || channels % groups != 0) {
    throw RuleError{"type-error", "conv_transpose has " + std::to_string(channels) + " input channels, " + std::to_string(groups) +
                                      " groups and the weight `" + to_string(w->type) + "`"};
  }
  const std::vector<Axis> axes = axes_of(node);
  const bool strided = std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.stride > 1; });
  const bool plain =
      std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.dilation == 1 && axis.input > 0 && axis.output > 0; });
  if (strided && plain) return {by_phases(b, x, w, node.operand(2), axes, groups)};
  return {rules::with_bias(b, as_gradient(b, x, w, axes, groups), node.operand(2))};
}

}  // namespace tcc
