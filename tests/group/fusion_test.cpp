// How many units graphs become: what later changes to the rules must not lose.

#include <gtest/gtest.h>

#include <ctime>

#include "tcc/graph/builder.h"
#include "tcc/group/group.h"

namespace tcc::group {
namespace {

/// The groups of a prims graph, verified.
struct Formed {
  std::unique_ptr<Graph> graph;
  Groups groups;
};
Formed form(const std::string& text) {
  Formed formed;
  formed.graph = parse_graph(text, "test", {}, true);
  EXPECT_EQ(verify(*formed.graph, GraphStage::prims), std::vector<std::string>()) << text;
  formed.groups = form_groups(*formed.graph);
  EXPECT_EQ(verify(formed.groups), std::vector<std::string>()) << print(formed.groups);
  return formed;
}

TEST(Fusion, SoftmaxIsOneUnit) {
  const auto formed = form(R"(
graph @softmax(%x: f32[4, 8, 16]) -> (%y: f32[4, 8, 16]) {
  %m: f32[4, 8] = reduce_max(%x) {axes=[2]}
  %mb: f32[4, 8, 16] = broadcast_in_dim(%m) {dims=[0, 1], shape=[4, 8, 16]}
  %c: f32[4, 8, 16] = sub(%x, %mb)
  %e: f32[4, 8, 16] = exp(%c)
  %s: f32[4, 8] = reduce_sum(%e) {axes=[2]}
  %sb: f32[4, 8, 16] = broadcast_in_dim(%s) {dims=[0, 1], shape=[4, 8, 16]}
  %y: f32[4, 8, 16] = div(%e, %sb)
  return %y
}
)");
  ASSERT_EQ(formed.groups.units.size(), 1u) << print(formed.groups);
  EXPECT_EQ(formed.groups.units[0].kind, UnitKind::rows);
  EXPECT_EQ(loop::print(lower(*formed.graph, formed.groups.units[0])),
            R"(unit (%a0: f32[4, 8, 16]) -> (%r0: f32[4, 8, 16]) {
  map %i in 4, %j in 8 {
    %v0: f32 = reduce max %kb in 16 {
      %v1: f32 = load %a0[%i, %j, %kb]
      yield %v1
    }
    %v2: f32 = reduce sum %kc in 16 {
      %v3: f32 = load %a0[%i, %j, %kc]
      yield exp(sub(%v3, %v0))
    }
    map %k in 16 {
      %v4: f32 = load %a0[%i, %j, %k]
      store div(exp(sub(%v4, %v0)), %v2), %r0[%i, %j, %k]
    }
  }
}
)");
}

TEST(Fusion, LayerNormOfASumIsOneUnit) {
  // The sum has another reader, so it is stored by the same unit.
  const auto formed = form(R"(
graph @norm(%a: f32[4, 16], %b: f32[4, 16], %g: f32[16]) -> (%y: f32[4, 16], %z: f32[4, 16]) {
  %x: f32[4, 16] = add(%a, %b)
  %sum: f32[4] = reduce_sum(%x) {axes=[1]}
  %n: f32[4] = full() {dtype=f32, shape=[4], value=0.0625}
  %mean: f32[4] = mul(%sum, %n)
  %mb: f32[4, 16] = broadcast_in_dim(%mean) {dims=[0], shape=[4, 16]}
  %c: f32[4, 16] = sub(%x, %mb)
  %cc: f32[4, 16] = mul(%c, %c)
  %ss: f32[4] = reduce_sum(%cc) {axes=[1]}
  %r: f32[4] = rsqrt(%ss)
  %rb: f32[4, 16] = broadcast_in_dim(%r) {dims=[0], shape=[4, 16]}
  %h: f32[4, 16] = mul(%c, %rb)
  %gb: f32[4, 16] = broadcast_in_dim(%g) {dims=[1], shape=[4, 16]}
  %y: f32[4, 16] = mul(%h, %gb)
  %z: f32[4, 16] = neg(%x)
  return %y, %z
}
)");
  EXPECT_EQ(formed.groups.units.size(), 1u) << print(formed.groups);
}

TEST(Fusion, RowsComputeWhatOnlyTheyRead) {
  // The gradient of a layer norm: the contraction stores its product alone, which a sum down the columns reads too.
  const auto formed = form(R"(
graph @backward(%dy: f32[16, 8], %w: f32[8, 32], %g: f32[32], %h: f32[16, 32]) -> (%r: f32[16, 32], %db: f32[32]) {
  %d: f32[16, 32] = dot_general(%dy, %w) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %gb: f32[16, 32] = broadcast_in_dim(%g) {dims=[1], shape=[16, 32]}
  %a: f32[16, 32] = mul(%d, %gb)
  %b: f32[16, 32] = mul(%a, %h)
  %s: f32[16] = reduce_sum(%b) {axes=[1]}
  %sb: f32[16, 32] = broadcast_in_dim(%s) {dims=[0], shape=[16, 32]}
  %r: f32[16, 32] = sub(%a, %sb)
  %db: f32[32] = reduce_sum(%d) {axes=[0]}
  return %r, %db
}
)");
  ASSERT_EQ(formed.groups.units.size(), 3u) << print(formed.groups);
  EXPECT_EQ(formed.groups.units[0].outputs.size(), 1u) << print(formed.groups);
  EXPECT_EQ(formed.groups.units[0].nodes.size(), 1u) << print(formed.groups);
}

TEST(Fusion, AnEpilogueThatIsStoredOnceStays) {
  // Moving the scale would store the product in its place: nothing is gained.
  const auto formed = form(R"(
graph @forward(%x: f32[16, 8], %w: f32[8, 32], %g: f32[32]) -> (%s: f32[16]) {
  %d: f32[16, 32] = dot_general(%x, %w) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %gb: f32[16, 32] = broadcast_in_dim(%g) {dims=[1], shape=[16, 32]}
  %a: f32[16, 32] = mul(%d, %gb)
  %s: f32[16] = reduce_max(%a) {axes=[1]}
  return %s
}
)");
  ASSERT_EQ(formed.groups.units.size(), 2u) << print(formed.groups);
  EXPECT_EQ(formed.groups.units[0].outputs[0]->name, "a") << print(formed.groups);
}

TEST(Fusion, TenPointwiseOpsAreOneUnit) {
  Graph graph("chain");
  Value* x = graph.add_input("x", Type(DType::f32, {64, 64}));
  Value* y = graph.add_input("y", Type(DType::f32, {64, 64}));
  Builder builder(graph, graph.body, {});
  Value* v = x;
  const Op ops[] = {Op::add_, Op::mul_, Op::neg_, Op::sub_, Op::exp_, Op::tanh_, Op::mul_, Op::abs_, Op::max_, Op::sqrt_};
  for (const Op op : ops) v = info(op).max_operands == 1 ? builder.emit(op, {v}) : builder.emit(op, {v, y});
  graph.add_output(v, "z");
  const Groups groups = form_groups(graph);
  EXPECT_EQ(groups.units.size(), 1u) << print(groups);
}

TEST(Fusion, EpiloguesJoinTheirAnchors) {
  const auto formed = form(R"(
graph @net(%x: f32[1, 4, 8, 8], %w: f32[4, 4, 3, 3], %b: f32[4], %u: f32[64, 10]) -> (%y: f32[4, 10]) {
  %c: f32[1, 4, 8, 8] = conv_general(%x, %w) {groups=1, high=[1, 1], lhs_dilation=[1, 1], low=[1, 1], rhs_dilation=[1, 1], strides=[1, 1]}
  %bb: f32[1, 4, 8, 8] = broadcast_in_dim(%b) {dims=[1], shape=[1, 4, 8, 8]}
  %s: f32[1, 4, 8, 8] = add(%c, %bb)
  %r: f32[1, 4, 8, 8] = add(%s, %x)
  %z: f32[1, 4, 8, 8] = full() {dtype=f32, shape=[1, 4, 8, 8], value=0}
  %a: f32[1, 4, 8, 8] = max(%r, %z)
  %f: f32[4, 64] = reshape(%a) {shape=[4, 64]}
  %d: f32[4, 10] = dot_general(%f, %u) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %y: f32[4, 10] = tanh(%d)
  return %y
}
)");
  ASSERT_EQ(formed.groups.units.size(), 2u) << print(formed.groups);
  EXPECT_EQ(formed.groups.units[0].kind, UnitKind::contract);
  EXPECT_EQ(formed.groups.aliases.size(), 1u);  // the reshape between them
}

TEST(Fusion, AConcatOfContiguousPiecesCostsNothing) {
  const std::string text = R"(
graph @net(%x: f32[N, 4, 8], %w: f32[4, 4]) -> (%y: f32[N, 8, 8]) {
  %a: f32[4, N, 8] = dot_general(%w, %x) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]}
  %at: f32[N, 4, 8] = reshape(%a) {shape=[N, 4, 8]}
  %m: f32[N, 4, 8] = reduce_window(%x) {dilations=[1, 1, 1], high=[0, 0, 1], low=[0, 0, 1], op="max", strides=[1, 1, 1], window=[1, 1, 3]}
  %c: f32[N, 8, 8] = concat(%at, %m) {axis=1}
  %y: f32[N, 8, 8] = tanh(%c)
  return %y
}
)";
  auto with = [&](const std::string& n) {
    std::string result = text;
    for (size_t at; (at = result.find('N')) != std::string::npos;) result.replace(at, 1, n);
    return form(result);
  };
  // One image: both producers write into the result, one unit more reads it.
  const auto one = with("1");
  EXPECT_EQ(one.groups.units.size(), 3u) << print(one.groups);
  EXPECT_EQ(one.groups.aliases.size(), 2u) << print(one.groups);
  // Two images: the pieces lie apart, the reader chooses among them.
  const auto two = with("2");
  EXPECT_EQ(two.groups.units.size(), 3u) << print(two.groups);
}

