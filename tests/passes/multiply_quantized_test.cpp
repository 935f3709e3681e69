// Random products of dequantised factors: what the pass makes of them is what the interpreter computes in f64, and reads elements of 8 bits.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

class RandomProduct {
 public:
  explicit RandomProduct(unsigned seed) : random_(seed), graph_(std::make_unique<Graph>("product")), builder_(*graph_, graph_->body, {}) {}

  /// A matmul, of integers or of floats, with scales and zero points of all elements, of rows or of columns.
  std::unique_ptr<Graph> take() {
    const bool integers = chance(2), in_i32 = integers && chance(3);
    const int64_t batch = chance(3) ? 2 : 0, m = between(1, 5), n = between(1, 5), k = between(2, 40);
    Value* x = side(batch, m, k, 1, integers, in_i32, false);
    const bool turned = chance(2);
    Value* y = turned ? side(batch, n, k, 1, integers, in_i32, true) : side(batch, k, n, 2, integers, in_i32, true);
    if (turned) y = builder_.transpose(y, batch > 0 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0});
    graph_->add_output(builder_.emit(Op::matmul_, {x, y}), "y");
    return std::move(graph_);
  }

  std::vector<Tensor> inputs(const Graph& graph) {
    std::vector<Tensor> tensors;
    for (const Value* input : graph.body.args) tensors.push_back(draw(input->type.dtype, input->type.shape()));
    return tensors;
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int one_in) { return between(1, one_in) == 1; }

  Tensor draw(DType dtype, const Shape& shape) {
    Tensor tensor(dtype, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(dtype)) tensor.set_double(i, static_cast<double>(between(-40, 40)) / 8);
      else tensor.set_int64(i, dtype == DType::u8 ? between(0, 255) : between(-128, 127));
    }
    return tensor;
  }

  Value* value_of(DType dtype, const Shape& shape) {
    if (chance(2)) return graph_->add_input("x", Type(dtype, shape));
    return graph_->add_weight("w", draw(dtype, shape));
  }

  /// One value for all, or for each index of the axis that is not summed over.
  Shape parameter_shape(const Shape& shape, size_t axis) { return chance(2) ? Shape{} : Shape{shape[axis]}; }

  Value* side(int64_t batch, int64_t rows, int64_t columns, int64_t free_from_end, bool integers, bool in_i32, bool second) {
    Shape shape{rows, columns};
    if (batch > 0) shape.insert(shape.begin(), batch);
    const size_t axis = shape.size() - (free_from_end == 1 ? 2 : 1);
    const DType dtype = integers ? (chance(2) ? DType::i8 : DType::u8) : (chance(2) ? DType::f8e4m3fn : DType::f8e5m2);
    Value* x = second ? value_of(dtype, shape) : graph_->add_input("x", Type(dtype, shape));
    const auto along = [&](Value* value) {
      return value->type.rank() == 0 ? value : builder_.broadcast_in_dim(value, shape, {static_cast<int64_t>(axis)});
    };
    Value* wide = builder_.cast(x, integers ? DType::i32 : DType::f32);
    if (integers && chance(2)) {
      Value* point = along(builder_.cast(value_of(dtype, parameter_shape(shape, axis)), DType::i32));
      wide = builder_.sub(wide, point);
    }
    if (in_i32) return wide;
    wide = builder_.cast(wide, DType::f32);
    for (int i = static_cast<int>(between(0, 2)); i > 0; --i) {
      Value* scale = along(value_of(DType::f32, parameter_shape(shape, axis)));
      wide = chance(2) || scale->type.rank() == 0 ? builder_.mul(wide, scale) : builder_.mul(scale, wide);
    }
    return wide;
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
};

TEST(MultiplyQuantized, RandomProducts) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    RandomProduct product(seed);
    const std::unique_ptr<Graph> graph = product.take();
    const std::vector<Tensor> inputs = product.inputs(*graph);
    const Tensor expected = interpret(*graph, inputs, true)[0];
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(*graph));
    Diagnostics diagnostics;
    decompose(*graph, diagnostics);
    canonicalize(*graph);
    multiply_quantized(*graph);
    canonicalize(*graph);
    std::string faults;
    for (const std::string& fault : verify(*graph, GraphStage::prims)) faults += fault + "\n";
    ASSERT_EQ(faults, "");
    for (const Node* node : graph->body.nodes) {
      if (node->op != Op::dot_general_) continue;
      for (const Value* operand : node->operands) EXPECT_EQ(size_bits(operand->type.dtype), 8) << print(*graph);
    }
    const Tensor found = interpret(*graph, inputs, false)[0];
    double largest = 0;
    for (int64_t i = 0; i < expected.count(); ++i) largest = std::max(largest, std::fabs(expected.as_double(i)));
    for (int64_t i = 0; i < expected.count(); ++i)
      ASSERT_NEAR(found.as_double(i), expected.as_double(i), is_float(found.dtype()) ? 1e-5 * (1 + largest) : 0) << print(*graph);
  }
}

