// vjp rules of normalisations and softmaxes.
//
// With h = (x - mean) * inverse, the normalised x, and gh = g * scale, its cotangent:
//   dx = inverse * (gh - mean(gh) - h * mean(gh * h))        means over the normalised axes
//   dscale = sum(g * h),  dbias = sum(g)                     sums over the axes that scale does not have
// and where the normalised axes are all but that of scale, those sums are the means: dx = inverse * scale * (g - dbias / n - h * dscale / n).
// rms_norm has no mean to subtract, and batch_norm in evaluation form no statistics that depend on x. The decompositions would give the same sums
// in parts that cancel. The statistics are the node's results where it has them, else written as the decompositions write them, so that equal
// nodes merge with those of the forward pass. Where they have cotangents themselves,
//   dx += gmean / n - ginverse * inverse^2 * h / n

#include <cstdint>

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

struct Normalized {
  Value* h;        ///< of x's shape
  Value* inverse;  ///< of x's shape
};

/// A statistic over `axes` that result i of the node holds, of x's shape; null when the node lacks it.
Value* statistic(Vjp& v, size_t i, const Value* x, const std::vector<int64_t>& axes) {
  if (i >= v.node.results.size()) return nullptr;
  Shape reduced;
  for (const int64_t axis : rules::other_axes(x->type.rank(), axes)) reduced.push_back(rules::extent_of(x, axis));
  return rules::spread(v.b, v.b.reshape(v.b.cast(v.y(static_cast<int>(i)), x->type.dtype), reduced), x->type.shape(), axes);
}

/// 1 / sqrt(mean(values^2) + epsilon), of their shape.
Value* inverse_root(Vjp& v, Value* values, const std::vector<int64_t>& axes) {
  Value* square = rules::mean(v.b, v.b.mul(values, values), axes);
  Value* inverse = v.b.unary(Op::rsqrt_, v.b.binary(Op::add_, square, v.attrs().get_float("epsilon")));
  return rules::spread(v.b, inverse, values->type.shape(), axes);
}

constexpr size_t kNoResult = SIZE_MAX - 1;

/// `first`: the result that holds the mean, if there is one; the next holds the inverse.
Normalized normalize(Vjp& v, Value* x, const std::vector<int64_t>& axes, size_t first = kNoResult) {
  Builder& b = v.b;
  Value *mean = statistic(v, first, x, axes), *inverse = statistic(v, first + 1, x, axes);
  if (mean == nullptr) mean = rules::spread(b, rules::mean(b, x, axes), x->type.shape(), axes);
  Value* centered = b.sub(x, mean);
  if (inverse == nullptr) inverse = inverse_root(v, centered, axes);
  return {b.mul(centered, inverse), inverse};
}

/// A cotangent of a statistic, divided by the number of elements that it is of, in x's shape; null when there is none.
Value* share_of(Vjp& v, int result, const Value* x, const std::vector<int64_t>& axes) {
  Value* g = static_cast<size_t>(result) < v.node.results.size() ? v.cotangent(result) : nullptr;
  if (g == nullptr || x->type.count() == 0) return nullptr;
  Shape reduced;
  for (const int64_t axis : rules::other_axes(x->type.rank(), axes)) reduced.push_back(rules::extent_of(x, axis));
  g = v.scale(v.b.reshape(v.b.cast(g, x->type.dtype), reduced), 1 / static_cast<double>(rules::extent_over(x, axes)));
  return rules::spread(v.b, g, x->type.shape(), axes);
}

void give_to_x(Vjp& v, Value* cotangent) { v.give(0, v.b.cast(v.b.reshape(cotangent, v.x()->type.shape()), v.x()->type.dtype)); }

