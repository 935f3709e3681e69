// Every prim and composite with float operands: its gradient against finite differences in f64, over shapes, axes and attributes at random, zero
// extents and broadcasting among them. Values keep away from kinks; what holds there is in rules_test.cpp.
//
// An op belongs to a family of op_families.cpp, which writes a graph of it, or is in the list of those that have no gradient, with the reason. One that
// is in neither fails the test: an op that is added brings its row there.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "autograd/op_families.h"
#include "autograd/vjp.h"

namespace tcc {
namespace {

constexpr int kTrials = 60;  // every sixth with an extent of zero, where the op allows it

TEST(RandomRules, AgreeWithDifferences) {
  uint64_t seed = 100;
  for (const OpFamily& family : op_families()) {
    for (const char* op : family.ops) {
      for (int trial = 0; trial < kTrials; ++trial) {
        Draw draw(++seed, trial % 6 == 0);
        const Case c = family.write(draw, op);
        check_by_differences(c, 12);
        if (trial == 2) check_narrow(c);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

/// Prims and composites that no float gradient goes through, and why.
const std::map<std::string, const char*> kWithoutGradient = {
    {"bitcast", "no derivative: refused from float to float; bits as an integer are none"},
    {"matmul_integer", "integers"},
};

TEST(RandomRules, CoverEveryOp) {
  std::set<std::string> covered;
  for (const OpFamily& family : op_families()) {
    for (const char* op : family.ops) EXPECT_TRUE(covered.insert(op).second) << op;
  }
  Graph graph("g");
  for (int i = 0; i < num_ops(); ++i) {
    const Op op = static_cast<Op>(i);
    if (info(op).kind == OpKind::dynamic) continue;
    const std::string name(name_of(op));
    EXPECT_EQ(covered.count(name) + kWithoutGradient.count(name), 1U)
        << name << " belongs into a family of op_families.cpp, or into the list of those without";
    if (op == Op::reduce_) continue;  // its rule looks at an attribute
    const bool missing = autograd::find_vjp(*graph.make_node(op, {}, {}, {}, {})).kind == Gradient::none;
    EXPECT_EQ(missing, name == "bitcast") << name;
  }
}

}  // namespace
}  // namespace tcc
