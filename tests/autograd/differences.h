// Gradients of small graphs in text against finite differences, in f64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/weighted_sum.h"
#include "tcc/autograd/autograd.h"
#include "tcc/autograd/gradient_op.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/random.h"

namespace tcc {

inline std::unique_ptr<Graph> parse(const std::string& text) {
  auto graph = parse_graph(text, "", {});
  Diagnostics diagnostics;
  resolve(*graph, diagnostics, expand_gradient);  // the types that the text leaves out
  diagnostics.checkpoint();
  return graph;
}

inline std::unique_ptr<Graph> joint_of(const Graph& graph) {
  Diagnostics diagnostics;
  GradOptions options;
  options.wrt = {"*"};
  auto joint = build_joint(graph, options, diagnostics);
  EXPECT_EQ(verify(*joint, GraphStage::resolved), std::vector<std::string>()) << print(*joint);
  return joint;
}

/// Shuffled points of a grid over [low, high]: no two values of an input are closer than its spacing, so that steps cross no tie; the grids of
/// different inputs are shifted against each other, and none meets a round number.
inline Tensor spaced_values(const Shape& shape, double low, double high, uint64_t seed) {
  Tensor tensor(DType::f64, shape);
  const int64_t count = tensor.count();
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const RandomStream stream{seed, 7, 0};
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(stream.integer(static_cast<uint64_t>(i), 0, i + 1))]);
  const double spacing = (high - low) / static_cast<double>(std::max<int64_t>(count, 1)),
               shift = 0.4137 + 0.0731 * static_cast<double>(seed % 5);
  for (int64_t i = 0; i < count; ++i) tensor.set_double(i, low + spacing * (static_cast<double>(order[static_cast<size_t>(i)]) + shift));
  return tensor;
}

struct Case {
  std::string graph;
  double low = -2, high = 2;  ///< of float inputs
  int64_t indices = 2;        ///< integer inputs are in [-indices, indices)
};

/// Of inputs with more elements than `most`, so many, evenly spread.
inline void check_by_differences(const Case& c, int64_t most = 1000) {
  SCOPED_TRACE(c.graph);
  const auto graph = parse(c.graph);
  const auto joint = joint_of(*graph);
  std::vector<Tensor> inputs, cotangents;
  uint64_t seed = 1;
  for (const Value* input : graph->body.args) {
    const Shape shape = input->type.shape();
    ++seed;
    if (is_float(input->type.dtype)) inputs.push_back(spaced_values(shape, c.low, c.high, seed));
    else if (input->type.dtype == DType::boolean) inputs.push_back(random_integers(DType::boolean, shape, {seed, 0, 0}, 0, 2));
    else inputs.push_back(random_integers(input->type.dtype, shape, {seed, 0, 0}, -c.indices, c.indices));
  }
  std::vector<Tensor> all = inputs;
  for (const Value* result : graph->body.results) {
    if (!is_float(result->type.dtype)) continue;
    cotangents.push_back(spaced_values(result->type.shape(), -1, 1.5, ++seed));
    all.push_back(cotangents.back());
  }
  const auto outputs = interpret(*joint, all, true);
  size_t at = graph->body.results.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_float(graph->body.args[i]->type.dtype)) continue;
    ASSERT_LT(at, outputs.size());
    ASSERT_EQ(joint->output_names[at], "grad." + graph->body.args[i]->name);
    const Tensor gradient = outputs[at++];
    ASSERT_EQ(gradient.shape(), inputs[i].shape());
    for (int64_t k = 0; k < gradient.count(); k += (gradient.count() + most - 1) / most) {
      const double h = 1e-5;
      double sums[2];
      for (int side = 0; side < 2; ++side) {
        std::vector<Tensor> moved = inputs;
        moved[i] = Tensor(DType::f64, inputs[i].shape());
        for (int64_t j = 0; j < gradient.count(); ++j) moved[i].set_double(j, inputs[i].as_double(j) + (j == k ? (side == 0 ? -h : h) : 0));
        sums[side] = weighted_sum(interpret(*graph, moved, true), cotangents);
      }
      const double expected = (sums[1] - sums[0]) / (2 * h), found = gradient.as_double(k);
      ASSERT_LE(std::abs(found - expected), 2e-6 * (1 + std::abs(expected)))
          << graph->body.args[i]->name << " at " << k << ": " << found << ", differences give " << expected << "\n"
          << print(*joint);
    }
  }
}

/// The same in 16 bits: gradients have the types of what they are of, whatever is widened inside. (Statistics of norms are results in f32.)
inline void check_narrow(const Case& c) {
  std::string text = c.graph;
  for (size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32", at + 3)) text.replace(at, 3, "f16");
  SCOPED_TRACE(text);
  const auto joint = joint_of(*parse(text));
  for (size_t i = 0; i < joint->output_names.size(); ++i) {
    const DType dtype = joint->body.results[i]->type.dtype;
    if (i > 0 && joint->output_names[i].rfind("grad.", 0) != 0) continue;
    EXPECT_TRUE(dtype == DType::f16 || !is_float(dtype)) << joint->output_names[i];
  }
}

inline void check_all(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    check_by_differences(c);
    check_narrow(c);
  }
}

}  // namespace tcc