/// What comes to x through the statistics themselves. `mean`: the result that holds it, or -1; `inverse` likewise.
void give_through_statistics(Vjp& v, const Normalized& n, const std::vector<int64_t>& axes, int mean, int inverse) {
  if (!v.wants(0)) return;
  if (Value* g = mean < 0 ? nullptr : share_of(v, mean, n.h, axes)) give_to_x(v, g);
  if (Value* g = share_of(v, inverse, n.h, axes)) give_to_x(v, v.neg(v.b.mul(g, v.b.mul(n.h, v.b.mul(n.inverse, n.inverse)))));
}

Value* mean_over(Vjp& v, Value* x, const std::vector<int64_t>& axes) {
  return rules::spread(v.b, rules::mean(v.b, x, axes), x->type.shape(), axes);
}

Value* normalize_vjp(Vjp& v, const Normalized& n, Value* gh, const std::vector<int64_t>& axes) {
  Builder& b = v.b;
  Value* along_h = b.mul(n.h, mean_over(v, b.mul(gh, n.h), axes));
  return b.mul(n.inverse, b.sub(b.sub(gh, mean_over(v, gh, axes)), along_h));
}

void give_narrow(Vjp& v, int operand, Value* cotangent) {
  if (v.wants(operand)) v.give(operand, v.b.cast(sum_to(v.b, cotangent, v.x(operand)->type.shape()), v.x(operand)->type.dtype));
}

/// Sums over all axes but 1, the channels.
Value* per_channel(Vjp& v, Value* x) { return v.b.reduce(Op::reduce_sum_, x, rules::other_axes(x->type.rank(), {1})); }

void give_channels(Vjp& v, int operand, Value* cotangent) {
  if (v.wants(operand)) v.give(operand, v.b.cast(per_channel(v, cotangent), v.x(operand)->type.dtype));
}

std::vector<int64_t> trailing_axes(const Vjp& v) {
  const int rank = v.x()->type.rank();
  return rules::axes_from(rules::normal_axis(v.attrs().get_int("axis"), rank), rank);
}

Value* along_channels(Vjp& v, Value* channels, const Value* like) {
  return rules::along(v.b, v.b.cast(channels, like->type.dtype), like->type.shape(), 1);
}

}  // namespace

/// A row of negative infinities has no softmax: attention selects zeros in the place of its NaN, whose cotangents are then zeros, and so is dx. A NaN
/// that does reach the loss has a cotangent that is none either, which stays.
void vjp_softmax(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes{rules::normal_axis(v.attrs().get_int("axis"), v.x()->type.rank())};
  Value *y = rules::widen(b, v.y()), *g = rules::widen(b, v.g);
  y = v.where_not(b.unary(Op::isnan_, y), y);
  Value* sum = rules::spread(b, b.reduce(Op::reduce_sum_, b.mul(g, y), axes), g->type.shape(), axes);
  v.give(0, b.cast(b.mul(y, b.sub(g, sum)), v.x()->type.dtype));
}

void vjp_log_softmax(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes{rules::normal_axis(v.attrs().get_int("axis"), v.x()->type.rank())};
  Value *y = rules::widen(b, v.y()), *g = rules::widen(b, v.g);
  Value* sum = rules::spread(b, b.reduce(Op::reduce_sum_, g, axes), g->type.shape(), axes);
  v.give(0, b.cast(b.sub(g, b.mul(b.unary(Op::exp_, y), sum)), v.x()->type.dtype));
}

void vjp_layer_norm(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes = trailing_axes(v);
  const Normalized n = normalize(v, rules::widen(b, v.x()), axes, 1);
  give_through_statistics(v, n, axes, 1, 2);
  if (v.g == nullptr) return;
  Value* g = rules::widen(b, v.g);
  if (v.wants(0)) {
    Value* gh = b.mul(g, b.cast(v.x(1), g->type.dtype));
    v.give(0, b.cast(normalize_vjp(v, n, gh, axes), v.x()->type.dtype));
  }
  if (v.wants(1)) give_narrow(v, 1, b.mul(g, n.h));
  give_narrow(v, 2, g);
}

