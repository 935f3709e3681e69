// Graphs for tests of constants: weights of matrix products that a library may store in another layout, and some that it may not.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/rules/builder.h"

namespace tcc::plan {

/// Products with weights of any order of axes, some of which several of them read.
inline std::unique_ptr<Graph> random_products(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  auto graph = std::make_unique<Graph>("products");
  Builder b(*graph, graph->body, Location{});
  const int64_t rows = pick({1, 2, 7, 13}), size = pick({5, 8, 17, 32});
  Value* x = graph->add_input("x", Type(DType::f32, {rows, size}));
  std::vector<Value*> square;
  for (int i = 0; i < 4; ++i) {
    const int64_t columns = pick({1, 3, 16, 24, size, size});
    const bool transposed = random() % 2 == 0;
    Value* weight = nullptr;
    if (columns == size && !square.empty() && random() % 2 == 0) {
      weight = square[random() % square.size()];
    } else {
      Tensor values(DType::f32, transposed ? Shape{columns, size} : Shape{size, columns});
      for (int64_t e = 0; e < values.count(); ++e) values.set_int64(e, static_cast<int64_t>(random() % 3) - 1);
      weight = graph->add_weight("w" + std::to_string(i), values);
      if (columns == size) square.push_back(weight);
    }
    const Attrs attrs = {{"dtype", DType::f32},
                         {"lhs_batch", std::vector<int64_t>{}},
                         {"lhs_contract", std::vector<int64_t>{1}},
                         {"rhs_batch", std::vector<int64_t>{}},
                         {"rhs_contract", std::vector<int64_t>{transposed ? 1 : 0}}};
    Value* product = b.emit(Op::dot_general_, {x, weight}, attrs);
    graph->add_output(product, "y" + std::to_string(i));
    if (columns == size) x = product;
  }
  return graph;
}

/// Small integers, so that sums are exact in any order.
inline Tensor random_input(const Graph& graph, std::mt19937& random) {
  Tensor x(DType::f32, graph.body.args[0]->type.shape());
  for (int64_t i = 0; i < x.count(); ++i) x.set_int64(i, static_cast<int64_t>(random() % 5) - 2);
  return x;
}

}  // namespace tcc::plan
