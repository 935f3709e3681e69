// Units of kind chain: which products become parts of others, that they compute what the graph does, and that masks are seen.
#include <gtest/gtest.h>

#include <algorithm>

#include "group/lower.h"
#include "run_units.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/product_chain.h"
#include "tcc/passes/passes.h"

namespace tcc::group {
namespace {

/// The gradients of attention over 2 heads of 10 rows and 12 columns, from the maxima and sums of rows. `weights`: of scores %s and maxima %m, the nodes that give
/// %e; `results`, `more`: what else the graph returns, and its nodes.
std::unique_ptr<Graph> gradients(const std::string& weights, const std::string& results = "", const std::string& more = "") {
  const std::string text =
      "graph @g(%q: f32[2, 10, 4], %k: f32[2, 12, 4], %v: f32[2, 12, 4], %g: f32[2, 10, 4], %delta: f32[2, 10]) -> (%dv: f32[2, 12, 4], "
      "%dq: f32[2, 10, 4], "
      "%dk: f32[2, 4, 12]" +
      results +
      ") {\n"
      "  %s: f32[2, 10, 12] = dot_general(%q, %k) {dtype=f32, lhs_batch=[0], lhs_contract=[2], rhs_batch=[0], rhs_contract=[2]}\n" +
      weights +
      "  %y: f32[2, 10, 12] = dot_general(%g, %v) {dtype=f32, lhs_batch=[0], lhs_contract=[2], rhs_batch=[0], rhs_contract=[2]}\n"
      "  %deltas: f32[2, 10, 12] = broadcast_in_dim(%delta) {dims=[0, 1], shape=[2, 10, 12]}\n"
      "  %less: f32[2, 10, 12] = sub(%y, %deltas)\n"
      "  %ds: f32[2, 10, 12] = mul(%e, %less)\n"
      "  %dv: f32[2, 12, 4] = dot_general(%e, %g) {dtype=f32, lhs_batch=[0], lhs_contract=[1], rhs_batch=[0], rhs_contract=[1]}\n"
      "  %dq: f32[2, 10, 4] = dot_general(%ds, %k) {dtype=f32, lhs_batch=[0], lhs_contract=[2], rhs_batch=[0], rhs_contract=[1]}\n"
      "  %dk: f32[2, 4, 12] = dot_general(%q, %ds) {dtype=f32, lhs_batch=[0], lhs_contract=[1], rhs_batch=[0], rhs_contract=[1]}\n" +
      more + "}\n";
  return parse_graph(text, "test", {});
}

const char* const kPlain = "  %t: f32[2, 10, 12] = tanh(%s)\n  %e: f32[2, 10, 12] = exp(%t)\n";
/// Elements are not above the maxima of their rows, which another copy of them gave.
std::string causal(const std::string& low, const std::string& order = "le(%column, %row)") {
  const auto elements = [&](const std::string& n) {
    return "  %row" + n + ": i64[2, 10, 12] = iota() {axis=1, dtype=i64, shape=[2, 10, 12]}\n  %column" + n +
           ": i64[2, 10, 12] = iota() {axis=2, dtype=i64, shape=[2, 10, 12]}\n  %seen" + n + ": bool[2, 10, 12] = " +
           (order == "le(%column, %row)" ? "le(%column" + n + ", %row" + n + ")" : "lt(%column" + n + ", %row" + n + ")") + "\n  %zero" +
           n + ": f32[2, 10, 12] = full() {dtype=f32, shape=[2, 10, 12], value=0}\n  %low" + n +
           ": f32[2, 10, 12] = full() {dtype=f32, shape=[2, 10, 12], value=" + low + "}\n  %bias" + n + ": f32[2, 10, 12] = select(%seen" +
           n + ", %zero" + n + ", %low" + n + ")\n";
  };
  return "  %s0: f32[2, 10, 12] = dot_general(%q, %k) {dtype=f32, lhs_batch=[0], lhs_contract=[2], rhs_batch=[0], rhs_contract=[2]}\n" +
         elements("0") + "  %x0: f32[2, 10, 12] = add(%s0, %bias0)\n  %m: f32[2, 10] = reduce_max(%x0) {axes=[2]}\n" + elements("") +
         "  %x: f32[2, 10, 12] = add(%s, %bias)\n  %ms: f32[2, 10, 12] = broadcast_in_dim(%m) {dims=[0, 1], shape=[2, 10, 12]}\n"
         "  %d: f32[2, 10, 12] = sub(%x, %ms)\n  %e: f32[2, 10, 12] = exp(%d)\n";
}

struct Found {
  size_t chains = 0, hidden = 0, results = 0;  ///< chains, those of which a mask hides a part, results of all
};

Found find_chains(const Graph& graph, bool fits = true) {
  const auto is_chain = [](const loop::Unit& unit) { return loop::as_product_chain(unit.body.at(0)); };
  const Groups groups = form_groups(graph, {.stream_ns = [&](const loop::Unit& unit) {
                                      const bool is_one = fits && unit.body.size() == 1 && is_chain(unit);
                                      return is_one ? std::optional(1.0) : std::nullopt;
                                    }});
  EXPECT_EQ(run_on_random_inputs(graph, groups, {1e-4, 1e-5}), "");
  Found found;
  for (const Unit& unit : groups.units) {
    if (unit.kind != UnitKind::chain) continue;
    found.chains++;
    found.results += unit.outputs.size();
    const std::optional<loop::ProductChain> chain = is_chain(lower(graph, unit));
    found.hidden += chain && chain->distance;
  }
  return found;
}

TEST(ChainProducts, Joins) {
  const Found found = find_chains(*gradients(kPlain));
  EXPECT_EQ(found.chains, 2U);  // keys and values are of the same rows
  EXPECT_EQ(found.results, 3U);
  EXPECT_EQ(find_chains(*gradients(kPlain), false).chains, 0U);
}

TEST(ChainProducts, WhatAMaskHidesIsSeen) {
  for (const char* low : {"-inf", "-3e38"}) {
    const Found found = find_chains(*gradients(causal(low)));
    EXPECT_EQ(found.chains, 2U);
    EXPECT_EQ(found.hidden, 2U);
  }
  // The first row has nothing left, and its elements are all as low as its maximum.
  EXPECT_EQ(find_chains(*gradients(causal("-3e38", "lt(%column, %row)"))).hidden, 0U);
}

/// All readers make the scores again, or none.
TEST(ChainProducts, WhatOthersReadStays) {
  EXPECT_EQ(find_chains(*gradients(kPlain, ", %e: f32[2, 10, 12]")).chains, 2U);
  EXPECT_EQ(find_chains(*gradients(kPlain, ", %ds: f32[2, 10, 12], %e: f32[2, 10, 12]")).chains, 0U);
  EXPECT_EQ(find_chains(*gradients(kPlain, ", %z: f32[2, 12, 12]",
                                   "  %z: f32[2, 12, 12] = dot_general(%ds, %e) {dtype=f32, lhs_batch=[0], lhs_contract=[1], "
                                   "rhs_batch=[0], rhs_contract=[1]}\n"))
                .chains,
            0U);
}

}  // namespace
}  // namespace tcc::group
