// Random projections of one value: what the pass makes of them has the same bits, and fewer products.
#include <gtest/gtest.h>

#include <random>

#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

class Projections {
 public:
  explicit Projections(unsigned seed)
      : random_(seed), graph_(std::make_unique<Graph>("projections")), builder_(*graph_, graph_->body, {}) {}

  /// Products of one input by constants, with or without a bias, a scale, a cast and views behind them, and the products of each with the next.
  std::unique_ptr<Graph> take() {
    dtype_ = chance(2) ? DType::f32 : DType::bf16;
    const int64_t k = between(1, 20);
    const Shape rows = chance(2) ? Shape{between(1, 5)} : Shape{between(1, 3), between(1, 3)};
    Shape shape = rows;
    shape.push_back(k);
    Value* x = graph_->add_input("x", Type(dtype_, shape));
    const bool turned = chance(2), scaled = chance(2), cast = chance(3);
    std::vector<Value*> parts;
    for (int64_t i = between(2, 4); i > 0; --i) {
      const int64_t n = 2 * between(1, 6);
      Value* w = graph_->add_weight("w", draw(turned ? Shape{n, k} : Shape{k, n}));
      const Attrs attrs{{"lhs_batch", std::vector<int64_t>{}},
                        {"rhs_batch", std::vector<int64_t>{}},
                        {"lhs_contract", std::vector<int64_t>{static_cast<int64_t>(rows.size())}},
                        {"rhs_contract", std::vector<int64_t>{turned ? 1 : 0}},
                        {"dtype", dtype_}};
      parts.push_back(behind(builder_.emit(Op::dot_general_, {x, w}, attrs), n, scaled, cast));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      // All rows of each with all rows of the next, summed over two elements.
      Value* a = flat(parts[i]);
      Value* b = flat(parts[(i + 1) % parts.size()]);
      graph_->add_output(builder_.emit(Op::dot_general_, {a, b},
                                       {{"lhs_batch", std::vector<int64_t>{}},
                                        {"rhs_batch", std::vector<int64_t>{}},
                                        {"lhs_contract", std::vector<int64_t>{1}},
                                        {"rhs_contract", std::vector<int64_t>{1}},
                                        {"dtype", a->type.dtype}}),
                         "y" + std::to_string(i));
    }
    num_parts_ = parts.size();
    return std::move(graph_);
  }

  size_t num_parts() const { return num_parts_; }

  Tensor draw(const Shape& shape) {
    Tensor tensor(dtype_, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, std::uniform_real_distribution<double>(-2, 2)(random_));
    return tensor;
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int one_in) { return between(1, one_in) == 1; }

  Value* flat(Value* x) { return builder_.reshape(x, {x->type.count() / 2, 2}); }

  Value* behind(Value* part, int64_t n, bool scaled, bool cast) {
    const Shape shape = part->type.shape();
    if (chance(2)) {
      Value* bias = graph_->add_weight("b", draw({n}));
      part = builder_.add(part, builder_.broadcast_in_dim(bias, shape, {static_cast<int64_t>(shape.size()) - 1}));
    }
    if (cast) part = builder_.cast(part, DType::f64);
    if (scaled && chance(2)) {
      Shape heads = shape;
      heads.back() /= 2;
      heads.push_back(2);
      part = builder_.reshape(part, heads);
      part = builder_.mul(part, builder_.full(part->type.dtype, heads, static_cast<double>(between(-3, 3)) / 4));
    }
    return part;
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  DType dtype_ = DType::f32;
  size_t num_parts_ = 0;
};

size_t num_products(const Graph& graph) {
  size_t count = 0;
  for (const Node* node : graph.body.nodes) count += node->op == Op::dot_general_ ? 1 : 0;
  return count;
}

TEST(JoinProducts, RandomProjections) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    Projections projections(seed);
    const std::unique_ptr<Graph> graph = projections.take();
    const std::vector<Tensor> inputs{projections.draw(graph->body.args[0]->type.shape())};
    const std::vector<Tensor> expected = interpret(*graph, inputs, false);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(*graph));
    join_products(*graph);
    std::string faults;
    for (const std::string& fault : verify(*graph, GraphStage::prims)) faults += fault + "\n";
    ASSERT_EQ(faults, "");
    EXPECT_EQ(num_products(*graph), projections.num_parts() + 1) << print(*graph);
    const std::vector<Tensor> found = interpret(*graph, inputs, false);
    for (size_t i = 0; i < expected.size(); ++i) {
      for (int64_t at = 0; at < expected[i].count(); ++at)
        ASSERT_EQ(found[i].as_double(at), expected[i].as_double(at)) << "output " << i << ", element " << at << "\n" << print(*graph);
    }
    const std::string once = print(*graph);
    join_products(*graph);
    EXPECT_EQ(print(*graph), once) << "a second run finds more";
  }
}

TEST(JoinProducts, ParametersStayApart) {
  Projections projections(1);
  const std::unique_ptr<Graph> graph = projections.take();
  const std::string before = print(*graph);
  join_products(*graph, true);
  EXPECT_EQ(print(*graph), before);
}

}  // namespace
}  // namespace tcc
