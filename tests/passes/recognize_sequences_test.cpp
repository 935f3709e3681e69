// Triangles of any dtype, offset and shape become computed ones with the same elements; what is none stays.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

Tensor triangle(DType dtype, const Shape& shape, int64_t offset, double inside, double outside) {
  Tensor tensor(dtype, shape);
  const int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  for (int64_t i = 0; i < tensor.count(); i++) tensor.set_double(i, i % columns <= i / columns % rows + offset ? inside : outside);
  return tensor;
}

/// The graph that returns the tensor; whether the pass computes it.
bool is_computed(const Tensor& tensor) {
  Graph graph("g");
  Builder builder(graph, graph.body, {});
  Value* weight = builder.constant(tensor);
  graph.add_output(builder.reshape(builder.reshape(weight, {tensor.count()}), tensor.shape()), "y");
  const std::vector<Tensor> before = interpret(graph, {}, false, {});
  recognize_sequences(graph);
  EXPECT_EQ(verify(graph, GraphStage::prims), std::vector<std::string>());
  const std::vector<Tensor> after = interpret(graph, {}, false, {});
  for (int64_t i = 0; i < tensor.count(); i++) {
    const double a = before[0].as_double(i), b = after[0].as_double(i);
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << b << ", expected " << a;
  }
  return graph.weights().empty();
}

TEST(RecognizeSequences, Triangles) {
  const double low = -std::numeric_limits<double>::infinity();
  for (const int64_t offset : {-5, -1, 0, 1, 7, 18}) {
    EXPECT_TRUE(is_computed(triangle(DType::boolean, {1, 1, 20, 20}, offset, 1, 0))) << offset;
    EXPECT_TRUE(is_computed(triangle(DType::boolean, {20, 20}, offset, 0, 1))) << offset;
    EXPECT_TRUE(is_computed(triangle(DType::f32, {3, 20, 24}, offset, 0, low))) << offset;
    EXPECT_TRUE(is_computed(triangle(DType::bf16, {2, 24, 20}, offset, 0, -1e38))) << offset;
  }
}

TEST(RecognizeSequences, WhatIsNone) {
  Tensor one_off = triangle(DType::f32, {20, 20}, 0, 1, 0);
  one_off.set_double(7 * 20 + 9, 1);
  EXPECT_FALSE(is_computed(one_off));
  EXPECT_FALSE(is_computed(triangle(DType::f32, {20, 20}, 0, std::numeric_limits<double>::quiet_NaN(), 0)));
  EXPECT_FALSE(is_computed(triangle(DType::f32, {4, 4}, 0, 1, 0)));     // small
  EXPECT_FALSE(is_computed(triangle(DType::f32, {20, 20}, 40, 1, 0)));  // one value
}

}  // namespace
}  // namespace tcc
