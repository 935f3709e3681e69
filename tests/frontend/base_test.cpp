// What importers stand on: known values of shape arithmetic, names.
#include <gtest/gtest.h>

#include <random>

#include "frontend/base/names.h"
#include "frontend/base/shape_arithmetic.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/evaluate.h"
#include "tcc/support/diagnostics.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

/// A graph that grows as an importer's does.
class Growing {
 public:
  Value* emit(Op op, std::vector<Value*> operands, Attrs attrs = {}) { return builder_.emit(op, std::move(operands), std::move(attrs)); }
  Value* ints(std::vector<int64_t> values) { return graph.add_weight("ints", Tensor::from_ints(std::move(values)), false); }
  Value* shape(Value* x) { return emit(Op::shape_of_, {x}, {{"start", int64_t{0}}}); }
  /// Element `i` of a list, as a list.
  Value* element(Value* list, int64_t i) { return emit(Op::dynamic_slice_, {list, ints({i}), ints({i + 1})}); }
  Value* join(Value* a, Value* b) { return emit(Op::concat_, {a, b}, {{"axis", int64_t{0}}}); }
  Value* reshape(Value* x, Value* sizes) { return emit(Op::dynamic_reshape_, {x, sizes}, {{"allowzero", false}}); }

  Graph graph;
  ShapeArithmetic arithmetic{graph};

 private:
  Builder builder_{graph, graph.body, {}};
};

std::vector<int64_t> ints_of(const std::optional<Tensor>& tensor) {
  if (!tensor) return {-1};
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor->count(); ++i) values.push_back(tensor->as_int64(i));
  return values;
}

TEST(ShapeArithmetic, LooksAtEachNodeOnce) {
  Growing g;
  Value* x = g.graph.add_input("x", Type(DType::f32, {4, 6}));
  int64_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    Value* shape = g.shape(x);
    Value* one = g.element(shape, 1);
    x = g.reshape(x, g.join(one, g.ints({-1})));
    g.emit(Op::relu_, {x});  // nobody asks for it
    EXPECT_EQ(ints_of(g.arithmetic.value_of(one)), std::vector<int64_t>{i % 2 == 0 ? 6 : 4});
    EXPECT_EQ(ints_of(g.arithmetic.value_of(shape)), (i % 2 == 0 ? std::vector<int64_t>{4, 6} : std::vector<int64_t>{6, 4}));
    const int64_t now = g.arithmetic.num_resolved_nodes();
    ASSERT_LE(now - last, 4) << "a question costs what is new, in layer " << i;
    last = now;
  }
}

