// Indices out of range: every op that reads indices, wherever the bad one stands, on both targets by the interpreter of kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "plan/plan_graph.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

using Random = std::mt19937;

int64_t below(Random& random, int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); }

Shape random_shape(Random& random, int64_t rank, int64_t most) {
  Shape shape;
  for (int64_t i = 0; i < rank; ++i) shape.push_back(1 + below(random, most));
  return shape;
}

std::string text(DType dtype, const Shape& shape) { return std::string(name_of(dtype)) + to_string(std::span(shape)); }

/// A graph that reads input %i as indices. `extents`: for each element along the last axis of %i (one for all when there is one) what it indexes.
struct Case {
  std::string graph;
  DType dtype;
  Shape indices;
  std::vector<int64_t> extents;
  bool wraps = true;
};

Case make_case(Random& random, const std::string& op) {
  Case result;
  result.dtype = below(random, 2) == 0 ? DType::i32 : DType::i64;
  const int64_t rank = 1 + below(random, 3);
  const Shape data = random_shape(random, rank, 6);
  const int64_t axis = below(random, rank);
  const std::string axis_text = "axis=" + std::to_string(axis);
  Shape out;
  std::string updates, attributes;
  if (op == "gather") {
    result.indices = random_shape(random, below(random, 3), 5);
    out.assign(data.begin(), data.begin() + axis);
    out.insert(out.end(), result.indices.begin(), result.indices.end());
    out.insert(out.end(), data.begin() + axis + 1, data.end());
    result.extents = {data[static_cast<size_t>(axis)]};
    attributes = axis_text;
  } else if (op == "gather_elements" || op == "scatter_elements") {
    result.indices = data;
    for (size_t i = 0; i < data.size(); ++i)
      result.indices[i] = static_cast<int64_t>(i) == axis ? 1 + below(random, 8) : 1 + below(random, data[i]);
    out = op == "gather_elements" ? result.indices : data;
    updates = op == "gather_elements" ? "" : text(DType::f32, result.indices);
    result.extents = {data[static_cast<size_t>(axis)]};
    attributes = axis_text;
  } else if (op == "gather_nd" || op == "scatter_nd") {
    const int64_t depth = 1 + below(random, rank);
    result.indices = random_shape(random, below(random, 3), 4);
    Shape rest = result.indices;
    rest.insert(rest.end(), data.begin() + depth, data.end());
    out = op == "gather_nd" ? rest : data;
    updates = op == "gather_nd" ? "" : text(DType::f32, rest);
    attributes = op == "gather_nd" ? "batch_dims=0" : "";
    result.extents.assign(data.begin(), data.begin() + depth);
    result.indices.push_back(depth);
  } else {  // check_index
    result.indices = out = data;
    result.extents = {1 + below(random, 9)};
    result.wraps = false;
    attributes = "extent=" + std::to_string(result.extents[0]);
  }
  if (op.starts_with("scatter")) {
    const char* combiners[] = {"assign", "add", "max"};
    attributes += (attributes.empty() ? "" : ", ") + std::string("combiner=\"") + combiners[below(random, 3)] + "\"";
  }
  result.graph = "graph @g(%d: " + text(DType::f32, data) + ", %i: " + text(result.dtype, result.indices) +
                 (updates.empty() ? "" : ", %u: " + updates) + ") -> (%y: " + text(DType::f32, out) +
                 ") {\n  %t: " + text(DType::f32, out) + " = " + op + "(%d, %i" + (updates.empty() ? "" : ", %u") + ") {" + attributes +
                 "}    loc(\"the/op\")\n  %y: " + text(DType::f32, out) + " = neg(%t)\n}\n";
  return result;
}

int64_t extent_of(const Case& c, int64_t element) {
  return c.extents[static_cast<size_t>(c.extents.size() > 1 ? element % static_cast<int64_t>(c.extents.size()) : 0)];
}

Tensor good_indices(Random& random, const Case& c) {
  Tensor indices(c.dtype, c.indices);
  for (int64_t i = 0; i < indices.count(); ++i) {
    const int64_t extent = extent_of(c, i), low = c.wraps ? -extent : 0;
    const int64_t kind = below(random, 3);  // the ends of the range often
    indices.set_int64(i, kind == 0 ? low : kind == 1 ? extent - 1 : low + below(random, extent - low));
  }
  return indices;
}