void vjp_rms_norm(Vjp& v) {
  Builder& b = v.b;
  Value* x = rules::widen(b, v.x());
  const std::vector<int64_t> axes = trailing_axes(v);
  Value* inverse = statistic(v, 1, x, axes);
  if (inverse == nullptr) inverse = inverse_root(v, x, axes);
  const Normalized n{b.mul(x, inverse), inverse};
  give_through_statistics(v, n, axes, -1, 1);
  if (v.g == nullptr) return;
  Value* g = rules::widen(b, v.g);
  if (v.wants(0)) {
    Value* gh = b.mul(g, b.cast(v.x(1), g->type.dtype));
    v.give(0, b.cast(b.mul(inverse, b.sub(gh, b.mul(n.h, mean_over(v, b.mul(gh, n.h), axes)))), v.x()->type.dtype));
  }
  if (v.wants(1)) give_narrow(v, 1, b.mul(g, n.h));
}

/// y = (x - mean) * scale / sqrt(var + epsilon) + bias, everything but x per channel.
void vjp_batch_norm(Vjp& v) {
  Builder& b = v.b;
  Value *x = rules::widen(b, v.x()), *g = rules::widen(b, v.g);
  const DType dtype = g->type.dtype;
  Value *scale = b.cast(v.x(1), dtype), *mean = b.cast(v.x(3), dtype), *variance = b.cast(v.x(4), dtype);
  Value* deviation = b.unary(Op::sqrt_, b.binary(Op::add_, variance, v.attrs().get_float("epsilon")));
  Value* factor = b.div(scale, deviation);
  if (v.wants(0)) v.give(0, b.cast(b.mul(g, along_channels(v, factor, g)), v.x()->type.dtype));
  auto give = [&](int operand, Value* cotangent) { v.give(operand, b.cast(cotangent, v.x(operand)->type.dtype)); };
  if (v.wants(1) || v.wants(4)) {
    Value* product = per_channel(v, b.mul(g, b.sub(x, along_channels(v, mean, x))));
    if (v.wants(1)) give(1, b.div(product, deviation));
    if (v.wants(4)) give(4, v.scale(b.div(b.mul(product, factor), b.mul(deviation, deviation)), -0.5));
  }
  if (v.wants(2) || v.wants(3)) {
    Value* sum = per_channel(v, g);
    if (v.wants(2)) give(2, sum);
    if (v.wants(3)) give(3, v.neg(b.mul(sum, factor)));
  }
}

/// The other results are momentum * old + (1 - momentum) * new, new being the mean and the variance over n elements: dx is 1 / n for the mean, and
/// 2 (x - mean) / n for the variance.
void vjp_batch_norm_train(Vjp& v) {
  Builder& b = v.b;
  Value* x = rules::widen(b, v.x());
  const DType dtype = x->type.dtype;
  const Shape shape = x->type.shape();
  const std::vector<int64_t> axes = rules::other_axes(x->type.rank(), {1});
  if (v.node.results.size() > 3) give_through_statistics(v, normalize(v, x, axes, 3), axes, 3, 4);
  if (v.g != nullptr) {
    const Normalized n = normalize(v, x, axes, 3);
    Value* g = rules::widen(b, v.g);
    // The scale is the same over all that is summed, so the sums of dscale and dbias are those of dx: images are read once for all of them.
    Value *sum = per_channel(v, g), *sum_along_h = per_channel(v, b.mul(g, n.h));
    const auto mean = [&](Value* s) {
      return along_channels(v, b.binary(Op::div_, s, static_cast<double>(rules::extent_over(x, axes))), g);
    };
    if (v.wants(0)) {
      Value* dx = b.sub(b.sub(g, mean(sum)), b.mul(n.h, mean(sum_along_h)));
      v.give(0, b.cast(b.mul(b.mul(n.inverse, along_channels(v, v.x(1), g)), dx), v.x()->type.dtype));
    }
    if (v.wants(1)) v.give(1, b.cast(sum_along_h, v.x(1)->type.dtype));
    if (v.wants(2)) v.give(2, b.cast(sum, v.x(2)->type.dtype));
  }
  const double momentum = v.attrs().get_float("momentum"), share = (1 - momentum) / static_cast<double>(rules::extent_over(x, axes));
  for (int i = 1; i <= 2; ++i) {
    Value* g = v.cotangent(i);
    if (g == nullptr) continue;
    if (v.wants(2 + i)) v.give(2 + i, v.scale(g, momentum));
    if (!v.wants(0) || num_elements(shape) == 0) continue;
    Value* dx = along_channels(v, v.scale(b.cast(g, dtype), i == 1 ? share : 2 * share), x);
    if (i == 2) dx = b.mul(dx, b.sub(x, rules::spread(b, rules::mean(b, x, axes), shape, axes)));
    v.give(0, b.cast(dx, v.x()->type.dtype));
  }
}

