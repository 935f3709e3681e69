// Random attention with its gradient: what the pass makes of it is what the interpreter computes in the original, with fewer values as large as scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

using Axes = std::vector<int64_t>;

class RandomAttention {
 public:
  explicit RandomAttention(unsigned seed) : random_(seed), graph_(std::make_unique<Graph>("g")), b_(*graph_, graph_->body, {}) {}

  /// o = p v with p the softmax of scaled products, and the sums along rows of p times a product of cotangents and v, both maybe masked or scaled.
  std::unique_ptr<Graph> take() {
    const bool inside = chance(2), turned = chance(2), guarded = chance(2), dropped = chance(2), other_order = chance(2);
    const int64_t batch = between(1, 2), heads = between(1, 3), rows = between(1, 6), columns = between(3, 8), depth = between(1, 2);
    const Shape of_rows = inside ? Shape{batch, rows, heads, depth} : Shape{batch, heads, rows, depth};
    const Shape of_columns = inside ? Shape{batch, columns, heads, depth} : Shape{batch, heads, columns, depth};
    const Axes batch_axes = inside ? Axes{0, 2} : Axes{0, 1};
    Value* q = scaled(graph_->add_input("q", Type(DType::f32, of_rows)));
    Value* k = scaled(graph_->add_input("k", Type(DType::f32, of_columns)));
    Value* v = graph_->add_input("v", Type(DType::f32, of_columns));
    Value* g = graph_->add_input("g", Type(DType::f32, of_rows));
    Value* s = dot(q, k, batch_axes, {3}, batch_axes, {3});
    const Shape scores = s->type.shape();
    Value* m = b_.broadcast_in_dim(b_.reduce(Op::reduce_max_, s, {3}), scores, {0, 1, 2});
    Value* e = b_.unary(Op::exp_, b_.sub(s, m));
    Value* r = b_.unary(Op::recip_, b_.reduce(Op::reduce_sum_, e, {3}));
    Value* p = b_.mul(e, b_.broadcast_in_dim(r, scores, {0, 1, 2}));
    Value* zero = b_.full(DType::f32, scores, 0);
    Value* nan = b_.unary(Op::isnan_, p);
    Value* kept = dropped ? b_.emit(Op::lt_, {s, b_.full(DType::f32, scores, 0.5)}) : nullptr;
    const auto drop = [&](Value* x) { return kept ? b_.mul(b_.select(kept, x, zero), b_.full(DType::f32, scores, 1.25)) : x; };
    Value* weights = drop(guarded ? b_.select(nan, zero, p) : p);
    const int64_t summed = inside ? 1 : 2;
    Value* o = turned ? dot(v, weights, batch_axes, {summed}, {0, 1}, {3}) : dot(weights, v, {0, 1}, {3}, batch_axes, {summed});
    if (turned) o = b_.transpose(o, {0, 1, 3, 2});
    graph_->add_output(o, "o");
    Value* y =
        other_order ? b_.transpose(dot(v, g, batch_axes, {3}, batch_axes, {3}), {0, 1, 3, 2}) : dot(g, v, batch_axes, {3}, batch_axes, {3});
    y = drop(guarded ? b_.select(nan, zero, y) : y);
    graph_->add_output(b_.reduce(Op::reduce_sum_, b_.mul(b_.select(nan, zero, p), y), {3}), "delta");
    return std::move(graph_);
  }

  std::vector<Tensor> inputs(const Graph& graph) {
    std::vector<Tensor> tensors;
    for (const Value* input : graph.body.args) {
      Tensor tensor(input->type.dtype, input->type.shape());
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, std::uniform_real_distribution<double>(-2, 2)(random_));
      // A row of scores that are all -inf or NaN.
      if (input->name == "q" && chance(3)) tensor.set_double(0, chance(2) ? std::nan("") : -std::numeric_limits<double>::infinity());
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int one_in) { return between(1, one_in) == 1; }

  Value* scaled(Value* x) {
    const double scale = chance(3) ? 1 : chance(4) ? 4096 : 0.375;
    if (scale == 1) return x;
    Value* y = b_.mul(x, b_.full(DType::f32, x->type.shape(), scale));
    if (chance(3)) graph_->add_output(y, "scaled." + y->name);
    return y;
  }

  Value* dot(Value* x, Value* y, const Axes& x_batch, const Axes& x_sum, const Axes& y_batch, const Axes& y_sum) {
    return b_.emit(
        Op::dot_general_, {x, y},
        {{"dtype", DType::f32}, {"lhs_batch", x_batch}, {"lhs_contract", x_sum}, {"rhs_batch", y_batch}, {"rhs_contract", y_sum}});
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder b_;
};

bool sums_scores(const Graph& graph) {
  return std::ranges::any_of(graph.body.nodes, [](const Node* node) {
    const Node* mul = node->op == Op::reduce_sum_ ? node->operand(0)->producer : nullptr;
    return mul != nullptr && mul->op == Op::mul_;
  });
}

TEST(ReassociateProducts, RandomAttention) {
  int moved = 0, scaled = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomAttention maker(seed);
    const std::unique_ptr<Graph> graph = maker.take();
    const std::unique_ptr<Graph> changed = graph->clone();
    reassociate_products(*changed, true);
    for (const std::string& fault : verify(*changed, GraphStage::prims)) FAIL() << fault << "\n" << print(*changed);
    const auto num = [](const Graph& g, Op op) { return std::ranges::count_if(g.body.nodes, [&](const Node* n) { return n->op == op; }); };
    moved += num(*changed, Op::dot_general_) < num(*graph, Op::dot_general_);  // nothing else reads the product that was summed
    scaled += num(*changed, Op::mul_) != num(*graph, Op::mul_);
    const std::vector<Tensor> inputs = maker.inputs(*graph);
    const std::vector<Tensor> expected = interpret(*graph, inputs, false), found = interpret(*changed, inputs, false);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      for (int64_t k = 0; k < expected[i].count(); ++k) {
        const double is = found[i].as_double(k), wanted = expected[i].as_double(k);
        if (is == wanted || (std::isnan(is) && std::isnan(wanted))) continue;
        ASSERT_NEAR(is, wanted, 1e-4 * (1 + std::abs(wanted))) << i << " at " << k << "\n" << print(*graph) << print(*changed);
      }
    }
  }
  EXPECT_GT(moved, 30);
  EXPECT_GT(scaled, 60);
  EXPECT_TRUE(sums_scores(*RandomAttention(1).take()));
}

}  // namespace
}  // namespace tcc