TEST(ShapeArithmetic, LooksAtNothingThatNobodyAsksFor) {
  Growing g;
  Value* x = g.graph.add_input("x", Type(DType::f32, {4, 6}));
  for (int i = 0; i < 100; ++i) x = g.emit(Op::relu_, {x});
  Value* shape = g.shape(x);
  EXPECT_EQ(g.arithmetic.num_resolved_nodes(), 0);
  EXPECT_EQ(ints_of(g.arithmetic.value_of(shape)), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(g.arithmetic.num_resolved_nodes(), 1) << "what is read for its shape alone is not computed";
}

TEST(ShapeArithmetic, KnowsWhatIsBound) {
  Growing g;
  Type open = Type::unranked(DType::f32);
  open.ranked = true;
  open.dims = {Dim("n"), Dim(3)};
  Value* x = g.graph.add_input("x", open);
  Value* y = g.graph.add_input("y", open);
  Value* k = g.graph.add_input("k", Type(DType::i64, {2}));
  Value* unbound = g.graph.add_input("z", Type::unranked(DType::f32));
  Bindings bindings;
  bindings.shapes["x"] = {5, 3};
  bindings.inputs["k"] = Tensor::from_ints({7, 8});
  g.arithmetic.bind(bindings);
  EXPECT_EQ(ints_of(g.arithmetic.value_of(g.shape(y))), (std::vector<int64_t>{5, 3})) << "equal names mean equal sizes";
  EXPECT_EQ(ints_of(g.arithmetic.value_of(g.emit(Op::add_, {k, g.shape(x)}))), (std::vector<int64_t>{12, 11}));
  EXPECT_EQ(g.arithmetic.value_of(g.shape(unbound)), std::nullopt);
  EXPECT_EQ(g.arithmetic.value_of(unbound), std::nullopt);
  Value* late = g.graph.add_input("seed", Type(DType::i64, {}));
  EXPECT_EQ(g.arithmetic.value_of(late), std::nullopt);
  EXPECT_EQ(ints_of(g.arithmetic.value_of(g.emit(Op::size_of_, {late}))), std::vector<int64_t>{1});
}

TEST(ShapeArithmetic, RefusesBindingsThatContradict) {
  Growing g;
  Value* x = g.graph.add_input("x", Type(DType::f32, {4, 6}));
  Bindings bindings;
  bindings.shapes["x"] = {4, 7};
  g.arithmetic.bind(bindings);
  Value* shape = g.shape(x);
  const std::string message = testing::error_of(ExitCode::model, [&] { g.arithmetic.value_of(shape); });
  EXPECT_NE(message.find("axis 1 is given as 7, the model declares f32[4, 6] [type-error]"), std::string::npos) << message;
}

TEST(ShapeArithmetic, DoesNotTakeParametersForConstants) {
  Growing g;
  Value* parameter = g.graph.add_weight("p", Tensor::from_ints({1, 2}).cast_to(DType::f32), true);
  Value* doubled = g.emit(Op::add_, {parameter, parameter});
  EXPECT_TRUE(g.arithmetic.value_of(parameter).has_value());
  EXPECT_EQ(g.arithmetic.value_of(doubled), std::nullopt) << "training changes it";
  EXPECT_EQ(ints_of(g.arithmetic.value_of(g.shape(doubled))), std::vector<int64_t>{2});
}

struct Known {
  std::optional<Tensor> tensor;
  std::optional<Type> type;
};

/// The constant that a value is. A choice between equal ones stays in the graph, where it may keep gradients from one of them.
std::optional<Tensor> constant_of(const Value* value) {
  if (value->weight != nullptr) return value->weight->tensor;
  const Node* node = value->producer;
  if (node != nullptr && node->op == Op::select_) {
    const auto a = constant_of(node->operand(1)), b = constant_of(node->operand(2));
    return a && b && a->shape() == value->type.shape() && a->same_bytes(*b) ? a : std::nullopt;
  }
  if (node == nullptr || !node->operands.empty()) return std::nullopt;
  return evaluate_prim(*node, {}, false).at(0);
}

/// What the passes say of the first result of a node: they are the oracle.
Known known_by_passes(const Graph& graph, size_t node, const Bindings& bindings) {
  const std::unique_ptr<Graph> alone = graph.clone();
  alone->add_output(alone->body.nodes.at(node)->result(), "value");
  eliminate_dead_code(*alone);
  Diagnostics diagnostics;
  bind_shapes(*alone, bindings);
  resolve(*alone, diagnostics);
  if (diagnostics.has_errors()) return {};
  const Value* value = alone->body.results.at(0);
  return {constant_of(value), value->type};
}

/// Random shape arithmetic over tensors of known and of open sizes, with numbers that depend on data between.
class RandomArithmetic {
 public:
  explicit RandomArithmetic(uint32_t seed) : random_(seed) {
    Type open = Type::unranked(DType::f32);
    open.ranked = true;
    open.dims = {Dim("n"), Dim(2)};
    tensors_ = {g.graph.add_input("x", open), g.graph.add_input("y", Type(DType::f32, {2, 3}))};
    lists_ = {g.ints({3}), g.graph.add_input("k", Type(DType::i64, {1})), g.graph.add_input("data", Type(DType::i64, {1}))};
    bindings.shapes["x"] = {4, 2};
    bindings.inputs["k"] = Tensor::from_ints({6});
    g.arithmetic.bind(bindings);
  }

  void grow() {
    switch (below(10)) {
      case 0: tensors_.push_back(g.emit(Op::relu_, {any(tensors_)})); break;
      case 1: tensors_.push_back(g.reshape(any(tensors_), g.join(any(lists_), g.ints({-1})))); break;
      case 2: tensors_.push_back(g.emit(Op::transpose_, {any(tensors_)}, {{"permutation", std::vector<int64_t>{1, 0}}})); break;
      case 3: lists_.push_back(g.emit(Op::shape_of_, {any(tensors_)}, {{"start", int64_t{0}}, {"end", int64_t{1}}})); break;
      case 4: lists_.push_back(g.reshape(g.emit(Op::size_of_, {any(tensors_)}), g.ints({1}))); break;
      case 5: lists_.push_back(g.emit(Op::add_, {any(lists_), any(lists_)})); break;
      case 6: lists_.push_back(g.emit(Op::max_, {any(lists_), any(lists_)})); break;
      case 7: lists_.push_back(g.element(g.join(any(lists_), any(lists_)), below(3))); break;  // may lie behind the end: empty
      case 8: lists_.push_back(g.emit(Op::select_, {g.emit(Op::lt_, {any(lists_), any(lists_)}), any(lists_), any(lists_)})); break;
      default:
        lists_.push_back(g.emit(Op::shape_of_, {g.emit(Op::dynamic_expand_, {any(tensors_), any(lists_)})}, {{"start", int64_t{-1}}}));
    }
  }

  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

  Growing g;
  Bindings bindings;

 private:
  Value* any(const std::vector<Value*>& values) { return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))]; }

  std::mt19937 random_;
  std::vector<Value*> tensors_, lists_;
};

