// Sizes near the ends of 64 bits, wherever a number stands: refused or bounded, never wrapped, never an internal error, and at once.

#include "tcc/rules/limits.h"
#include "tcc/graph/rule_error.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

constexpr int64_t kHostile[] = {0,
                                -1,
                                -3,
                                (int64_t{1} << 31) - 1,
                                int64_t{1} << 31,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 46,
                                (int64_t{1} << 62) + 1,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min() + 1};

/// The text with each of its integers in turn replaced by each hostile one. Names and dtypes hold no integers that stand alone.
std::vector<std::string> variants(const std::string& text) {
  static const std::regex number("[\\[ =]-?[0-9]+(?=[,\\]} )])");
  std::vector<std::string> all;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), number); at != std::sregex_iterator(); ++at) {
    const size_t begin = static_cast<size_t>(at->position()) + 1, end = begin + static_cast<size_t>(at->length()) - 1;
    for (const int64_t hostile : kHostile) all.push_back(text.substr(0, begin) + std::to_string(hostile) + text.substr(end));
  }
  return all;
}

/// What becomes of a graph that is read, resolved and decomposed: "", or the kinds of what is said against it.
std::string compile(const std::string& text) {
  Diagnostics diagnostics;
  try {
    const auto graph = parse_graph(text, "net", {});
    if (!verify(*graph, GraphStage::imported).empty()) return "not well-formed";
    resolve(*graph, diagnostics);
    if (!diagnostics.has_errors()) canonicalize(*graph, false);
    if (!diagnostics.has_errors()) fold_constants(*graph, false);
    if (!diagnostics.has_errors()) decompose(*graph, diagnostics);
    if (!diagnostics.has_errors()) {
      canonicalize(*graph, false);
      fold_constants(*graph, false);
      eliminate_dead_code(*graph);
      const std::vector<std::string> faults = verify(*graph, GraphStage::prims);
      if (!faults.empty()) return "internal: " + faults[0];
    }
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) return "internal: " + std::string(error.what());
    return error.what();
  } catch (const RuleError& error) { return error.kind; }
  std::string kinds;
  for (const Diagnostic& diagnostic : diagnostics.all()) kinds += diagnostic.kind + " ";
  return kinds;
}

