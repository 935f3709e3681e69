// Vectors concatenated from many pieces are written in place, whatever the pieces are.

#include <gtest/gtest.h>

#include "run_units.h"
#include "tcc/group/group.h"

namespace tcc::group {
namespace {

/// Padding, slices and reductions of concats without elements: nothing of them is ever read.
TEST(EmptyConcats, ArePaddedLikeOthers) {
  for (const char* high : {"1", "4"}) {
    const std::string size = std::to_string(1 + std::stoi(high));
    const auto graph =
        parse_graph("graph @empty(%x: f32[0], %y: f32[0, 3]) -> (%p: f32[" + size + "], %q: f32[" + size + R"(, 3], %s: f32[3]) {
  %one: f32[] = full() {dtype=f32, shape=[], value=1.0}
  %c: f32[0] = concat(%x, %x) {axis=0}
  %p: f32[)" + size + R"(] = pad(%c, %one) {high=[)" +
                        high + R"(], interior=[0], low=[1]}
  %d: f32[0, 3] = concat(%y, %y) {axis=0}
  %n: f32[0, 3] = neg(%d)
  %q: f32[)" + size + R"(, 3] = pad(%n, %one) {high=[)" +
                        high + R"(, 0], interior=[0, 0], low=[1, 0]}
  %s: f32[3] = reduce_sum(%n) {axes=[0]}
  return %p, %q, %s
})",
                    "test", {}, true);
    ASSERT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
    const std::vector<Tensor> inputs = {Tensor(DType::f32, {0}), Tensor(DType::f32, {0, 3})};
    EXPECT_EQ(run_units(*graph, form_groups(*graph), inputs, {0, 0}), "");
  }
}

TEST(LongConcats, EveryPieceHasOnePlace) {
  const auto graph = parse_graph(R"(
graph @flat(%x: f32[4, 8], %y: f32[8, 4], %in: f32[8], %indices: i64[3, 1], %rows: f32[3, 4]) -> (%z: f32[120], %s: f32[8]) {
  %d: f32[4, 4] = dot_general(%x, %y) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %dr: f32[16] = reshape(%d) {shape=[16]}
  %c: f32[8, 8] = dot_general(%x, %x) {dtype=f32, lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]}
  %t: f32[8, 8] = transpose(%c) {permutation=[1, 0]}
  %tr: f32[64] = reshape(%t) {shape=[64]}
  %s: f32[8] = reduce_sum(%x) {axes=[0]}
  %b: f32[4] = reduce_sum(%y) {axes=[0]}
  %zero: f32[] = full() {dtype=f32, shape=[], value=0.0}
  %zeros: f32[4, 4] = full() {dtype=f32, shape=[4, 4], value=0.0}
  %bp: f32[8] = pad(%b, %zero) {high=[4], interior=[0], low=[0]}
  %e: f32[4, 4] = scatter_nd(%zeros, %indices, %rows) {combiner="add"}
  %er: f32[16] = reshape(%e) {shape=[16]}
  %flat: f32[120] = concat(%dr, %tr, %s, %bp, %in, %er) {axis=0}
  %z: f32[120] = mul(%flat, %flat)
  return %z, %s
})",
                                 "test", {}, true);
  ASSERT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
  copy_concat_pieces(*graph);  // %in, an input; %s, an output
  ASSERT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
  const Groups groups = form_groups(*graph);
  ASSERT_EQ(verify(groups), std::vector<std::string>()) << print(groups);
  const Value* flat = graph->body.nodes.back()->operand(0);
  int placed = 0;
  for (const Alias& alias : groups.aliases) placed += alias.base == flat;
  EXPECT_EQ(placed, 6) << print(groups);
  for (const Unit& unit : groups.units) {
    const bool reads_flat = unit.inputs == std::vector<Value*>{const_cast<Value*>(flat)};
    EXPECT_EQ(reads_flat, unit.outputs[0]->name == "z") << print(groups);
  }
  std::vector<Tensor> inputs;
  for (const Value* input : graph->body.args) {
    Tensor tensor(input->type.dtype, input->type.shape());
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, static_cast<double>(is_float(tensor.dtype()) ? i % 5 - 2 : i));
    inputs.push_back(tensor);
  }
  EXPECT_EQ(run_units(*graph, groups, inputs, {1e-5, 1e-5}), "");
}

TEST(LongConcats, AValueThatIsThereTwiceIsCopied) {
  const auto graph = parse_graph(R"(
graph @flat(%x: f32[4, 8]) -> (%z: f32[40]) {
  %s: f32[8] = reduce_sum(%x) {axes=[0]}
  %r: f32[8] = exp(%s)
  %m: f32[8] = reduce_max(%x) {axes=[0]}
  %flat: f32[40] = concat(%s, %r, %s, %m, %s) {axis=0}
  %z: f32[40] = mul(%flat, %flat)
  return %z
})",
                                 "test", {}, true);
  copy_concat_pieces(*graph);
  const Groups groups = form_groups(*graph);
  EXPECT_EQ(verify(groups), std::vector<std::string>()) << print(groups);
  EXPECT_EQ(groups.aliases.size(), 5u) << print(groups);
  Tensor x(DType::f32, {4, 8});
  for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, static_cast<double>(i % 7));
  EXPECT_EQ(run_units(*graph, groups, {{x}}, {1e-5, 1e-5}), "");
}

}  // namespace
}  // namespace tcc::group
