// vjp rules of windows, without scatters: each is pads, comparisons and sums that fuse, and gives the same bits every time.
//
//   sum       the transposed window: g spread by the strides, summed over the reversed window
//   max, min  the number of the position of the window that each result took, in a byte. For each position, the cotangents of the results that took it,
//             put back at their place, and all of these summed. The first position that holds the extreme takes it; NaN is an extreme, as in the
//             forward pass.

#include <limits>

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

struct Window {
  std::vector<int64_t> window, strides, low, high, dilations;
  Shape input, output, padded;
};

Window window_of(const Vjp& v) {
  const Attrs& attrs = v.attrs();
  Window w{attrs.get_ints("window"),    attrs.get_ints("strides"), attrs.get_ints("low"), attrs.get_ints("high"),
           attrs.get_ints("dilations"), v.x()->type.shape(),       v.y()->type.shape(),   {}};
  for (size_t i = 0; i < w.input.size(); ++i) w.padded.push_back(w.input[i] + w.low[i] + w.high[i]);
  return w;
}

/// x with `low` and `high` elements more (fewer when negative) at the ends of each axis.
Value* resized(Builder& b, Value* x, double fill, const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  std::vector<int64_t> starts(low.size()), limits = x->type.shape(), more_low(low.size()), more_high(low.size());
  for (size_t i = 0; i < low.size(); ++i) {
    starts[i] = std::max<int64_t>(0, -low[i]);
    limits[i] = std::max(starts[i], limits[i] - std::max<int64_t>(0, -high[i]));
    more_low[i] = std::max<int64_t>(0, low[i]);
    more_high[i] = std::max<int64_t>(0, high[i]);
  }
  return b.pad(b.slice(x, starts, limits), b.full(x->type.dtype, {}, fill), more_low, more_high);
}

std::vector<int64_t> negated(std::vector<int64_t> values) {
  for (int64_t& value : values) value = -value;
  return values;
}

Value* sum_vjp(Vjp& v, const Window& w) {
  Builder& b = v.b;
  const size_t rank = w.input.size();
  std::vector<int64_t> interior(rank), none(rank, 0), ones(rank, 1), low(rank), high(rank);
  for (size_t i = 0; i < rank; ++i) {
    interior[i] = w.strides[i] - 1;
    const int64_t reach = (w.window[i] - 1) * w.dilations[i], spread = (w.output[i] - 1) * w.strides[i] + 1;
    low[i] = reach - w.low[i];
    high[i] = w.input[i] + reach - spread - low[i];
  }
  Value* spread = b.pad(v.g, b.full(v.g->type.dtype, {}, 0), none, none, interior);
  return b.emit(Op::reduce_window_, {resized(b, spread, 0, low, high)},
                {{"op", "sum"}, {"window", w.window}, {"strides", ones}, {"low", none}, {"high", none}, {"dilations", w.dilations}});
}

/// A position of a window: where what it takes lies in the padded operand, `starts` before, `after` behind, `interior` between.
struct Position {
  std::vector<int64_t> starts, limits, after, interior;
};

Position position_of(const Window& w, int64_t number) {
  const size_t rank = w.input.size();
  Position at{std::vector<int64_t>(rank), std::vector<int64_t>(rank), std::vector<int64_t>(rank), std::vector<int64_t>(rank)};
  for (size_t i = rank; i-- > 0;) {
    at.starts[i] = number % w.window[i] * w.dilations[i];
    number /= w.window[i];
    at.limits[i] = at.starts[i] + (w.output[i] - 1) * w.strides[i] + 1;
    at.after[i] = w.padded[i] - at.limits[i];
    at.interior[i] = w.strides[i] - 1;
  }
  return at;
}

Value* extreme_vjp(Vjp& v, const Window& w) {
  Builder& b = v.b;
  const double identity =
      v.attrs().get_string("op") == "max" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  Value* padded = resized(b, v.x(), identity, w.low, w.high);
  const int64_t positions = num_elements(w.window);
  const DType dtype = positions <= std::numeric_limits<uint8_t>::max() ? DType::u8 : DType::i32;
  const auto number = [&](int64_t position) { return b.full(dtype, w.output, static_cast<double>(position)); };
  Value* took = number(positions);  // none
  for (int64_t position = positions; position-- > 0;) {
    const Position at = position_of(w, position);
    Value* here = b.slice(padded, at.starts, at.limits, w.strides);
    Value* hit = b.binary(Op::or_, b.binary(Op::eq_, here, v.y()), b.unary(Op::isnan_, here));
    took = b.emit(Op::select_, {hit, number(position), took});
  }
  Value* sum = nullptr;
  for (int64_t position = 0; position < positions; ++position) {
    const Position at = position_of(w, position);
    Value* taken = v.where(b.binary(Op::eq_, took, number(position)), v.g);
    Value* part = b.pad(taken, b.full(v.g->type.dtype, {}, 0), at.starts, at.after, at.interior);
    sum = sum == nullptr ? part : b.add(sum, part);
  }
  return resized(b, sum, 0, negated(w.low), negated(w.high));
}

}  // namespace

void vjp_reduce_window(Vjp& v) {
  const Window w = window_of(v);
  if (v.g->type.count() == 0 || v.x()->type.count() == 0) return v.give(0, v.zeros(v.x()));
  v.give(0, v.attrs().get_string("op") == "sum" ? sum_vjp(v, w) : extreme_vjp(v, w));
}

/// To the first of the largest: a pool takes one position, where a reduction shares among ties.
void vjp_global_max_pool(Vjp& v) {
  Builder& b = v.b;
  const Shape shape = v.x()->type.shape();
  const int64_t spatial = rules::extent_over(v.x(), rules::axes_from(2, v.x()->type.rank()));
  const Shape rows{shape[0], shape[1], spatial};
  if (num_elements(rows) == 0) return v.give(0, v.zeros(v.x()));
  Value* first = b.emit(Op::argmax_, {b.reshape(v.x(), rows)}, {{"axis", int64_t{2}}, {"last", false}});
  Value* hit = b.binary(Op::eq_, b.iota(DType::i64, rows, 2), rules::spread(b, first, rows, {2}));
  Value* g = rules::spread(b, b.reshape(v.g, {shape[0], shape[1]}), rows, {2});
  v.give(0, b.reshape(v.where(hit, g), shape));
}

}  // namespace tcc::autograd
