// Normalisations. All but batch_norm in evaluation form have one shape:
//   mean = sum(x) / n;  c = x - mean;  var = sum(c * c) / n;  y = c * rsqrt(var + epsilon) * scale + bias
// The variance is taken from the centered values: E[x^2] - E[x]^2 cancels. 16-bit floats are computed in f32 and rounded once at the end.
// batch_norm in evaluation form is y = x * s + t, with s and t per channel computed from the weights alone, which constant folding makes weights.

#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

struct Normalized {
  Value* y;     ///< of x's shape
  Value* mean;  ///< the axes have left the shape, here and in the next two
  Value* variance;
  Value* inverse;  ///< 1 / sqrt(variance + epsilon)
};

Normalized normalize(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon) {
  const Shape shape = rules::shape_of(x);
  Normalized n;
  n.mean = rules::mean(b, x, axes);
  Value* centered = b.sub(x, rules::spread(b, n.mean, shape, axes));
  n.variance = rules::mean(b, b.mul(centered, centered), axes);
  n.inverse = b.unary(Op::rsqrt_, b.binary(Op::add_, n.variance, epsilon));
  n.y = b.mul(centered, rules::spread(b, n.inverse, shape, axes));
  return n;
}

/// y * scale + bias with both widened and broadcast as numpy does.
Value* affine(Builder& b, Value* y, Value* scale, Value* bias) {
  y = b.mul(y, b.broadcast_to(b.cast(scale, rules::dtype_of(y)), rules::shape_of(y)));
  return bias == nullptr ? y : b.add(y, b.broadcast_to(b.cast(bias, rules::dtype_of(y)), rules::shape_of(y)));
}

/// The same with scale and bias along axis 1.
Value* channel_affine(Builder& b, Value* y, Value* scale, Value* bias) {
  const Shape shape = rules::shape_of(y);
  y = b.mul(y, rules::along(b, b.cast(scale, rules::dtype_of(y)), shape, 1));
  return b.add(y, rules::along(b, b.cast(bias, rules::dtype_of(y)), shape, 1));
}

void require_channels(const Value* x, const char* op) {
  if (x->type.rank() < 2)
    throw RuleError{"type-error", "the rank is " + std::to_string(x->type.rank()) + ", " + op + " needs a channel axis 1"};
}

Shape kept_shape(const Value* x, const std::vector<int64_t>& axes) {
  Shape shape = rules::shape_of(x);
  for (int64_t axis : axes) shape[static_cast<size_t>(axis)] = 1;
  return shape;
}

}  // namespace

Results decompose_layer_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  Value* x = rules::widen(b, given);
  const int rank = x->type.rank();
  const std::vector<int64_t> axes = rules::axes_from(rules::normal_axis(node.attrs.get_int("axis"), rank), rank);
  const Normalized n = normalize(b, x, axes, node.attrs.get_float("epsilon"));
  Results results{b.cast(affine(b, n.y, node.operand(1), node.operand(2)), rules::dtype_of(given))};
  if (node.results.size() > 1) results.push_back(b.reshape(n.mean, kept_shape(x, axes)));
  if (node.results.size() > 2) results.push_back(b.reshape(n.inverse, kept_shape(x, axes)));
  return results;
}

Results decompose_rms_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  Value* x = rules::widen(b, given);
  const int rank = x->type.rank();
  const std::vector<int64_t> axes = rules::axes_from(rules::normal_axis(node.attrs.get_int("axis"), rank), rank);
  Value* inverse = b.unary(Op::rsqrt_, b.binary(Op::add_, rules::mean(b, b.mul(x, x), axes), node.attrs.get_float("epsilon")));
  Value* y = b.mul(x, rules::spread(b, inverse, rules::shape_of(x), axes));
  Results results{b.cast(affine(b, y, node.operand(1), nullptr), rules::dtype_of(given))};
  if (node.results.size() > 1) results.push_back(b.reshape(inverse, kept_shape(x, axes)));
  return results;
}

Results decompose_batch_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  require_channels(given, "batch_norm");
  Value* x = rules::widen(b, given);
  const DType dtype = rules::dtype_of(x);
  Value* scale = b.cast(node.operand(1), dtype);
  Value* bias = b.cast(node.operand(2), dtype);
  Value* mean = b.cast(node.operand(3), dtype);
  Value* variance = b.cast(node.operand(4), dtype);
  Value* s = b.div(scale, b.unary(Op::sqrt_, b.binary(Op::add_, variance, node.attrs.get_float("epsilon"))));
  Value* t = b.sub(bias, b.mul(mean, s));
  return {b.cast(channel_affine(b, x, s, t), rules::dtype_of(given))};
}

