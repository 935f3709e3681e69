// State updates: which are written in place, which are not, and that the state is right either way.

#include <gtest/gtest.h>

#include "plan/plan_graph.h"
#include "stateful.h"

namespace tcc::plan {
namespace {

std::string faults_of(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

StateTensor tensor(const std::string& name, Shape shape) {
  StateTensor result;
  result.name = name;
  result.shape = std::move(shape);
  return result;
}

/// @w, @b and the flat @all over both; @m like @w in a section of its own; gradients @grad.w, @grad.b and @grads over both.
StateLayout layout() {
  StateLayout state;
  const int parameters = state.append_section("parameters.f32", StateRole::parameter, DType::f32, {tensor("w", {8, 8}), tensor("b", {8})});
  state.append_view("all", parameters);
  state.append_section("optimizer.f32", StateRole::optimizer, DType::f32, {tensor("m", {8, 8}), tensor("v", {8, 8})});
  const int gradients =
      state.append_section("gradients.f32", StateRole::gradient, DType::f32, {tensor("grad.w", {8, 8}), tensor("grad.b", {8})});
  state.append_view("grads", gradients);
  return state;
}

struct Case {
  explicit Case(const std::string& text) : graph(parse_graph(text, "test", {}, true)) {
    options.state = &state;
    options.scalars = {"lr"};
    memory = initial_state(state, {});
    fill_state(memory, state);
  }

  /// Plans for both targets, verified, read back, run three times; returns the one for the CPU.
  Plan run(group::Tolerance tolerance = {}) {
    Plan result;
    for (const auto& target : {schedule::Target::cuda_sm80(), schedule::Target::cpu_v3()}) {
      const group::Groups groups = group::form_groups(*graph);
      EXPECT_EQ(faults_of(group::verify(groups)), "") << group::print(groups);
      result = plan_groups(groups, target, options);
      EXPECT_EQ(faults_of(verify(result)), "") << print(result);
      std::string why;
      EXPECT_TRUE(equal(parse_plan(print(result), "plan"), result, &why)) << why << "\n" << print(result);
      for (const loop::Kernel& kernel : result.kernels) EXPECT_EQ(faults_of(loop::verify_kernel(kernel)), "") << loop::print(kernel, "k");
      StateMemory copy = memory;
      for (int step = 0; step < 3; ++step) {
        std::vector<Tensor> inputs;
        for (const Value* input : graph->body.args) {
          Tensor value(input->type.dtype, input->type.shape());
          for (int64_t i = 0; i < value.count(); ++i) value.set_double(i, static_cast<double>((i * 7 + step * 3) % 5 - 2) / 2);
          inputs.push_back(value);
        }
        EXPECT_EQ(compare_run(*graph, result, options, inputs, copy, tolerance), "") << "step " << step << "\n" << print(result);
      }
    }
    return result;
  }

  StateLayout state = layout();
  std::unique_ptr<Graph> graph;
  PlanOptions options;
  StateMemory memory;
};

int copies(const Plan& plan) {
  int count = 0;
  for (const Launch& launch : plan.launches) count += launch.kind == Launch::Kind::copy;
  return count;
}

int overwriting(const Plan& plan) {
  int count = 0;
  for (const Buffer& buffer : plan.buffers) count += buffer.overwrites;
  return count;
}

constexpr const char* kDot = "{dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}";

TEST(State, ThreeUpdatesOfOneKernelAreInPlace) {
  Case c(R"(
graph @update(%g: f32[8, 8], %lr: f32[]) -> () {
  weight @w: f32[8, 8]
  weight @m: f32[8, 8]
  weight @v: f32[8, 8]
  %m2: f32[8, 8] = add(@m, %g)
  %gg: f32[8, 8] = mul(%g, %g)
  %v2: f32[8, 8] = add(@v, %gg)
  %l: f32[8, 8] = broadcast_in_dim(%lr) {dims=[], shape=[8, 8]}
  %p: f32[8, 8] = mul(%m2, %l)
  %d: f32[8, 8] = mul(%p, %v2)
  %w2: f32[8, 8] = sub(@w, %d)
  return state(@w = %w2, @m = %m2, @v = %v2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(plan.launches.size(), 1u) << print(plan);
  EXPECT_EQ(plan.launches[0].arguments.size(), 5u) << print(plan);  // %g, %lr, and three that are read and written
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(overwriting(plan), 3);
}

TEST(State, AReaderComesBeforeTheWriter) {
  // In the graph's order the update comes first.
  Case c(std::string(R"(
graph @step(%g: f32[8, 8]) -> (%y: f32[8, 8]) {
  weight @w: f32[8, 8]
  %d: f32[8, 8] = add(%g, %g)
  %w2: f32[8, 8] = sub(@w, %d)
  %y: f32[8, 8] = dot_general(%g, @w) )") +
         kDot + R"(
  return %y, state(@w = %w2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 0) << print(plan);
  EXPECT_EQ(overwriting(plan), 1) << print(plan);
  EXPECT_NE(plan.launches.back().label.find("w2"), std::string::npos) << print(plan);
}

TEST(State, ReadersOfOverlappingViewsCount) {
  // @w is read by name, its bytes are updated as a part of @all.
  Case c(std::string(R"(
graph @step(%g: f32[128], %x: f32[8, 8]) -> (%y: f32[8, 8]) {
  weight @w: f32[8, 8]
  weight @all: f32[128]
  %a: f32[128] = add(@all, %g)
  %y: f32[8, 8] = dot_general(%x, @w) )") +
         kDot + R"(
  return %y, state(@all = %a)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 0) << print(plan);
  EXPECT_NE(plan.launches[0].label.find("y"), std::string::npos) << print(plan);
}

TEST(State, AUnitThatReadsAnotherElementWritesElsewhere) {
  // Each element of the product needs a row of the old @w.
  Case c(std::string(R"(
graph @step(%x: f32[8, 8]) -> () {
  weight @w: f32[8, 8]
  %p: f32[8, 8] = dot_general(%x, @w) )") +
         kDot + R"(
  %w2: f32[8, 8] = add(%p, @w)
  return state(@w = %w2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 1) << print(plan);
  EXPECT_EQ(overwriting(plan), 0) << print(plan);
}

TEST(State, ATransposedReadIsNotInPlace) {
  Case c(R"(
graph @step(%x: f32[8, 8]) -> () {
  weight @w: f32[8, 8]
  %t: f32[8, 8] = transpose(@w) {permutation=[1, 0]}
  %w2: f32[8, 8] = add(%t, @w)
  return state(@w = %w2)
}
)");
  EXPECT_EQ(copies(c.run()), 1);
}

TEST(State, AnUpdateInAnEpilogueIsInPlace) {
  Case c(std::string(R"(
graph @step(%x: f32[8, 8], %y: f32[8, 8], %lr: f32[]) -> () {
  weight @w: f32[8, 8]
  weight @m: f32[8, 8]
  %g: f32[8, 8] = dot_general(%x, %y) )") +
         kDot + R"(
  %m2: f32[8, 8] = add(@m, %g)
  %l: f32[8, 8] = broadcast_in_dim(%lr) {dims=[], shape=[8, 8]}
  %d: f32[8, 8] = mul(%m2, %l)
  %w2: f32[8, 8] = sub(@w, %d)
  return state(@w = %w2, @m = %m2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 0) << print(plan);
  EXPECT_EQ(overwriting(plan), 2) << print(plan);
}

TEST(State, OneOfTwoThatWaitForEachOtherIsCopied) {
  // %w2 reads all of @m, %m2 all of @w: one of them is written while the other still reads.
  Case c(std::string(R"(
graph @swap(%x: f32[8, 8]) -> () {
  weight @w: f32[8, 8]
  weight @m: f32[8, 8]
  %w2: f32[8, 8] = dot_general(%x, @m) )") +
         kDot + "\n  %m2: f32[8, 8] = dot_general(%x, @w) " + kDot + R"(
  return state(@w = %w2, @m = %m2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 1) << print(plan);
  EXPECT_EQ(overwriting(plan), 1) << print(plan);
}

TEST(State, StatesThatChangePlaces) {
  Case c(R"(
graph @swap() -> (%old: f32[8, 8]) {
  weight @w: f32[8, 8]
  weight @m: f32[8, 8]
  weight @v: f32[8, 8]
  %v2: f32[8, 8] = neg(@v)
  return @w, state(@w = @m, @m = @w, @v = %v2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 5) << print(plan);  // the output, two saved, two written
}

TEST(State, AValueThatIsAnOutputTooIsCopiedOnce) {
  Case c(R"(
graph @both(%g: f32[8, 8]) -> (%w2: f32[8, 8]) {
  weight @w: f32[8, 8]
  %w2: f32[8, 8] = add(@w, %g)
  return %w2, state(@w = %w2)
}
)");
  EXPECT_EQ(copies(c.run()), 1);
}

TEST(State, ReshapesAndPiecesAreWrittenInPlace) {
  Case c(std::string(R"(
graph @gradients(%x: f32[8, 8], %y: f32[8, 8]) -> () {
  weight @grads: f32[128]
  weight @m: f32[8, 8]
  %g: f32[8, 8] = dot_general(%x, %y) )") +
         kDot + R"(
  %gf: f32[64] = reshape(%g) {shape=[64]}
  %h: f32[8, 8] = dot_general(%y, %x) )" +
         kDot + R"(
  %hf: f32[64] = reshape(%h) {shape=[64]}
  %flat: f32[128] = concat(%gf, %hf) {axis=0}
  %n: f32[64] = neg(%gf)
  %nf: f32[8, 8] = reshape(%n) {shape=[8, 8]}
  return state(@grads = %flat, @m = %nf)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 0) << print(plan);
  EXPECT_EQ(plan.arena_bytes, 0) << print(plan);
}

TEST(State, PaddedPiecesAreWrittenInPlaceAndTheirGapsAtOnce) {
  // Two vectors of odd sizes among five pieces of a flat gradient that a flat update reads.
  Case c(std::string(R"(
graph @step(%x: f32[8, 8], %y: f32[8, 5]) -> () {
  weight @all: f32[128]
  weight @w: f32[8, 8]
  %zero: f32[] = full() {dtype=f32, shape=[], value=0.0}
  %a: f32[8, 5] = dot_general(%x, %y) )") +
         kDot + R"(
  %ar: f32[40] = reshape(%a) {shape=[40]}
  %b: f32[5] = reduce_sum(%y) {axes=[0]}
  %bp: f32[8] = pad(%b, %zero) {high=[3], interior=[0], low=[0]}
  %s: f32[8] = reduce_max(%x) {axes=[0]}
  %xx: f32[8, 8] = mul(%x, %x)
  %q: f32[8] = reduce_sum(%xx) {axes=[1]}
  %m: f32[5] = reduce_max(%y) {axes=[0]}
  %mp: f32[64] = pad(%m, %zero) {high=[59], interior=[0], low=[0]}
  %g: f32[128] = concat(%ar, %bp, %s, %q, %mp) {axis=0}
  %all2: f32[128] = sub(@all, %g)
  return state(@all = %all2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 0) << print(plan);
  EXPECT_EQ(overwriting(plan), 1) << print(plan);
  int fills = 0;
  for (const Launch& launch : plan.launches) fills += launch.arguments.size() == 1;
  EXPECT_EQ(fills, 1) << print(plan);
}

TEST(State, ASumOfAllThreadsIsNotWrittenOverWhatTheyRead) {
  // On CUDA every thread of a block computes the sum and stores it.
  Case c(R"(
graph @bias(%g: f32[256, 8], %lr: f32[]) -> () {
  weight @b: f32[8]
  %s: f32[8] = reduce_sum(%g) {axes=[0]}
  %l: f32[8] = broadcast_in_dim(%lr) {dims=[], shape=[8]}
  %d: f32[8] = mul(%s, %l)
  %b2: f32[8] = sub(@b, %d)
  return state(@b = %b2)
}
)");
  c.run();
}

TEST(State, TheNewValueIsReadWhereItIs) {
  Case c(std::string(R"(
graph @step(%g: f32[8, 8]) -> (%y: f32[8, 8]) {
  weight @w: f32[8, 8]
  %w2: f32[8, 8] = add(@w, %g)
  %y: f32[8, 8] = dot_general(%w2, %w2) )") +
         kDot + R"(
  return %y, state(@w = %w2)
}
)");
  const Plan plan = c.run();
  EXPECT_EQ(copies(plan), 0) << print(plan);
  EXPECT_EQ(plan.arena_bytes, 0) << print(plan);
}

TEST(State, VerifierSeesReadsOfOverwrittenState) {
  Case c(std::string(R"(
graph @step(%g: f32[8, 8]) -> (%y: f32[8, 8]) {
  weight @w: f32[8, 8]
  %w2: f32[8, 8] = sub(@w, %g)
  %y: f32[8, 8] = dot_general(%g, @w) )") +
         kDot + R"(
  return %y, state(@w = %w2)
}
)");
  Plan plan = c.run();
  std::reverse(plan.launches.begin(), plan.launches.end());
  EXPECT_NE(faults_of(verify(plan)).find("reads `w`, which is not there"), std::string::npos) << faults_of(verify(plan));
}

TEST(Plan, PackedTensorsAndScalars) {
  const auto graph = parse_graph(R"(
graph @backward(%x: f32[8], %lr: f32[], %a: f32[3], %b: f32[8]) -> (%y: f32[8], %p: f32[3], %q: f32[8], %again: f32[8]) {
  %l: f32[8] = broadcast_in_dim(%lr) {dims=[], shape=[8]}
  %y: f32[8] = mul(%x, %l)
  %p: f32[3] = neg(%a)
  %q: f32[8] = add(%b, %x)
  return %y, %p, %q, %b
}
)",
                                 "test", {}, true);
  PlanOptions options;
  options.scalars = {"seed", "lr"};
  options.first_packed_input = 1;
  options.first_packed_output = 1;
  const Plan plan = plan_graph(*graph, schedule::Target::cpu_v3(), options);
  EXPECT_EQ(faults_of(verify(plan)), "") << print(plan);
  std::string why;
  EXPECT_TRUE(equal(parse_plan(print(plan), "plan"), plan, &why)) << why << "\n" << print(plan);
  EXPECT_EQ(plan.packed_input_bytes, 512);
  EXPECT_EQ(plan.packed_output_bytes, 768);
  Tensor x(DType::f32, {8}), packed(DType::u8, {512});
  for (int i = 0; i < 8; ++i) x.set_double(i, i);
  for (int i = 0; i < 3; ++i) packed.mutable_data<float>()[i] = static_cast<float>(i + 1);
  for (int i = 0; i < 8; ++i) packed.mutable_data<float>()[64 + i] = static_cast<float>(10 * i);
  StateMemory memory;
  memory.scalars = {Tensor(), Tensor::scalar(DType::f32, 0.5)};
  const std::vector<Tensor> found = interpret(plan, {x, packed}, &memory);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].as_double(7), 3.5);
  const float* out = found[1].data<float>();
  EXPECT_EQ(out[2], -3.0f);
  EXPECT_EQ(out[64 + 7], 77.0f);
  EXPECT_EQ(out[128 + 7], 70.0f);
}

TEST(Plan, WhatFreesMemoryComesEarly) {
  // In the graph's order all four sums come last, and all that they sum lives until then.
  std::string text = "graph @sums(%x: f32[64, 64]) -> (%s0: f32[64], %s1: f32[64], %s2: f32[64], %s3: f32[64]) {\n", sums;
  std::string value = "x";
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    text += "  %v" + n + ": f32[64, 64] = dot_general(%" + value + ", %x) " + kDot + "\n";
    sums += "  %c" + n + ": f32[64, 64] = cumulative(%v" + n + ") {axis=0, exclusive=false, op=\"sum\", reverse=false}\n  %s" + n +
            ": f32[64] = reduce_sum(%c" + n + ") {axes=[0]}\n";
    value = "v" + n;
  }
  const auto graph = parse_graph(text + sums + "  return %s0, %s1, %s2, %s3\n}\n", "test", {}, true);
  const Plan plan = plan_graph(*graph, schedule::Target::cpu_v3());
  EXPECT_EQ(faults_of(verify(plan)), "") << print(plan);
  int64_t scratch = 0;
  for (const Buffer& buffer : plan.buffers) scratch = std::max(scratch, buffer.scratch ? buffer.size_bytes : 0);
  EXPECT_LE(plan.arena_bytes, 3 * 64 * 64 * 4 + scratch) << print(plan);
}

TEST(Plan, KernelsOfSeveralPlansAreOneList) {
  Case a(R"(
graph @a(%g: f32[8, 8]) -> (%y: f32[8, 8]) {
  %y: f32[8, 8] = tanh(%g)
  return %y
}
)"),
      b(std::string(R"(
graph @b(%g: f32[8, 8]) -> (%y: f32[8, 8]) {
  %p: f32[8, 8] = dot_general(%g, %g) )") +
        kDot + R"(
  %t: f32[8, 8] = cumulative(%p) {axis=0, exclusive=false, op="sum", reverse=false}
  %y: f32[8, 8] = tanh(%t)
  return %y
}
)");
  Plan first = a.run({1e-6, 1e-6}), second = b.run({1e-6, 1e-6});
  merge_kernels({&first, &second});
  EXPECT_EQ(first.kernels.size(), second.kernels.size());
  for (const Plan* plan : {&first, &second}) EXPECT_EQ(faults_of(verify(*plan)), "") << print(*plan);
  EXPECT_GT(estimate(second).cost_ns, estimate(first).cost_ns);
}

}  // namespace
}  // namespace tcc::plan