int64_t bad_index(Random& random, const Case& c, int64_t extent) {
  const int64_t high = c.dtype == DType::i32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  const int64_t first_below = c.wraps ? -extent - 1 : -1;
  const int64_t choices[] = {extent, extent + 1, high, first_below, first_below - 1, -high - 1, high - extent + 1};
  return choices[below(random, 7)];
}

Tensor random_floats(Random& random, const Type& type) {
  Tensor tensor(type.dtype, type.shape());
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, std::uniform_real_distribution<double>(-2, 2)(random));
  return tensor;
}

void expect_same(const Tensor& found, const Tensor& expected, const std::string& where) {
  ASSERT_EQ(found.count(), expected.count()) << where;
  for (int64_t i = 0; i < found.count(); ++i) EXPECT_NEAR(found.as_double(i), expected.as_double(i), 1e-5) << where << " element " << i;
}

class IndexOps : public testing::TestWithParam<const char*> {};

TEST_P(IndexOps, ReportABadIndexWhereverItStands) {
  const std::string op = GetParam();
  Random random(static_cast<unsigned>(std::hash<std::string>()(op)));
  for (int repeat = 0; repeat < 12; ++repeat) {
    const Case c = make_case(random, op);
    const auto graph = parse_graph(c.graph, "test", {});
    ASSERT_TRUE(verify(*graph, GraphStage::prims).empty()) << c.graph << verify(*graph, GraphStage::prims)[0];
    const group::Groups groups = group::form_groups(*graph);
    std::vector<Tensor> inputs;
    for (const Value* input : graph->body.args)
      inputs.push_back(is_float(input->type.dtype) ? random_floats(random, input->type) : Tensor());
    const bool assigns = c.graph.find("assign") != std::string::npos;  // which of two updates of one element stays is open
    for (const auto& target : {schedule::Target::cpu_v3(), schedule::Target::cuda_sm80()}) {
      const Plan plan = plan_groups(groups, target);
      ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0];
      std::string why;
      EXPECT_TRUE(equal(parse_plan(print(plan), "plan"), plan, &why)) << why << print(plan);
      std::vector<int64_t> bad;
      inputs[1] = good_indices(random, c);
      auto outputs = interpret(plan, inputs, nullptr, &bad);
      EXPECT_TRUE(std::all_of(bad.begin(), bad.end(), [](int64_t index) { return index == 0; })) << c.graph << print(plan);
      if (!assigns) expect_same(outputs[0], interpret(*graph, inputs, false)[0], c.graph);

      // One bad index, then several.
      const int64_t count = inputs[1].count();
      for (const int64_t number : {int64_t{1}, std::max<int64_t>(count / 2, 1)}) {
        Tensor indices = good_indices(random, c);
        std::vector<int64_t> given;
        for (int64_t n = 0; n < number; ++n) {
          const int64_t at = below(random, count);
          indices.set_int64(at, bad_index(random, c, extent_of(c, at)));
        }
        for (int64_t i = 0; i < count; ++i) {
          const int64_t extent = extent_of(c, i), value = indices.as_int64(i);
          if (value >= extent || value < (c.wraps ? -extent : 0)) given.push_back(value);
        }
        inputs[1] = indices;
        outputs = interpret(plan, inputs, nullptr, &bad);
        const auto first = std::find_if(bad.begin(), bad.end(), [](int64_t index) { return index != 0; });
        ASSERT_NE(first, bad.end()) << c.graph << print(plan);
        EXPECT_NE(std::find(given.begin(), given.end(), *first), given.end()) << *first << c.graph;
        const IndexCheck& check = plan.checks[static_cast<size_t>(first - bad.begin())];
        EXPECT_EQ(check.index, c.wraps ? "input `i` has the index" : "input `i` has the class");
        EXPECT_NE(check.place.find("`the/op`"), std::string::npos) << check.place;
        EXPECT_TRUE(*first < check.low || *first > check.high) << *first;
        if (!assigns) expect_same(outputs[0], interpret(*graph, inputs, false)[0], c.graph);  // outside reads 0, writes nothing
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, IndexOps,
                         testing::Values("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "check_index"));

/// A plan, with the graph that it points into.
struct Planned {
  std::unique_ptr<Graph> graph;
  Plan plan;
};
Planned plan_of(const std::string& text, const schedule::Target& target = schedule::Target::cpu_v3()) {
  Planned planned{parse_graph(text, "test", {}), {}};
  planned.plan = plan_graph(*planned.graph, target);
  return planned;
}

TEST(IndexChecks, WhatIsInRangeAnywayIsNotChecked) {
  const std::string head = "graph @g(%d: f32[9, 5], %f: f32[4, 9], %x: i64[4]) -> (%y: f32[4, 5]) {\n  ";
  for (const auto& target : {schedule::Target::cpu_v3(), schedule::Target::cuda_sm80()}) {
    const auto checks = [&](const std::string& body) {
      const auto [graph, plan] = plan_of(head + body + "\n  %y: f32[4, 5] = gather(%d, %p) {axis=0}\n}", target);
      int64_t in_kernels = 0;
      for (const loop::Kernel& kernel : plan.kernels) in_kernels += loop::num_index_checks(kernel.body);
      EXPECT_EQ(in_kernels, static_cast<int64_t>(plan.checks.size()));
      return in_kernels;
    };
    EXPECT_EQ(checks("%p: i64[4] = argmax(%f) {axis=1, last=false}"), 0);
    EXPECT_EQ(checks("%p: i64[4] = iota() {axis=0, dtype=i64, shape=[4]}"), 0);
    EXPECT_EQ(checks("weight @n: i64[4] = [9, 9, 9, 9]\n  %p: i64[4] = mod(%x, @n)"), 0);
    EXPECT_EQ(checks("weight @n: i64[4] = [9, 9, 9, 10]\n  %p: i64[4] = mod(%x, @n)"), 1);
    EXPECT_EQ(checks("%p: i64[4] = add(%x, %x)"), 1);
    // A constant beyond the end wants a 0 (gradients of gathers at constants do).
    EXPECT_EQ(checks("weight @p: i64[4] = [0, 9, 3, 8]\n  %p: i64[4] = reshape(@p) {shape=[4]}"), 0);
  }
}

TEST(IndexChecks, OneForEachIndexAndRange) {
  const auto [graph, plan] = plan_of(
      "graph @g(%a: f32[9, 5], %b: f32[9, 5], %c: f32[7, 5], %x: i64[4]) -> (%y: f32[4, 5]) {\n"
      "  %p: f32[4, 5] = gather(%a, %x) {axis=0}\n  %q: f32[4, 5] = gather(%b, %x) {axis=0}\n  %r: f32[4, 5] = gather(%c, %x) {axis=0}\n"
      "  %s: f32[4, 5] = add(%p, %q)\n  %y: f32[4, 5] = add(%s, %r)\n}");
  ASSERT_EQ(plan.kernels.size(), 1U);
  EXPECT_EQ(plan.checks.size(), 2U);
}

// Where a padded or concatenated value is read beyond a piece there is no index, and nothing to report.
TEST(IndexChecks, ThereIsNoIndexBeyondTheEdge) {
  const char* graphs[] = {
      "graph @g(%d: f32[3], %x: i64[4]) -> (%y: f32[8]) {\n  weight @zero: f32[] = [0]\n  weight @five: i64[4] = [5, 5, 5, 5]\n"
      "  %p: i64[4] = add(%x, @five)\n  %t: f32[4] = gather(%d, %p) {axis=0}\n  %y: f32[8] = pad(%t, @zero) {high=[3], interior=[0], "
      "low=[1]}\n}",
      "graph @g(%d: f32[3], %x: i64[4]) -> (%y: f32[7]) {\n  weight @five: i64[4] = [5, 5, 5, 5]\n  %p: i64[4] = add(%x, @five)\n"
      "  %t: f32[4] = gather(%d, %p) {axis=0}\n  %n: f32[3] = neg(%d)\n  %c: f32[7] = concat(%n, %t) {axis=0}\n  %y: f32[7] = exp(%c)\n}"};
  for (const char* text : graphs) {
    for (const auto& target : {schedule::Target::cpu_v3(), schedule::Target::cuda_sm80()}) {
      const auto [graph, plan] = plan_of(text, target);
      std::vector<Tensor> inputs{Tensor(DType::f32, {3}), Tensor::from_ints({-5, -3, -8, -4})};
      std::vector<int64_t> bad;
      interpret(plan, inputs, nullptr, &bad);
      EXPECT_TRUE(std::all_of(bad.begin(), bad.end(), [](int64_t index) { return index == 0; })) << print(plan);
      inputs[1] = Tensor::from_ints({-5, -3, -8, -2});
      interpret(plan, inputs, nullptr, &bad);
      EXPECT_TRUE(std::any_of(bad.begin(), bad.end(), [](int64_t index) { return index == 3; })) << print(plan);
    }
  }
}

}  // namespace
}  // namespace tcc::plan