Results decompose_batch_norm_train(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  require_channels(given, "batch_norm");
  Value* x = rules::widen(b, given);
  const Normalized n = normalize(b, x, rules::other_axes(x->type.rank(), {1}), node.attrs.get_float("epsilon"));
  const double momentum = node.attrs.get_float("momentum");
  auto running = [&](Value* old, Value* current) {
    Value* kept = b.binary(Op::mul_, b.cast(old, rules::dtype_of(current)), momentum);
    return b.cast(b.add(kept, b.binary(Op::mul_, current, 1 - momentum)), rules::dtype_of(old));
  };
  Value* y = channel_affine(b, n.y, node.operand(1), node.operand(2));
  Results results{b.cast(y, rules::dtype_of(given)), running(node.operand(3), n.mean), running(node.operand(4), n.variance)};
  if (node.results.size() > 3) results.push_back(n.mean);
  if (node.results.size() > 4) results.push_back(n.inverse);
  return results;
}

Results decompose_instance_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  require_channels(given, "instance_norm");
  Value* x = rules::widen(b, given);
  const Normalized n = normalize(b, x, rules::axes_from(2, x->type.rank()), node.attrs.get_float("epsilon"));
  return {b.cast(channel_affine(b, n.y, node.operand(1), node.operand(2)), rules::dtype_of(given))};
}

Results decompose_group_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  require_channels(given, "group_norm");
  Value* x = rules::widen(b, given);
  const Shape shape = rules::shape_of(x);
  const int64_t groups = node.attrs.get_int("num_groups");
  if (groups < 1 || shape[1] % groups != 0) {
    throw RuleError{"type-error",
                    "`num_groups` is " + std::to_string(groups) + ", which does not divide the " + std::to_string(shape[1]) + " channels"};
  }
  const int64_t spatial = rules::extent_over(x, rules::axes_from(2, x->type.rank()));
  const Normalized n = normalize(b, b.reshape(x, {shape[0], groups, shape[1] / groups * spatial}), {2}, node.attrs.get_float("epsilon"));
  // Scale and bias per group are applied while the groups are an axis.
  const int64_t scales = rules::extent_of(node.operand(1), 0);
  Value* y = scales == shape[1] ? channel_affine(b, b.reshape(n.y, shape), node.operand(1), node.operand(2))
                                : b.reshape(channel_affine(b, n.y, node.operand(1), node.operand(2)), shape);
  Results results{b.cast(y, rules::dtype_of(given))};
  if (node.results.size() > 1) results.push_back(n.mean);
  if (node.results.size() > 2) results.push_back(n.inverse);
  return results;
}

/// y = x / (bias + alpha / size * (sum of x^2 over `size` neighbouring channels)) ^ beta
Results decompose_lrn(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  require_channels(given, "lrn");
  if (given->type.count() == 0) return {given};  // without channels the window would have no place
  Value* x = rules::widen(b, given);
  const size_t rank = rules::shape_of(x).size();
  const int64_t size = node.attrs.get_int("size");
  std::vector<int64_t> window(rank, 1), ones(rank, 1), low(rank, 0), high(rank, 0);
  window[1] = size;
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  Value* sum = b.emit(Op::reduce_window_, {b.mul(x, x)},
                      {{"op", "sum"}, {"window", window}, {"strides", ones}, {"low", low}, {"high", high}, {"dilations", ones}});
  Value* base =
      b.binary(Op::add_, b.binary(Op::mul_, sum, node.attrs.get_float("alpha") / static_cast<double>(size)), node.attrs.get_float("bias"));
  return {b.cast(b.div(x, b.binary(Op::pow_, base, node.attrs.get_float("beta"))), rules::dtype_of(given))};
}

/// (x - mean) / (sqrt(var) + 1e-9), the constant being ONNX's.
Results decompose_mean_variance_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  Value* x = rules::widen(b, given);
  const Shape shape = rules::shape_of(x);
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  for (int64_t& axis : axes) axis = rules::normal_axis(axis, x->type.rank(), "axes");
  std::sort(axes.begin(), axes.end());
  Value* centered = b.sub(x, rules::spread(b, rules::mean(b, x, axes), shape, axes));
  Value* deviation = b.unary(Op::sqrt_, rules::mean(b, b.mul(centered, centered), axes));
  return {b.cast(b.div(centered, rules::spread(b, b.binary(Op::add_, deviation, 1e-9), shape, axes)), rules::dtype_of(given))};
}

/// x / norm along an axis; a line of zeros stays zeros.
Results decompose_lp_norm(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  Value* x = rules::widen(b, given);
  const int64_t p = node.attrs.get_int("p");
  if (p != 1 && p != 2) throw RuleError{"unsupported-attribute", "`p` is " + std::to_string(p) + ", known are 1 and 2"};
  const std::vector<int64_t> axes{rules::normal_axis(node.attrs.get_int("axis"), x->type.rank())};
  Value* norm = b.reduce(Op::reduce_sum_, p == 1 ? b.unary(Op::abs_, x) : b.mul(x, x), axes);
  if (p == 2) norm = b.unary(Op::sqrt_, norm);
  norm = b.select(b.binary(Op::eq_, norm, 0.0), b.full_like(norm, 1), norm);
  return {b.cast(b.div(x, rules::spread(b, norm, rules::shape_of(x), axes)), rules::dtype_of(given))};
}

}  // namespace tcc