TEST(Fusion, NoCycles) {
  // %r can't join the unit of %c: the pooled value between them needs %c first.
  const auto formed = form(R"(
graph @excite(%x: f32[1, 8, 4, 4], %w: f32[8, 8, 1, 1], %v: f32[8, 8]) -> (%r: f32[1, 8, 4, 4]) {
  %c: f32[1, 8, 4, 4] = conv_general(%x, %w) {groups=1, high=[0, 0], lhs_dilation=[1, 1], low=[0, 0], rhs_dilation=[1, 1], strides=[1, 1]}
  %p: f32[1, 8] = reduce_sum(%c) {axes=[2, 3]}
  %d: f32[1, 8] = dot_general(%p, %v) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %g: f32[1, 8] = tanh(%d)
  %gb: f32[1, 8, 4, 4] = broadcast_in_dim(%g) {dims=[0, 1], shape=[1, 8, 4, 4]}
  %r: f32[1, 8, 4, 4] = mul(%c, %gb)
  return %r
}
)");
  EXPECT_EQ(formed.groups.units.size(), 4u) << print(formed.groups);
}

TEST(Fusion, ALongChainIsCutAndTakesLinearTime) {
  auto time_of = [](int nodes) {
    Graph graph("chain");
    Value* v = graph.add_input("x", Type(DType::f32, {32, 32}));
    Builder builder(graph, graph.body, {});
    for (int i = 0; i < nodes; ++i) v = builder.emit(i % 2 ? Op::neg_ : Op::tanh_, {v});
    graph.add_output(v, "y");
    const std::clock_t start = std::clock();  // of this process: the machine may be busy
    const Groups groups = form_groups(graph);
    for (const Unit& unit : groups.units) lower(graph, unit);
    EXPECT_EQ(groups.units.size(), static_cast<size_t>((nodes + 63) / 64));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(time_of(4000), 1.0);
}

// A scalar that is dear to compute goes along with a small unit, where a launch of its own would take longer, and not with a large one; nor when
// others read it. What depends on an index is not a scalar.
TEST(Fusion, ScalarsGoAlongWithSmallUnits) {
  const auto units = [](const std::string& shape, const std::string& scalar, const std::string& outputs) {
    std::string chain = "%s0: f32" + scalar + " = exp(%a)\n";
    for (int i = 1; i < 6; ++i) chain += "%s" + std::to_string(i) + ": f32" + scalar + " = exp(%s" + std::to_string(i - 1) + ")\n";
    const std::string dims = scalar == "[]" ? "[]" : "[1]";
    return form("graph @g(%a: f32" + scalar + ", %x: f32" + shape + ") -> (" + outputs + ") {\n" + chain + "%b: f32" + shape +
                " = broadcast_in_dim(%s5) {dims=" + dims + ", shape=" + shape + "}\n%y: f32" + shape + " = mul(%b, %x)\n}\n")
        .groups.units.size();
  };
  EXPECT_EQ(units("[64, 32]", "[]", "%y: f32[64, 32]"), 1U);
  EXPECT_EQ(units("[2048, 1024]", "[]", "%y: f32[2048, 1024]"), 2U);
  EXPECT_EQ(units("[64, 32]", "[32]", "%y: f32[64, 32]"), 2U);
  EXPECT_EQ(units("[64, 32]", "[]", "%y: f32[64, 32], %s5: f32[]"), 2U);
}

}  // namespace
}  // namespace tcc::group
