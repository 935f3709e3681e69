// Random prims graphs over small integers: every op keeps values small and exact, so that any order of evaluation gives the same bits.
#pragma once

#include <algorithm>
#include <iterator>
#include <random>

#include "tcc/rules/builder.h"

namespace tcc::group {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed)
      : random_(seed), graph_(std::make_unique<Graph>("random")), builder_(*graph_, graph_->body, Location{}) {}

  std::unique_ptr<Graph> make(int num_nodes) {
    for (int i = 0; i < 3; ++i) values_.push_back(graph_->add_input("x" + std::to_string(i), Type(DType::f32, shape())));
    indices_ = graph_->add_input("indices", Type(DType::i64, {pick(1, 4)}));
    for (int i = 0; i < num_nodes; ++i) add_node();
    const int outputs = pick(1, 3);
    for (int i = 0; i < outputs; ++i) graph_->add_output(i == 0 ? values_.back() : any(), "y" + std::to_string(i));
    return std::move(graph_);
  }

  std::vector<Tensor> inputs_for(const Graph& graph) {
    std::vector<Tensor> inputs;
    for (const Value* input : graph.body.args) {
      Tensor tensor(input->type.dtype, input->type.shape());
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_int64(i, pick(-4, 4));
      inputs.push_back(std::move(tensor));
    }
    return inputs;
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Value* any() { return values_[static_cast<size_t>(pick(0, static_cast<int64_t>(values_.size()) - 1))]; }
  /// Recent values more often: chains grow.
  Value* recent() {
    const int64_t count = static_cast<int64_t>(values_.size());
    return pick(0, 2) ? values_[static_cast<size_t>(pick(std::max<int64_t>(0, count - 3), count - 1))] : any();
  }
  Shape shape() {
    Shape result;
    for (int64_t rank = pick(1, 4); rank > 0; --rank) result.push_back(pick(0, 4) == 0 ? 1 : pick(2, 4));
    return result;
  }
  int64_t any_axis(const Value* x) { return pick(0, x->type.rank() - 1); }
  /// Keeps what sums and products make small.
  Value* small(Value* x) {
    const Shape s = x->type.shape();
    return builder_.max(builder_.min(x, builder_.full(x->type.dtype, s, 8)), builder_.full(x->type.dtype, s, -8));
  }
  /// Another value that can be brought to the shape of x, by broadcasting along new axes.
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
    return builder_.full(DType::f32, to, static_cast<double>(pick(-3, 3)));
  }

  void add_node() {
    struct Kind {
      void (RandomGraph::*add)(Value*);
      int least_rank = 1;
    };
    using G = RandomGraph;
    // A row that stands several times is drawn more often.
    static constexpr Kind kKinds[] = {
        {&G::add_binary, 0}, {&G::add_binary, 0}, {&G::add_binary, 0}, {&G::add_absolute, 0}, {&G::add_select, 0}, {&G::add_reduce},
        {&G::add_reduce},    {&G::add_reduce},    {&G::add_transpose}, {&G::add_reshape, 0},  {&G::add_slice},     {&G::add_pad},
        {&G::add_concat},    {&G::add_gather},    {&G::add_dot},       {&G::add_conv, 3},     {&G::add_window},    {&G::add_cumulative},
        {&G::add_arg},       {&G::add_topk},      {&G::add_reverse},   {&G::add_scatter},
    };
    Value* x = recent();
    const Kind& kind = kKinds[pick(0, std::size(kKinds) - 1)];
    if (x->type.rank() >= kind.least_rank) (this->*kind.add)(x);
  }

  // One op each, of `x` and what it needs beside.

  void add_binary(Value* x) { values_.push_back(small(builder_.emit(pick(0, 1) ? Op::add_ : Op::mul_, {x, like(x)}))); }
  void add_absolute(Value* x) { values_.push_back(builder_.emit(Op::abs_, {x})); }
  void add_select(Value* x) { values_.push_back(builder_.select(builder_.emit(Op::gt_, {x, like(x)}), x, like(x))); }
  void add_gather(Value* x) { values_.push_back(builder_.emit(Op::gather_, {x, indices_}, {{"axis", any_axis(x)}})); }

  void add_reduce(Value* x) {
    const Shape s = x->type.shape();
    const size_t rank = s.size();
    static const Op ops[] = {Op::reduce_sum_, Op::reduce_max_, Op::reduce_min_};
    std::vector<int64_t> axes;
    for (size_t i = 0; i < rank; ++i) {
      if (pick(0, 1)) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) axes.push_back(static_cast<int64_t>(rank) - 1);
    Value* r = small(builder_.emit(ops[pick(0, 2)], {x}, {{"axes", axes}}));
    values_.push_back(r);
    // What normalisations do: the result meets the rows again.
    if (pick(0, 1)) {
      std::vector<int64_t> kept;
      for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
        if (std::find(axes.begin(), axes.end(), i) == axes.end()) kept.push_back(i);
      }
      values_.push_back(small(builder_.sub(x, builder_.broadcast_in_dim(r, s, kept))));
    }
  }

  void add_transpose(Value* x) {
    const size_t rank = x->type.shape().size();
    std::vector<int64_t> permutation(rank);
    for (size_t i = 0; i < rank; ++i) permutation[i] = static_cast<int64_t>(i);
    std::shuffle(permutation.begin(), permutation.end(), random_);
    values_.push_back(builder_.transpose(x, permutation));
  }

  void add_reshape(Value* x) {
    const Shape s = x->type.shape();
    const size_t rank = s.size();
    Shape to = s;
    if (rank >= 2 && pick(0, 1)) {
      const size_t i = static_cast<size_t>(pick(0, static_cast<int64_t>(rank) - 2));
      to[i] *= to[i + 1];
      to.erase(to.begin() + static_cast<ptrdiff_t>(i) + 1);
    } else {
      for (size_t i = 0; i < to.size(); ++i) {
        if (to[i] % 2 == 0) {
          to[i] /= 2;
          to.insert(to.begin() + static_cast<ptrdiff_t>(pick(0, 1) ? i : i + 1), 2);
          break;
        }
      }
    }
    values_.push_back(builder_.reshape(x, to));
  }

  void add_slice(Value* x) {
    const Shape s = x->type.shape();
    const size_t rank = s.size();
    std::vector<int64_t> starts(rank), limits = s, steps(rank, 1);
    const size_t axis = static_cast<size_t>(any_axis(x));
    starts[axis] = pick(0, s[axis] - 1);
    steps[axis] = pick(1, 2);
    values_.push_back(builder_.slice(x, starts, limits, steps));
  }

  void add_pad(Value* x) {
    const size_t rank = x->type.shape().size();
    std::vector<int64_t> low(rank), high(rank), interior(rank);
    const size_t axis = static_cast<size_t>(any_axis(x));
    low[axis] = pick(0, 2);
    high[axis] = pick(0, 2);
    interior[axis] = pick(0, 1);
    values_.push_back(builder_.pad(x, builder_.full(DType::f32, {}, static_cast<double>(pick(-1, 1))), low, high, interior));
  }

  void add_concat(Value* x) {
    const int64_t axis = any_axis(x);
    std::vector<Value*> pieces{x, like(x)};
    if (pick(0, 1)) pieces.push_back(builder_.emit(Op::neg_, {x}));
    values_.push_back(builder_.concat(pieces, axis));
  }

  void add_dot(Value* x) {
    const size_t rank = x->type.shape().size();
    // With itself: [.., k] x [.., k] over the last axis.
    const int64_t last = static_cast<int64_t>(rank) - 1;
    std::vector<int64_t> batch;
    if (rank >= 2 && rank <= 3) batch.push_back(0);
    Value* d = builder_.emit(Op::dot_general_, {x, x},
                             {{"lhs_batch", batch},
                              {"rhs_batch", batch},
                              {"lhs_contract", std::vector<int64_t>{last}},
                              {"rhs_contract", std::vector<int64_t>{last}},
                              {"dtype", DType::f32}});
    if (d->type.count() <= 4096) values_.push_back(small(d));
  }

  void add_conv(Value* x) {
    const Shape s = x->type.shape();
    const size_t rank = s.size();
    if (rank > 4) return;
    const size_t spatial = rank - 2;
    const int64_t groups = pick(0, 1) ? s[1] : 1, outputs = groups * pick(1, 2);
    Shape w{outputs, s[1] / groups};
    w.insert(w.end(), spatial, 2);
    std::vector<int64_t> ones(spatial, 1), strides(spatial, pick(1, 2)), low(spatial, 1), high(spatial, pick(0, 1)),
        lhs(spatial, pick(1, 2));
    Value* weight = builder_.iota(DType::f32, w, static_cast<int64_t>(rank) - 1);
    Value* kernel = builder_.sub(weight, builder_.full(DType::f32, w, 1));
    values_.push_back(small(builder_.emit(
        Op::conv_general_, {x, kernel},
        {{"strides", strides}, {"low", low}, {"high", high}, {"lhs_dilation", lhs}, {"rhs_dilation", ones}, {"groups", groups}})));
  }

  void add_window(Value* x) {
    const size_t rank = x->type.shape().size();
    std::vector<int64_t> ones(rank, 1), window(rank, 1), low(rank, 0), high(rank, 0), strides(rank, 1);
    const size_t axis = static_cast<size_t>(any_axis(x));
    window[axis] = 2;
    low[axis] = pick(0, 1);
    high[axis] = 1;
    strides[axis] = pick(1, 2);
    static const char* ops[] = {"max", "min", "sum"};
    values_.push_back(small(builder_.emit(Op::reduce_window_, {x},
                                          {{"op", std::string(ops[pick(0, 2)])},
                                           {"window", window},
                                           {"strides", strides},
                                           {"low", low},
                                           {"high", high},
                                           {"dilations", ones}})));
  }

  void add_cumulative(Value* x) {
    static const char* ops[] = {"sum", "max", "min"};
    values_.push_back(small(
        builder_.emit(Op::cumulative_, {x},
                      {{"op", std::string(ops[pick(0, 2)])}, {"axis", any_axis(x)}, {"reverse", pick(0, 1) == 1}, {"exclusive", false}})));
  }

  void add_arg(Value* x) {
    const int64_t axis = any_axis(x);
    Value* a = builder_.emit(pick(0, 1) ? Op::argmax_ : Op::argmin_, {x}, {{"axis", axis}, {"last", pick(0, 1) == 1}});
    values_.push_back(builder_.cast(a, DType::f32));
  }

  void add_topk(Value* x) {
    const Shape s = x->type.shape();
    const int64_t axis = any_axis(x);
    Node* node =
        builder_.emit_node(Op::topk_, {x}, {{"k", pick(1, s[static_cast<size_t>(axis)])}, {"axis", axis}, {"largest", pick(0, 1) == 1}});
    values_.push_back(node->result(0));
    values_.push_back(builder_.cast(node->result(1), DType::f32));
  }

  void add_reverse(Value* x) {
    std::vector<int64_t> axes{any_axis(x)};
    values_.push_back(builder_.emit(Op::reverse_, {x}, {{"axes", axes}}));
  }

  void add_scatter(Value* x) {
    const Shape s = x->type.shape();
    const int64_t axis = any_axis(x);
    // Each element where it is: no two updates meet, except that negative ones wrap.
    Value* at = builder_.iota(DType::i64, s, axis);
    values_.push_back(small(
        builder_.emit(Op::scatter_elements_, {like(x), at, x}, {{"axis", axis}, {"combiner", std::string(pick(0, 1) ? "add" : "max")}})));
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  std::vector<Value*> values_;
  Value* indices_ = nullptr;
};

}  // namespace tcc::group
