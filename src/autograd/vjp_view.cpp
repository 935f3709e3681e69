// vjp rules of views: the transposed view, and sums where one element was read several times.

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

Value* zero(Vjp& v) { return v.b.full(v.g->type.dtype, {}, 0); }

}  // namespace

void vjp_broadcast_in_dim(Vjp& v) {
  const Shape from = v.x()->type.shape(), to = v.y()->type.shape();
  std::vector<int64_t> axes = rules::axes_from(0, static_cast<int>(to.size()));
  const std::vector<int64_t>& dims = v.attrs().get_ints("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (from[i] == to[static_cast<size_t>(dims[i])]) std::erase(axes, dims[i]);  // kept; others of extent 1 are summed
  }
  v.give(0, v.b.reshape(v.b.reduce(Op::reduce_sum_, v.g, axes), from));
}

void vjp_reshape(Vjp& v) { v.give(0, v.b.reshape(v.g, v.x()->type.shape())); }

void vjp_transpose(Vjp& v) {
  const std::vector<int64_t>& permutation = v.attrs().get_ints("permutation");
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  v.give(0, v.b.transpose(v.g, inverse));
}

void vjp_slice(Vjp& v) {
  const Shape from = v.x()->type.shape(), to = v.y()->type.shape();
  const auto &starts = v.attrs().get_ints("starts"), &steps = v.attrs().get_ints("steps");
  std::vector<int64_t> low(starts), high(from.size()), interior(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    interior[i] = steps[i] - 1;
    high[i] = from[i] - low[i] - (to[i] == 0 ? 0 : (to[i] - 1) * steps[i] + 1);
  }
  v.give(0, v.b.pad(v.g, zero(v), low, high, interior));
}

void vjp_reverse(Vjp& v) { v.give(0, v.b.emit(Op::reverse_, {v.g}, {{"axes", v.attrs().get_ints("axes")}})); }

void vjp_pad(Vjp& v) {
  Builder& b = v.b;
  const Shape from = v.x()->type.shape();
  const auto &low = v.attrs().get_ints("low"), &interior = v.attrs().get_ints("interior");
  if (v.wants(0)) {
    std::vector<int64_t> limits(from.size()), steps(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      steps[i] = interior[i] + 1;
      limits[i] = low[i] + (from[i] == 0 ? 0 : (from[i] - 1) * steps[i] + 1);
    }
    v.give(0, b.slice(v.g, low, limits, steps));
  }
  if (v.wants(1)) {
    // The padding alone, summed: the difference of two sums would cancel.
    Value* padding = b.pad(b.full(v.g->type.dtype, from, 0), b.full(v.g->type.dtype, {}, 1), low, v.attrs().get_ints("high"), interior);
    Value* kept = v.where(b.binary(Op::ne_, padding, 0.0), v.g);
    v.give(1, b.reduce(Op::reduce_sum_, kept, rules::axes_from(0, v.g->type.rank())));
  }
}

void vjp_concat(Vjp& v) {
  const size_t axis = static_cast<size_t>(rules::normal_axis(v.attrs().get_int("axis"), v.y()->type.rank()));
  std::vector<int64_t> starts(v.y()->type.dims.size(), 0), limits = v.y()->type.shape();
  int64_t at = 0;
  for (int i = 0; i < static_cast<int>(v.node.operands.size()); ++i) {
    starts[axis] = at;
    at += rules::extent_of(v.x(i), static_cast<int64_t>(axis));
    limits[axis] = at;
    if (v.wants(i)) v.give(i, v.b.slice(v.g, starts, limits));
  }
}

}  // namespace tcc::autograd
