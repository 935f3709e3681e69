// Units of kind stream: which products and softmaxes become one, and that it computes what the graph does.
#include <gtest/gtest.h>

#include <algorithm>

#include "run_units.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/streamed_rows.h"
#include "tcc/passes/passes.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {
namespace {

/// Attention over 2 x 3 heads, of 10 rows and 12 columns. `more`: nodes behind; `results`: what the graph returns.
std::unique_ptr<Graph> attention(const std::string& mask, const std::string& results = "%y: f32[2, 10, 3, 8]",
                                 const std::string& more = "") {
  const std::string text = "graph @g(%q: f32[2, 10, 3, 4], %k: f32[2, 12, 3, 4], %v: f32[2, 3, 12, 8], %m: f32[10, 12]) -> (" + results +
                           ") {\n"
                           "  %qt: f32[2, 3, 10, 4] = transpose(%q) {permutation=[0, 2, 1, 3]}\n"
                           "  %kt: f32[2, 3, 4, 12] = transpose(%k) {permutation=[0, 2, 3, 1]}\n"
                           "  %s: f32[2, 3, 10, 12] = matmul(%qt, %kt)\n" +
                           mask +
                           "  %p: f32[2, 3, 10, 12] = softmax(%x) {axis=3}\n"
                           "  %flat: f32[6, 10, 12] = reshape(%p) {shape=[6, 10, 12]}\n"
                           "  %w: f32[6, 12, 8] = reshape(%v) {shape=[6, 12, 8]}\n"
                           "  %o: f32[6, 10, 8] = matmul(%flat, %w)\n"
                           "  %heads: f32[2, 3, 10, 8] = reshape(%o) {shape=[2, 3, 10, 8]}\n"
                           "  %y: f32[2, 10, 3, 8] = transpose(%heads) {permutation=[0, 2, 1, 3]}\n" +
                           more + "}\n";
  std::unique_ptr<Graph> graph = parse_graph(text, "test", {});
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  canonicalize(*graph);
  eliminate_dead_code(*graph);
  return graph;
}

const char* const kPlain = "  %x: f32[2, 3, 10, 12] = abs(%s)\n";
const char* const kAdded = "  %x: f32[2, 3, 10, 12] = add(%s, %m)\n";
const char* const kCausal =
    "  %row: i64[10, 12] = iota() {axis=0, dtype=i64, shape=[10, 12]}\n"
    "  %column: i64[10, 12] = iota() {axis=1, dtype=i64, shape=[10, 12]}\n"
    "  %seen: bool[10, 12] = le(%column, %row)\n"
    "  %zero: f32[10, 12] = full() {dtype=f32, shape=[10, 12], value=0}\n"
    "  %low: f32[10, 12] = full() {dtype=f32, shape=[10, 12], value=-inf}\n"
    "  %bias: f32[10, 12] = select(%seen, %zero, %low)\n"
    "  %x: f32[2, 3, 10, 12] = add(%s, %bias)\n";

/// The streamed rows among the units; the test is asked about each candidate and says what `fits` does.
size_t count_streams(const Graph& graph, bool fits = true) {
  const Groups groups = form_groups(graph, {.stream_ns = [&](const loop::Unit& unit) {
                                      std::string why;
                                      EXPECT_TRUE(loop::as_streamed_rows(unit.body.at(0), &why)) << why << "\n" << loop::print(unit);
                                      return fits ? std::optional(1.0) : std::nullopt;
                                    }});
  EXPECT_EQ(run_on_random_inputs(graph, groups, {1e-5, 1e-6}), "");
  return static_cast<size_t>(
      std::count_if(groups.units.begin(), groups.units.end(), [](const Unit& unit) { return unit.kind == UnitKind::stream; }));
}

TEST(StreamRows, Joins) {
  for (const char* mask : {kPlain, kAdded, kCausal}) {
    SCOPED_TRACE(mask);
    EXPECT_EQ(count_streams(*attention(mask)), 1U);
    EXPECT_EQ(count_streams(*attention(mask), false), 0U);
  }
}

TEST(StreamRows, TheMaskIsMadeWhereItIsRead) {
  const std::unique_ptr<Graph> graph = attention(kCausal);
  const Groups groups = form_groups(*graph, {.stream_ns = [](const loop::Unit&) { return std::optional(1.0); }});
  ASSERT_EQ(groups.units.size(), 1U);
  const std::optional<loop::StreamedRows> rows = loop::as_streamed_rows(lower(*graph, groups.units[0]).body.at(0));
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->diagonal, 0);
}

/// A softmax in its parts, of which the graph returns the maximum and the sum of each row.
TEST(StreamRows, WhatIsOfRowsMayBeReadByOthers) {
  const std::string text =
      "graph @g(%q: f32[6, 10, 4], %k: f32[6, 4, 12], %v: f32[6, 12, 8]) -> (%o: f32[6, 10, 8], %m: f32[6, 10], %again: f32[6, 10]) {\n"
      "  %s: f32[6, 10, 12] = matmul(%q, %k)\n"
      "  %m: f32[6, 10] = reduce_max(%s) {axes=[2]}\n"
      "  %mb: f32[6, 10, 12] = broadcast_in_dim(%m) {dims=[0, 1], shape=[6, 10, 12]}\n"
      "  %d: f32[6, 10, 12] = sub(%s, %mb)\n"
      "  %e: f32[6, 10, 12] = exp(%d)\n"
      "  %l: f32[6, 10] = reduce_sum(%e) {axes=[2]}\n"
      "  %r: f32[6, 10] = recip(%l)\n"
      "  %rb: f32[6, 10, 12] = broadcast_in_dim(%r) {dims=[0, 1], shape=[6, 10, 12]}\n"
      "  %p: f32[6, 10, 12] = mul(%e, %rb)\n"
      "  %o: f32[6, 10, 8] = matmul(%p, %v)\n"
      "  %t: f32[6, 10] = reduce_sum(%o) {axes=[2]}\n"
      "  %again: f32[6, 10] = mul(%t, %r)\n"
      "}\n";
  std::unique_ptr<Graph> graph = parse_graph(text, "test", {});
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  eliminate_dead_code(*graph);
  EXPECT_EQ(count_streams(*graph), 1U);
}

TEST(StreamRows, WhatOthersReadStays) {
  EXPECT_EQ(count_streams(*attention(kPlain, "%y: f32[2, 10, 3, 8], %p: f32[2, 3, 10, 12]")), 0U);
  EXPECT_EQ(count_streams(*attention(kPlain, "%y: f32[2, 10, 3, 8], %s: f32[2, 3, 10, 12]")), 0U);
  EXPECT_EQ(count_streams(*attention(kPlain, "%y: f32[2, 10, 3, 8], %t: f32[2, 3, 12, 12]",
                                     "  %u: f32[2, 3, 12, 10] = transpose(%p) {permutation=[0, 1, 3, 2]}\n"
                                     "  %t: f32[2, 3, 12, 12] = matmul(%u, %p)\n")),
            0U);
}

}  // namespace
}  // namespace tcc::group