const char* const kGraphs[] = {
    "(%x: f32[4, 6]) -> (%y: f32[*]) { %y: f32[*] = reshape(%x) {shape=[8, 3]} return %y }",
    "(%x: f32[1, 6]) -> (%y: f32[*]) { %y: f32[*] = broadcast_in_dim(%x) {shape=[5, 6], dims=[0, 1]} return %y }",
    "(%x: f32[9, 6]) -> (%y: f32[*]) { %y: f32[*] = slice(%x) {starts=[1, 0], limits=[8, 6], steps=[2, 3]} return %y }",
    "(%x: f32[3, 4], %v: f32[]) -> (%y: f32[*]) { %y: f32[*] = pad(%x, %v) {low=[1, 0], high=[2, 1], interior=[1, 0]} return %y }",
    "() -> (%y: f32[*]) { %y: f32[*] = full() {value=1, shape=[3, 4], dtype=f32} return %y }",
    "() -> (%y: i64[*]) { %y: i64[*] = iota() {axis=1, shape=[3, 4], dtype=i64} return %y }",
    "(%x: f32[4, 6]) -> (%y: f32[*]) { %y: f32[*], %i: i64[*] = topk(%x) {k=2, axis=1, largest=true} return %y }",
    "(%x: f32[4, 6]) -> (%y: f32[*]) { %y: f32[*] = cumulative(%x) {axis=1, op=\"sum\", reverse=false, exclusive=false} return %y }",
    "(%x: f32[4, 6]) -> (%y: f32[*]) { %y: f32[*] = reduce_window(%x) {op=\"max\", window=[1, 3], strides=[1, 2], low=[0, 1], high=[0, 1], "
    "dilations=[1, 2]} return %y }",
    "(%x: f32[2, 4, 9], %w: f32[6, 2, 3]) -> (%y: f32[*]) { %y: f32[*] = conv_general(%x, %w) {strides=[2], low=[1], high=[1], "
    "lhs_dilation=[2], "
    "rhs_dilation=[2], groups=2} return %y }",
    "(%x: f32[2, 4, 9], %w: f32[6, 2, 3]) -> (%y: f32[*]) { %y: f32[*] = conv(%x, %w) {strides=[2], dilations=[2], pads=[1, 1], groups=2, "
    "auto_pad=\"NOTSET\", kernel=[3]} return %y }",
    "(%x: f32[2, 4, 9], %w: f32[4, 2, 3]) -> (%y: f32[*]) { %y: f32[*] = conv_transpose(%x, %w) {strides=[2], dilations=[1], pads=[1, 1], "
    "output_padding=[1], output_shape=[], groups=2, auto_pad=\"NOTSET\", kernel=[3]} return %y }",
    "(%x: f32[2, 4, 9]) -> (%y: f32[*]) { %y: f32[*] = average_pool(%x) {kernel=[3], strides=[2], dilations=[1], pads=[1, 1], "
    "ceil_mode=false, "
    "auto_pad=\"NOTSET\", count_include_pad=false} return %y }",
    "(%x: f32[2, 4, 9]) -> (%y: f32[*]) { %y: f32[*], %i: i64[*] = max_pool(%x) {kernel=[3], strides=[2], dilations=[1], pads=[1, 1], "
    "ceil_mode=true, auto_pad=\"NOTSET\", storage_order=0} return %y }",
    "(%x: f32[2, 4]) -> (%y: f32[*]) { %y: f32[*] = trilu(%x) {k=1, upper=true} return %y }",
    "(%x: f32[2, 4]) -> (%y: i64[*]) { %y: i64[*] = eye_like(%x) {k=1, dtype=i64} return %y }",
    "(%x: i64[3], %v: f32[2]) -> (%y: f32[*]) { %y: f32[*] = one_hot(%x, %v) {axis=1, depth=5} return %y }",
    "(%x: f32[1, 16, 2, 2]) -> (%y: f32[*]) { %y: f32[*] = depth_to_space(%x) {blocksize=2, mode=\"DCR\"} return %y }",
    "(%x: f32[3, 5]) -> (%y: f32[*]) { %y: f32[*] = pad_with_input(%x) {mode=\"reflect\", low=[1, 2], high=[0, 3]} return %y }",
    "(%x: f32[3, 5]) -> (%y: f32[*]) { %y: f32[*] = resize(%x) {sizes=[6, 7], scales=[2.0, 1.4], mode=\"linear\", "
    "coordinate_transformation_mode=\"half_pixel\", nearest_mode=\"floor\", cubic_coeff_a=-0.75, exclude_outside=false, "
    "extrapolation_value=0.0, roi=[], antialias=false} return %y }",
    "(%x: i8[4, 6], %s: f32[4, 2]) -> (%y: f32[*]) { %y: f32[*] = dequantize_linear(%x, %s) {axis=1, block_size=3} return %y }",
    "(%x: f32[4, 6]) -> (%y: f32[*]) { weight @s: i64[2] = [8, 3] %y: f32[*] = dynamic_reshape(%x, @s) {allowzero=false} return %y }",
    "(%x: f32[1, 6]) -> (%y: f32[*]) { weight @s: i64[2] = [8, 6] %y: f32[*] = dynamic_expand(%x, @s) return %y }",
    "(%x: f32[2, 6]) -> (%y: f32[*]) { weight @s: i64[2] = [3, 2] %y: f32[*] = dynamic_tile(%x, @s) return %y }",
    "() -> (%y: i64[*]) { weight @a: i64[] = [ 2] weight @b: i64[] = [ 9] weight @c: i64[] = [ 3] %y: i64[*] = range(@a, @b, @c) return %y "
    "}",
    "() -> (%y: f32[*]) { weight @a: f32[] = [ 2] weight @b: f32[] = [ 9] weight @c: f32[] = [ 3] %y: f32[*] = range(@a, @b, @c) return %y "
    "}",
    "() -> (%y: f32[*]) { weight @s: i64[2] = [3, 2] %y: f32[*] = constant_of_shape(@s) {dtype=f32, value=1} return %y }",
    "(%x: f32[9, 6]) -> (%y: f32[*]) { weight @s: i64[1] = [ 1] weight @e: i64[1] = [ 8] weight @a: i64[1] = [ 0] weight @t: i64[1] = [ 2] "
    "%y: f32[*] = dynamic_slice(%x, @s, @e, @a, @t) return %y }",
    "(%x: f32[3, 4]) -> (%y: f32[*]) { weight @p: i64[4] = [1, 0, 2, 3] %y: f32[*] = dynamic_pad(%x, @p) {mode=\"constant\"} return %y }",
    "(%x: f32[3, 4]) -> (%y: f32[*]) { weight @p: i64[4] = [1, 0, 2, 3] %y: f32[*] = dynamic_pad(%x, @p) {mode=\"wrap\"} return %y }",
    "(%x: f32[6]) -> (%y: f32[*], %z: f32[*]) { weight @p: i64[2] = [2, 4] %y: f32[*], %z: f32[*] = dynamic_split(%x, @p) {axis=0} return "
    "%y, "
    "%z }",
    "(%x: f32[6]) -> (%y: f32[*], %z: f32[*]) { %y: f32[*], %z: f32[*] = dynamic_split(%x) {axis=0, num_outputs=2} return %y, %z }",
    "(%x: f32[6]) -> (%y: f32[*]) { weight @p: i64[] = [ 2] weight @i: i64[] = [ 1] %s: f32[*] = split_to_sequence(%x, @p) {axis=0, "
    "keepdims=true} %y: f32[*] = sequence_at(%s, @i) return %y }",
    "(%x: i64[3], %v: f32[2]) -> (%y: f32[*]) { weight @d: i64[] = [ 5] %y: f32[*] = dynamic_one_hot(%x, @d, %v) {axis=1} return %y }",
    "(%x: f32[3, 5]) -> (%y: f32[*]) { weight @s: i64[2] = [6, 7] %y: f32[*] = dynamic_resize(%x, none, none, @s) {mode=\"cubic\", "
    "coordinate_transformation_mode=\"half_pixel\", nearest_mode=\"floor\", cubic_coeff_a=-0.75, exclude_outside=false, "
    "extrapolation_value=0.0, antialias=true, axes=[], keep_aspect_ratio_policy=\"stretch\"} return %y }",
    "(%x: f32[3, 5]) -> (%y: f32[*]) { weight @s: f32[2] = [2, 3] %y: f32[*] = dynamic_resize(%x, none, @s) {mode=\"nearest\", "
    "coordinate_transformation_mode=\"half_pixel\", nearest_mode=\"floor\", cubic_coeff_a=-0.75, exclude_outside=false, "
    "extrapolation_value=0.0, antialias=false, axes=[], keep_aspect_ratio_policy=\"stretch\"} return %y }",
};