/// A matmul of floats with weights of 4 or 8 bits: scales and zero points of all elements, of columns, or of blocks along the sum.
struct NarrowProduct {
  std::mt19937 random;
  Graph graph{"product"};
  Builder builder{graph, graph.body, {}};

  explicit NarrowProduct(unsigned seed) : random(seed) {
    const auto pick = [&]<class T>(std::initializer_list<T> values) {
      return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
    };
    const int64_t batch = pick({0, 0, 2}), m = pick({1, 3}), n = pick({1, 4, 6}), k = pick({1, 8, 12, 16, 33});
    const DType dtype = pick({DType::i4, DType::u4, DType::i8, DType::u8, DType::f8e4m3fn}),
                floats = pick({DType::f32, DType::f32, DType::bf16});
    const bool turned = pick({true, false}), constant = pick({true, true, false});
    Shape shape = turned ? Shape{n, k} : Shape{k, n}, left{m, k};
    if (batch > 0) left.insert(left.begin(), batch), shape.insert(shape.begin(), batch);
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t sum = turned ? rank - 1 : rank - 2, kind = pick({0, 1, 2, 2}), block = pick({4, 8, 16});
    Shape parameters = kind == 0 ? Shape{} : kind == 1 ? Shape{n} : shape;
    if (kind == 2) parameters[static_cast<size_t>(sum)] = (k + block - 1) / block;
    const auto value = [&](DType of, const Shape& extents, bool is_constant) {
      return is_constant ? graph.add_weight("w", draw(of, extents)) : graph.add_input("x", Type(of, extents));
    };
    Value* x = graph.add_input("x", Type(floats, left));
    std::vector<Value*> operands{value(dtype, shape, constant), value(floats, parameters, constant)};
    if (!is_float(dtype) && pick({true, false})) operands.push_back(value(dtype, parameters, constant));
    Attrs attrs{{"axis", kind == 2 ? sum : turned ? rank - 2 : rank - 1}};
    if (kind == 2) attrs.set("block_size", block);
    Value* y = builder.emit(Op::dequantize_linear_, std::move(operands), std::move(attrs));
    if (turned) y = builder.transpose(y, batch > 0 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0});
    graph.add_output(builder.emit(Op::matmul_, {x, y}), "y");
  }

  Tensor draw(DType dtype, const Shape& shape) {
    Tensor tensor(dtype, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(dtype)) tensor.set_double(i, static_cast<double>(static_cast<int>(random() % 17) - 8) / 4);
      else tensor.set_int64(i, static_cast<int64_t>(random() % 256));
    }
    return tensor;
  }
};

TEST(MultiplyQuantized, RandomProductsWithOneNarrowFactor) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    NarrowProduct product(seed);
    std::vector<Tensor> inputs;
    for (const Value* input : product.graph.body.args) inputs.push_back(product.draw(input->type.dtype, input->type.shape()));
    const Tensor expected = interpret(product.graph, inputs, true)[0];
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(product.graph));
    Diagnostics diagnostics;
    decompose(product.graph, diagnostics);
    canonicalize(product.graph);
    multiply_quantized(product.graph);
    canonicalize(product.graph);
    std::string faults;
    for (const std::string& fault : verify(product.graph, GraphStage::prims)) faults += fault + "\n";
    ASSERT_EQ(faults, "");
    const Tensor found = interpret(product.graph, inputs, false)[0];
    double largest = 0;
    for (int64_t i = 0; i < expected.count(); ++i) largest = std::max(largest, std::fabs(expected.as_double(i)));
    const double tolerance = (found.dtype() == DType::f32 ? 1e-5 : 1e-2) * (1 + largest);
    for (int64_t i = 0; i < expected.count(); ++i)
      ASSERT_NEAR(found.as_double(i), expected.as_double(i), tolerance) << print(product.graph);
  }
}

/// Each product reads one value twice: as many paths lead to the input as there are numbers of 60 bits.
TEST(MultiplyQuantized, ChainsOfProductsAreLeftAlone) {
  Graph graph("squares");
  Builder builder(graph, graph.body, {});
  Value* x = graph.add_input("x", Type(DType::f32, {2, 4}));
  for (int i = 0; i < 60; ++i) x = builder.emit(Op::mul_, {x, x});
  graph.add_output(builder.emit(Op::matmul_, {x, graph.add_input("w", Type(DType::f32, {4, 2}))}), "y");
  Diagnostics diagnostics;
  decompose(graph, diagnostics);
  const std::string before = print(graph);
  multiply_quantized(graph);
  EXPECT_EQ(print(graph), before);
}

}  // namespace
}  // namespace tcc