void vjp_instance_norm(Vjp& v) {
  Builder& b = v.b;
  Value *x = rules::widen(b, v.x()), *g = rules::widen(b, v.g);
  const std::vector<int64_t> axes = rules::axes_from(2, x->type.rank());
  const Normalized n = normalize(v, x, axes);
  if (v.wants(0)) v.give(0, b.cast(normalize_vjp(v, n, b.mul(g, along_channels(v, v.x(1), g)), axes), v.x()->type.dtype));
  if (v.wants(1)) give_channels(v, 1, b.mul(g, n.h));
  give_channels(v, 2, g);
}

/// Groups are rows of [N, groups, rest]; scale and bias are per channel or per group.
void vjp_group_norm(Vjp& v) {
  Builder& b = v.b;
  Value* x = rules::widen(b, v.x());
  const Shape shape = x->type.shape();
  const int64_t groups = v.attrs().get_int("num_groups");
  const int64_t spatial = rules::extent_over(x, rules::axes_from(2, x->type.rank()));
  const Shape rows{shape[0], groups, shape[1] / groups * spatial};
  const Shape affine = rules::extent_of(v.x(1), 0) == shape[1] ? shape : rows;  // where scale lies along axis 1
  const Normalized n = normalize(v, b.reshape(x, rows), {2}, 1);
  give_through_statistics(v, n, {2}, 1, 2);
  if (v.g == nullptr) return;
  Value* g_affine = b.reshape(rules::widen(b, v.g), affine);
  if (v.wants(0)) {
    Value* gh = b.mul(g_affine, along_channels(v, v.x(1), g_affine));
    v.give(0, b.cast(b.reshape(normalize_vjp(v, n, b.reshape(gh, rows), {2}), shape), v.x()->type.dtype));
  }
  if (v.wants(1)) give_channels(v, 1, b.mul(g_affine, b.reshape(n.h, affine)));
  give_channels(v, 2, g_affine);
}

/// dx = (g - direction * sum(g * y)) / norm, the direction being y (p = 2) or the signs; a line of zeros is divided by 1.
void vjp_lp_norm(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes{rules::normal_axis(v.attrs().get_int("axis"), v.x()->type.rank())};
  Value *x = rules::widen(b, v.x()), *g = rules::widen(b, v.g), *y = rules::widen(b, v.y());
  const Shape shape = x->type.shape();
  const bool euclidean = v.attrs().get_int("p") == 2;
  Value* norm = b.reduce(Op::reduce_sum_, euclidean ? b.mul(x, x) : b.unary(Op::abs_, x), axes);
  if (euclidean) norm = b.unary(Op::sqrt_, norm);
  norm = b.select(b.binary(Op::eq_, norm, 0.0), b.full_like(norm, 1), norm);
  Value* sum = rules::spread(b, b.reduce(Op::reduce_sum_, b.mul(g, y), axes), shape, axes);
  Value* direction = euclidean ? y : b.unary(Op::sign_, x);
  v.give(0, b.cast(b.div(b.sub(g, b.mul(direction, sum)), rules::spread(b, norm, shape, axes)), v.x()->type.dtype));
}

}  // namespace tcc::autograd