TEST(Limits, HostileNumbersAreNoInternalErrors) {
  int compiled = 0, total = 0;
  for (const char* graph : kGraphs) {
    EXPECT_EQ(compile("graph @g" + std::string(graph)), "") << graph;
    for (const std::string& variant : variants("graph @g" + std::string(graph))) {
      const std::string found = compile(variant);
      EXPECT_FALSE(found.starts_with("internal")) << variant << "\n" << found;
      compiled += found.empty();
      ++total;
    }
  }
  EXPECT_GT(compiled, total / 20);
  EXPECT_LT(compiled, total);
}

TEST(Limits, SizesAreChecked) {
  const auto refused = [](const Type& type) {
    try {
      check_size(type);
    } catch (const RuleError& error) { return error.message; }
    return std::string();
  };
  EXPECT_EQ(refused(Type(DType::f32, {int64_t{1} << 44})), "");
  EXPECT_EQ(refused(Type(DType::f32, {int64_t{1} << 44, 2})), "a tensor is f32[17592186044416, 2], the most that one may take is 64 TiB");
  EXPECT_EQ(refused(Type(DType::f64, {int64_t{1} << 44})), "a tensor is f64[17592186044416], the most that one may take is 64 TiB");
  // The strides of an empty tensor fit, too.
  EXPECT_EQ(refused(Type(DType::u8, {0, int64_t{1} << 46})), "");
  EXPECT_NE(refused(Type(DType::u8, {0, int64_t{1} << 40, int64_t{1} << 40})), "");
  EXPECT_EQ(refused(Type(DType::f32, Shape(65, 1))), "a tensor has 65 axes, the most is 64");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(24), "24 bytes");
}

// A small graph of constants whose product is large stays a graph.
TEST(Limits, FoldingIsBounded) {
  const auto graph = parse_graph(R"(
graph @g() -> (%y: f32[]) {
  weight @a: f32[4] = [1, 2, 3, 4]
  %e: f32[4, 262144] = broadcast_in_dim(@a) {shape=[4, 262144], dims=[0]}
  %f: f32[1048576] = reshape(%e) {shape=[1048576]}
  %y: f32[] = einsum(%f, %f, %f) {equation="a,b,c->"}
  return %y
})",
                                 "net", {});
  fold_constants(*graph, false);
  EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
  ASSERT_FALSE(graph->body.nodes.empty());
}

TEST(Limits, RegionsAreNestedSoDeepAtMost) {
  std::string text = "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n";
  for (int i = 0; i < 20'000; ++i) text += "%v" + std::to_string(i) + ": f32[2] = neg(%x) region () {\n";
  try {
    parse_graph(text, "net", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("regions are nested more than 200 deep"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tcc
