// Random graphs of prims with the sizes that compilers trip over: 0, 1, primes, one beside a whole vector; slices beside reductions over the same rows, pads,
// masks, several dtypes. Every value is kept between -8 and 8. In an exact graph all values are integers, so that any order of evaluation gives the same.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tcc/rules/builder.h"

namespace tcc::fuzz {

class WideGraph {
 public:
  explicit WideGraph(uint32_t seed)
      : random_(seed), graph_(std::make_unique<Graph>("random")), builder_(*graph_, graph_->body, Location{}) {
    static constexpr DType kDTypes[] = {DType::f32, DType::f32,  DType::f32, DType::f32, DType::f64,
                                        DType::f16, DType::bf16, DType::i32, DType::i64};
    dtype_ = kDTypes[pick(0, 8)];
    exact_ = !is_float(dtype_) || pick(0, 1) == 0;
  }

  DType dtype() const { return dtype_; }
  bool exact() const { return exact_; }
  /// Gradients are compared where rounding is small.
  bool has_gradients() const { return dtype_ == DType::f32 || dtype_ == DType::f64; }

  std::unique_ptr<Graph> make() {
    const Shape shape = frame();
    add_input(shape);
    add_input(shape);
    if (!shape.empty()) add_input({shape.back()});
    add_input(frame());
    const int64_t num_nodes = pick(3, 12);
    for (int64_t i = 0; i < num_nodes; ++i) add_node();
    const int64_t outputs = pick(1, 3);
    for (int64_t i = 0; i < outputs; ++i) graph_->add_output(i == 0 ? values_.back() : any(), "y" + std::to_string(i));
    return std::move(graph_);
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool flip() { return pick(0, 1) == 1; }
  Value* any() { return values_[static_cast<size_t>(pick(0, static_cast<int64_t>(values_.size()) - 1))]; }
  Value* recent() {
    const auto count = static_cast<int64_t>(values_.size());
    return pick(0, 3) ? values_[static_cast<size_t>(pick(std::max<int64_t>(0, count - 3), count - 1))] : any();
  }

  static constexpr int64_t kMostElements = 6000;
  int64_t extent() {
    static constexpr int64_t kExtents[] = {1,  2,  3,  4,  5,  7,  8,   9,   13,  16,  17,  31,  32,
                                           33, 41, 64, 65, 67, 83, 127, 128, 131, 257, 521, 1031};
    return pick(0, 24) == 0 ? 0 : kExtents[pick(0, 24)];
  }
  Shape frame() {
    Shape shape(static_cast<size_t>(pick(1, 4)));
    for (int64_t& one : shape) one = extent();
    while (num_elements(shape) > kMostElements) *std::max_element(shape.begin(), shape.end()) = pick(1, 8);
    return shape;
  }
  void add_input(const Shape& shape) { values_.push_back(graph_->add_input("x" + std::to_string(values_.size()), Type(dtype_, shape))); }
  void add(Value* value) {
    if (value->type.count() <= kMostElements) values_.push_back(value);
  }

  /// Between -8 and 8.
  Value* small(Value* x) {
    const Shape s = x->type.shape();
    return builder_.max(builder_.min(x, builder_.full(x->type.dtype, s, 8)), builder_.full(x->type.dtype, s, -8));
  }
  /// Another value with the shape of x, or one that broadcasts to it.
  Value* like(Value* x) {
    const Shape to = x->type.shape();
    for (int tries = 0; tries < 8; ++tries) {
      Value* y = any();
      const Shape from = y->type.shape();
      if (from == to) return y;
      if (from.size() > to.size()) continue;
      std::vector<int64_t> dims;
      for (size_t i = 0; i < from.size(); ++i) dims.push_back(static_cast<int64_t>(to.size() - from.size() + i));
      bool fits = true;
      for (size_t i = 0; i < from.size(); ++i) fits = fits && (from[i] == 1 || from[i] == to[static_cast<size_t>(dims[i])]);
      if (fits) return builder_.broadcast_in_dim(y, to, dims);
    }
    return builder_.full(dtype_, to, static_cast<double>(pick(-3, 3)));
  }
  /// Something that is not linear, between -8 and 8 again.
  Value* curve(Value* x) {
    if (exact_) return builder_.unary(flip() ? Op::neg_ : Op::abs_, x);
    switch (pick(0, 4)) {
      case 0: return builder_.unary(Op::tanh_, x);
      case 1: return builder_.unary(Op::sin_, x);
      case 2: return builder_.unary(Op::sqrt_, builder_.add(builder_.mul(x, x), builder_.full(dtype_, x->type.shape(), 1)));
      case 3: return builder_.unary(Op::exp_, builder_.min(x, builder_.full(dtype_, x->type.shape(), 2)));
      default: return builder_.div(x, builder_.add(builder_.unary(Op::abs_, x), builder_.full(dtype_, x->type.shape(), 1)));
    }
  }
  /// Part of an axis: whole, without its ends, every other element, nothing.
  Value* part(Value* x, size_t axis) {
    const Shape s = x->type.shape();
    std::vector<int64_t> starts(s.size()), limits = s, steps(s.size(), 1);
    starts[axis] = std::min<int64_t>(pick(0, 2), s[axis]);
    limits[axis] = std::max(starts[axis], s[axis] - pick(0, 2));
    if (pick(0, 7) == 0) steps[axis] = 2;
    return builder_.slice(x, starts, limits, steps);
  }
  Value* back(Value* reduced, const Shape& to, size_t axis) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < to.size(); ++i) {
      if (i != axis) dims.push_back(static_cast<int64_t>(i));
    }
    return builder_.broadcast_in_dim(reduced, to, dims);
  }
  Value* reduced(Value* x, size_t axis) {
    static constexpr Op kOps[] = {Op::reduce_sum_, Op::reduce_max_, Op::reduce_min_};
    // Nothing has no largest element.
    const Op op = x->type.shape()[axis] == 0 ? Op::reduce_sum_ : kOps[pick(0, 2)];
    return small(builder_.emit(op, {x}, {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}}));
  }

  /// What normalisations and softmaxes do: several passes over a row, some of them over a part of it.
  void rows(Value* x) {
    const Shape s = x->type.shape();
    const size_t axis = flip() ? s.size() - 1 : static_cast<size_t>(pick(0, static_cast<int64_t>(s.size()) - 1));
    Value* m = reduced(flip() ? part(x, axis) : x, axis);
    Value* centred = small(builder_.sub(x, back(m, s, axis)));
    Value* q = reduced(curve(flip() ? part(centred, axis) : centred), axis);
    if (!exact_) q = builder_.add(builder_.unary(Op::abs_, q), builder_.full(dtype_, q->type.shape(), 1));
    Value* y = exact_ ? builder_.add(centred, back(q, s, axis)) : builder_.div(curve(centred), back(q, s, axis));
    add(small(flip() ? part(y, axis) : y));
    if (pick(0, 2) == 0) add(m);
  }

  void masked(Value* x) {
    const Shape s = x->type.shape();
    const int64_t axis = pick(0, static_cast<int64_t>(s.size()) - 1);
    Value* at = builder_.iota(DType::i64, s, axis);
    Value* bound = builder_.full_int(DType::i64, s, pick(0, s[static_cast<size_t>(axis)]));
    add(builder_.select(builder_.emit(flip() ? Op::lt_ : Op::ge_, {at, bound}), x, flip() ? like(x) : builder_.full(dtype_, s, 0)));
  }

  void padded(Value* x) {
    const size_t rank = x->type.shape().size();
    std::vector<int64_t> low(rank), high(rank), interior(rank);
    const auto axis = static_cast<size_t>(pick(0, static_cast<int64_t>(rank) - 1));
    low[axis] = pick(0, 2);
    high[axis] = pick(0, 2);
    if (pick(0, 3) == 0) interior[axis] = 1;
    add(builder_.pad(x, builder_.full(dtype_, {}, static_cast<double>(pick(-1, 1))), low, high, interior));
  }

  void reshaped(Value* x) {
    Shape to = x->type.shape();
    if (to.size() >= 2 && flip()) {
      const auto i = static_cast<size_t>(pick(0, static_cast<int64_t>(to.size()) - 2));
      to[i] *= to[i + 1];
      to.erase(to.begin() + static_cast<ptrdiff_t>(i) + 1);
    } else {
      for (size_t i = 0; i < to.size() && to.size() < 4; ++i) {
        if (to[i] == 0 || to[i] % 4 != 0) continue;
        to[i] /= 4;
        to.insert(to.begin() + static_cast<ptrdiff_t>(i + (flip() ? 1 : 0)), 4);
        break;
      }
    }
    add(builder_.reshape(x, to));
  }

  void product(Value* x) {
    const Shape s = x->type.shape();
    const auto last = static_cast<int64_t>(s.size()) - 1;
    std::vector<int64_t> batch;
    if (s.size() == 3) batch.push_back(0);
    const int64_t rows = batch.empty() ? num_elements(s) / std::max<int64_t>(s.back(), 1) : s[1];
    if (rows * rows > kMostElements || s.size() > 3) return;
    add(small(builder_.emit(Op::dot_general_, {x, like(x)},
                            {{"lhs_batch", batch},
                             {"rhs_batch", batch},
                             {"lhs_contract", std::vector<int64_t>{last}},
                             {"rhs_contract", std::vector<int64_t>{last}},
                             {"dtype", dtype_}})));
  }

  /// Products of one value by constants, and of two of them: queries and keys.
  void projections(Value* x) {
    const Shape s = x->type.shape();
    const int64_t k = s.back(), rows = num_elements(s) / std::max<int64_t>(k, 1);
    if (rows * rows > kMostElements || k == 0) return;
    std::vector<Value*> parts;
    const int64_t head = pick(1, 9);
    for (int i = 0; i < 2; ++i) {
      const int64_t n = head * pick(1, 4);
      Tensor weight(dtype_, {n, k});
      for (int64_t at = 0; at < weight.count(); ++at) {
        if (exact_) weight.set_int64(at, pick(-2, 2));
        else weight.set_double(at, static_cast<double>(pick(-16, 16)) / 16);
      }
      Value* part = builder_.emit(Op::dot_general_, {x, graph_->add_weight("w", weight)},
                                  {{"lhs_batch", std::vector<int64_t>{}},
                                   {"rhs_batch", std::vector<int64_t>{}},
                                   {"lhs_contract", std::vector<int64_t>{static_cast<int64_t>(s.size()) - 1}},
                                   {"rhs_contract", std::vector<int64_t>{1}},
                                   {"dtype", dtype_}});
      if (flip()) part = builder_.add(part, builder_.full(dtype_, part->type.shape(), static_cast<double>(pick(-2, 2))));
      parts.push_back(builder_.reshape(part, {rows, n / head, head}));
    }
    Value* scores = builder_.emit(Op::dot_general_, {builder_.slice(parts[0], {0, 0, 0}, {rows, 1, head}), parts[1]},
                                  {{"lhs_batch", std::vector<int64_t>{}},
                                   {"rhs_batch", std::vector<int64_t>{}},
                                   {"lhs_contract", std::vector<int64_t>{2}},
                                   {"rhs_contract", std::vector<int64_t>{2}},
                                   {"dtype", dtype_}});
    add(small(builder_.reshape(scores, {rows, scores->type.count() / std::max<int64_t>(rows, 1)})));
  }

  void convolution(Value* x) {
    const Shape s = x->type.shape();
    if (s.size() != 3 && s.size() != 4) return;
    const size_t spatial = s.size() - 2;
    Shape w{pick(1, 5), s[1]};
    w.insert(w.end(), spatial, pick(1, 3));
    const std::vector<int64_t> ones(spatial, 1), strides(spatial, pick(1, 2)), low(spatial, pick(0, 1)), high(spatial, 1);
    for (size_t i = 2; i < s.size(); ++i) {
      if (s[i] + 1 < w[i]) return;
    }
    if (num_elements(w) > kMostElements) return;
    Value* weight = builder_.sub(builder_.iota(dtype_, w, static_cast<int64_t>(s.size()) - 1), builder_.full(dtype_, w, 1));
    add(small(builder_.emit(
        Op::conv_general_, {x, weight},
        {{"strides", strides}, {"low", low}, {"high", high}, {"lhs_dilation", ones}, {"rhs_dilation", ones}, {"groups", int64_t{1}}})));
  }

  void through_another_dtype(Value* x) {
    static constexpr DType kOthers[] = {DType::f64, DType::f32, DType::i32, DType::i64, DType::i8};
    const DType other = exact_ ? kOthers[pick(0, 4)] : DType::f64;
    add(builder_.cast(builder_.unary(Op::neg_, builder_.cast(x, other)), dtype_));
  }

  void add_node() {
    Value* x = recent();
    const Shape s = x->type.shape();
    if (s.empty()) return add(small(builder_.add(x, like(x))));
    const size_t axis = static_cast<size_t>(pick(0, static_cast<int64_t>(s.size()) - 1));
    switch (pick(0, 18)) {
      case 0:
      case 1: return add(small(builder_.emit(flip() ? Op::add_ : Op::mul_, {x, like(x)})));
      case 2: return add(small(curve(x)));
      case 3:
      case 4:
      case 5:
      case 6: return rows(x);
      case 7: return masked(x);
      case 8: return add(part(x, axis));
      case 9: return padded(x);
      case 10: return add(reduced(x, axis));
      case 11: {
        std::vector<int64_t> permutation(s.size());
        for (size_t i = 0; i < s.size(); ++i) permutation[i] = static_cast<int64_t>(i);
        std::shuffle(permutation.begin(), permutation.end(), random_);
        return add(builder_.transpose(x, permutation));
      }
      case 12: return reshaped(x);
      case 13: return add(builder_.concat({x, part(like(x), axis)}, static_cast<int64_t>(axis)));
      case 14: return product(x);
      case 15: return convolution(x);
      case 16: return projections(x);
      case 17: return through_another_dtype(x);
      default:
        return add(small(
            builder_.emit(Op::cumulative_, {x},
                          {{"op", std::string("sum")}, {"axis", static_cast<int64_t>(axis)}, {"reverse", flip()}, {"exclusive", flip()}})));
    }
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  std::vector<Value*> values_;
  DType dtype_ = DType::f32;
  bool exact_ = true;
};

}  // namespace tcc::fuzz