TEST(ShapeArithmetic, SaysWhatThePassesSay) {
  int num_known = 0, num_unknown = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomArithmetic random(seed);
    const Graph& graph = random.g.graph;
    for (int step = 0; step < 30; ++step) {
      try {
        random.grow();
      } catch (const RuleError&) {}  // types that are known already don't fit: an importer would report it
      if (graph.body.nodes.empty()) continue;
      // Any of the nodes so far: some were looked at, others are new.
      const auto node = static_cast<size_t>(random.below(static_cast<int64_t>(graph.body.nodes.size())));
      const Value* value = graph.body.nodes[node]->result();
      const Known expected = known_by_passes(graph, node, random.bindings);
      if (random.below(2) == 0) {
        ASSERT_EQ(random.g.arithmetic.type_of(value), expected.type.value_or(value->type)) << "seed " << seed << ", %" << value->name;
      }
      const std::optional<Tensor> found = random.g.arithmetic.value_of(value);
      ASSERT_EQ(found.has_value(), expected.tensor.has_value()) << "seed " << seed << ", node " << print(*graph.body.nodes[node]);
      (found ? num_known : num_unknown) += 1;
      if (!found) continue;
      ASSERT_EQ(found->shape(), expected.tensor->shape());
      ASSERT_EQ(ints_of(found), ints_of(expected.tensor)) << "seed " << seed << ", node " << print(*graph.body.nodes[node]);
    }
  }
  EXPECT_GT(num_known, 200);
  EXPECT_GT(num_unknown, 200);
}

TEST(UniqueNames, AreEachTakenOnce) {
  UniqueNames names;
  EXPECT_EQ(names.add("y"), "y");
  EXPECT_EQ(names.add("y.1"), "y.1");
  EXPECT_EQ(names.add("y"), "y.2");
  EXPECT_EQ(names.add("y"), "y.3");
  EXPECT_EQ(names.add("y.1"), "y.1.1");
}

}  // namespace
}  // namespace tcc
