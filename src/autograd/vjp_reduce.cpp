// vjp rules of reductions and scans.
//
// Extremes share among ties. A product is differentiated by products of the others, from both ends, so that a zero among them does no harm.

#include <limits>

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

std::vector<int64_t> sorted_axes(const Node& node) {
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  for (int64_t& axis : axes) axis = rules::normal_axis(axis, node.operand(0)->type.rank(), "axes");
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// What the reduction left (with its axes or without) over the operand's shape.
Value* over(Vjp& v, Value* reduced, const std::vector<int64_t>& axes) {
  const Shape shape = v.x()->type.shape();
  Shape left;
  for (int64_t axis : rules::other_axes(static_cast<int>(shape.size()), axes)) left.push_back(shape[static_cast<size_t>(axis)]);
  return rules::spread(v.b, v.b.reshape(reduced, left), shape, axes);
}

Value* cumulative(Vjp& v, Value* x, const char* op, int64_t axis, bool reverse, bool exclusive) {
  return v.b.emit(Op::cumulative_, {x}, {{"op", op}, {"axis", axis}, {"reverse", reverse}, {"exclusive", exclusive}});
}

/// The factors of products along an axis, in f64, where products of f32 don't overflow on the way. Zeros are counted instead of multiplied, so that what
/// overflowed meets none of them; what is not finite is counted too: times zero, it is NaN.
struct Factors {
  Value* nonzero;    ///< 1 in the place of a zero
  Value* zeros;      ///< i64, 1 where there is one
  Value* nonfinite;  ///< likewise
};

Factors factors_of(Vjp& v, Value* x) {
  Builder& b = v.b;
  x = b.cast(x, DType::f64);
  Value* zero = b.binary(Op::eq_, x, 0.0);
  return {b.select(zero, b.full_like(x, 1), x), b.cast(zero, DType::i64), b.cast(b.unary(Op::not_, b.unary(Op::isfinite_, x)), DType::i64)};
}

Value* some(Vjp& v, Value* count) { return v.b.emit(Op::gt_, {count, v.zeros(count)}); }

/// `product`, but where `vanishes` zero, or NaN where it is also `poisoned`.
Value* product_or_zero(Vjp& v, Value* product, Value* vanishes, Value* poisoned) {
  Value* nothing = v.b.select(poisoned, v.b.full_like(product, std::numeric_limits<double>::quiet_NaN()), v.zeros(product));
  return v.b.select(vanishes, nothing, product);
}

/// For every element, the product of all others along the last axis, in f64.
Value* product_of_others(Vjp& v, Value* x) {
  Builder& b = v.b;
  const Shape shape = x->type.shape();
  const int64_t axis = static_cast<int64_t>(shape.size()) - 1;
  const Factors f = factors_of(v, x);
  auto among_others = [&](Value* flags) {
    return some(v, b.sub(rules::spread(b, b.reduce(Op::reduce_sum_, flags, {axis}), shape, {axis}), flags));
  };
  Value* product = b.mul(cumulative(v, f.nonzero, "prod", axis, false, true), cumulative(v, f.nonzero, "prod", axis, true, true));
  return product_or_zero(v, product, among_others(f.zeros), among_others(f.nonfinite));
}

/// y[i] = product of x[j] for j <= i (before i when exclusive), so dx[k] = product of x[j] before k * sum over i of g[i] * product of x[j] between k and
/// i. The latter stand in a matrix [k, i]: zeros in x do no harm, at the price of n^2 elements per line.
Value* cumulative_product_vjp(Vjp& v, int64_t axis, bool reverse, bool exclusive) {
  Builder& b = v.b;
  const Shape shape = v.x()->type.shape();
  const int64_t rank = static_cast<int64_t>(shape.size());
  // Bring the axis to the end, and the scan to forward order.
  std::vector<int64_t> permutation = rules::other_axes(static_cast<int>(rank), {axis});
  permutation.push_back(axis);
  auto forward = [&](Value* value) {
    value = b.transpose(value, permutation);
    return reverse ? b.emit(Op::reverse_, {value}, {{"axes", std::vector<int64_t>{rank - 1}}}) : value;
  };
  const Factors f = factors_of(v, forward(v.x()));
  Value* g = b.cast(forward(v.g), DType::f64);
  const int64_t n = shape[static_cast<size_t>(axis)];
  Shape square = g->type.shape();
  square.push_back(n);  // [..., k, i]
  Value* k = b.iota(DType::i64, square, rank - 1);
  Value* i = b.iota(DType::i64, square, rank);
  auto along_i = [&](Value* value) { return rules::spread(b, value, square, {rank - 1}); };
  auto along_k = [&](Value* value) { return rules::spread(b, value, square, {rank}); };
  auto until = [&](Value* flags, bool without_last) { return cumulative(v, flags, "sum", rank - 1, false, without_last); };
  auto between = [&](Value* flags) { return some(v, b.sub(along_i(until(flags, exclusive)), along_k(until(flags, false)))); };
  auto before = [&](Value* flags) { return some(v, until(flags, true)); };

  Value* others = b.select(b.binary(Op::gt_, i, k), along_i(f.nonzero), b.full(DType::f64, square, 1));
  Value* after = product_or_zero(v, cumulative(v, others, "prod", rank, false, exclusive), between(f.zeros), between(f.nonfinite));
  Value* reached = b.binary(exclusive ? Op::gt_ : Op::ge_, i, k);
  Value* counts = b.binary(Op::and_, reached, along_i(b.binary(Op::ne_, g, 0.0)));
  Value* sum = b.reduce(Op::reduce_sum_, v.where(counts, b.mul(along_i(g), after)), {rank});
  Value* product = b.mul(sum, cumulative(v, f.nonzero, "prod", rank - 1, false, true));
  Value* vanishes = b.binary(Op::or_, before(f.zeros), b.binary(Op::eq_, sum, 0.0));
  Value* poisoned = b.binary(Op::or_, before(f.nonfinite), b.unary(Op::isnan_, sum));
  Value* dx = b.cast(product_or_zero(v, product, vanishes, poisoned), v.x()->type.dtype);
  if (reverse) dx = b.emit(Op::reverse_, {dx}, {{"axes", std::vector<int64_t>{rank - 1}}});
  std::vector<int64_t> inverse(permutation.size());
  for (size_t at = 0; at < permutation.size(); ++at) inverse[static_cast<size_t>(permutation[at])] = static_cast<int64_t>(at);
  return b.transpose(dx, inverse);
}

/// To the element that the running extreme is: the last one that reached it, a NaN staying for good. Positions of such elements, carried along by a
/// scan of their own, say where the cotangents go; before the first element, of an exclusive scan, the position is none.
Value* cumulative_extreme_vjp(Vjp& v, int64_t axis, bool reverse, bool exclusive) {
  Builder& b = v.b;
  const std::string& op = v.attrs().get_string("op");
  const Shape shape = v.x()->type.shape();
  const int64_t none = reverse ? shape[static_cast<size_t>(axis)] : -1;
  Value* before = cumulative(v, v.x(), op.c_str(), axis, reverse, true);
  Value* reaches = b.binary(op == "max" ? Op::ge_ : Op::le_, v.x(), before);
  Value* leads = b.binary(Op::or_, reaches, b.unary(Op::isnan_, v.x()));
  Value* position = b.iota(DType::i64, shape, axis);
  Value* leader = b.select(leads, position, b.full_int(DType::i64, shape, none));
  Value* from = cumulative(v, leader, reverse ? "min" : "max", axis, reverse, exclusive);
  return add_to_zeros(b, Op::scatter_elements_, shape, from, v.g, {{"axis", axis}});
}

}  // namespace

void vjp_reduce_sum(Vjp& v) { v.give(0, over(v, v.g, sorted_axes(v.node))); }

void vjp_reduce_prod(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes = sorted_axes(v.node);
  if (axes.empty()) return v.give(0, v.g);
  const Shape shape = v.x()->type.shape();
  // The reduced axes as one, at the end.
  std::vector<int64_t> permutation = rules::other_axes(static_cast<int>(shape.size()), axes);
  Shape joined, moved;
  for (int64_t axis : permutation) joined.push_back(shape[static_cast<size_t>(axis)]);
  joined.push_back(rules::extent_over(v.x(), axes));
  permutation.insert(permutation.end(), axes.begin(), axes.end());
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    moved.push_back(shape[static_cast<size_t>(permutation[i])]);
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  Value* lines = b.reshape(b.transpose(v.x(), permutation), joined);
  Value* others = b.transpose(b.reshape(product_of_others(v, lines), moved), inverse);
  Value* g = over(v, v.g, axes);
  v.give(0, b.cast(b.mul(b.cast(g, DType::f64), others), g->type.dtype));
}

namespace {

void differentiate_reduce_extreme(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes = sorted_axes(v.node);
  Value* hit = b.binary(Op::eq_, v.x(), over(v, v.y(), axes));
  Value* count = b.reduce(Op::reduce_sum_, b.cast(hit, v.g->type.dtype), axes);
  v.give(0, v.where(hit, over(v, b.div(v.g, count), axes)));
}

}  // namespace

void vjp_reduce_max(Vjp& v) { differentiate_reduce_extreme(v); }
void vjp_reduce_min(Vjp& v) { differentiate_reduce_extreme(v); }

void vjp_cumulative(Vjp& v) {
  const std::string& op = v.attrs().get_string("op");
  const int64_t axis = rules::normal_axis(v.attrs().get_int("axis"), v.x()->type.rank());
  const bool reverse = v.attrs().get_bool("reverse"), exclusive = v.attrs().get_bool("exclusive");
  if (op == "sum") return v.give(0, cumulative(v, v.g, "sum", axis, !reverse, exclusive));
  if (op == "prod") return v.give(0, cumulative_product_vjp(v, axis, reverse, exclusive));
  v.give(0, cumulative_extreme_vjp(v, axis, reverse, exclusive));
}

bool has_vjp_reduce(const Node& node) {
  const std::string& op = node.attrs.get_string("op");
  return (op == "l2" || op == "log_sum_exp") && is_float(node.operand(0)->type.dtype);
}

/// l2: x / y, and 0 where the norm is 0. log_sum_exp: exp(x - y), the softmax; where y is infinite nothing is subtracted, so that a line of
/// negative infinities gets zeros.
void vjp_reduce(Vjp& v) {
  Builder& b = v.b;
  const std::vector<int64_t> axes = sorted_axes(v.node);
  const DType dtype = v.x()->type.dtype;
  Value *x = rules::widen(b, v.x()), *g = rules::widen(b, v.g), *y = rules::widen(b, v.y());
  if (v.attrs().get_string("op") == "l2") {
    Value* share = v.where_not(b.binary(Op::eq_, y, 0.0), b.div(g, y));
    return v.give(0, b.cast(b.mul(x, over(v, share, axes)), dtype));
  }
  Value* shift = v.where(b.unary(Op::isfinite_, y), y);
  v.give(0, b.cast(b.mul(over(v, g, axes), b.unary(Op::exp_, b.sub(x, over(v, shift, axes)))), dtype));
}

}  // namespace tcc::autograd
