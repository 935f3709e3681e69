// What is known of integers, and what inputs are asked to be.

#include "tcc/graph/ranges.h"

#include <gtest/gtest.h>

namespace tcc {
namespace {

std::unique_ptr<Graph> graph_of(const std::string& inputs, const std::string& body, const std::string& result) {
  return parse_graph("graph @g(" + inputs + ") -> (" + result + ") {\n" + body + "\n}", "test", {});
}

std::string text(const std::optional<IntRange>& range) {
  return range ? std::to_string(range->low) + ":" + std::to_string(range->high) : "unknown";
}

TEST(Ranges, OfWhatNodesMake) {
  const auto known = [](const std::string& body, const std::string& type = "i64[4]") {
    const auto graph = graph_of("%x: i64[4], %f: f32[4, 7]", body, "%r: " + type);
    return text(known_range(graph->body.results[0]));
  };
  EXPECT_EQ(known("%r: i64[4] = argmax(%f) {axis=1, last=false}"), "0:6");
  EXPECT_EQ(known("%r: i64[4] = iota() {axis=0, dtype=i64, shape=[4]}"), "0:3");
  EXPECT_EQ(known("%r: i64[4] = full() {dtype=i64, shape=[4], value=-3}"), "-3:-3");
  EXPECT_EQ(known("weight @w: i64[4] = [5, -2, 7, 0]\n%r: i64[4] = add(@w, @w)"), "-4:14");
  EXPECT_EQ(known("weight @w: i64[4] = [5, -2, 7, 0]\n%r: i64[4] = sub(@w, @w)"), "-9:9");
  EXPECT_EQ(known("weight @w: i64[4] = [5, -2, 7, 0]\n%r: i64[4] = mul(@w, @w)"), "-14:49");
  EXPECT_EQ(known("weight @n: i64[4] = [6, 6, 6, 9]\n%r: i64[4] = mod(%x, @n)"), "0:8");
  EXPECT_EQ(known("%r: i64[4] = add(%x, %x)"), "unknown");
  EXPECT_EQ(known("weight @a: i64[4] = [0, 0, 0, 0]\nweight @b: i64[4] = [9, 9, 9, 9]\n%r: i64[4] = clamp(%x, @a, @b)"), "0:9");
  EXPECT_EQ(known("weight @a: i64[4] = [0, 0, 0, 0]\nweight @b: i64[4] = [9, 9, 9, 9]\n%m: i64[4] = max(%x, @a)\n%r: i64[4] = min(%m, @b)"),
            "0:9");
  EXPECT_EQ(known("weight @big: i64[4] = [9223372036854775807, 1, 1, 1]\n%r: i64[4] = add(@big, @big)"), "unknown");
  EXPECT_EQ(known("%n: i8[4] = cast(%x) {dtype=i8}\n%r: i64[4] = cast(%n) {dtype=i64}"), "-128:127");
  EXPECT_EQ(known("%b: bool[4] = eq(%x, %x)\n%r: i64[4] = cast(%b) {dtype=i64}"), "0:1");
}

TEST(Ranges, OfInputsByTheirUses) {
  const auto range_of_x = [](const std::string& body, const std::string& result = "%r: f32[4, 5]") {
    const auto graph = graph_of("%x: i64[4], %f: f32[9, 5]", body, result);
    const auto ranges = input_ranges(*graph);
    const auto at = ranges.find(graph->body.args[0]);
    return text(at == ranges.end() ? std::nullopt : std::optional(at->second));
  };
  EXPECT_EQ(range_of_x("%r: f32[4, 5] = gather(%f, %x) {axis=0}"), "0:8");
  EXPECT_EQ(range_of_x("weight @w: f32[3, 5] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n%a: f32[4, 5] = gather(%f, %x) {axis=0}\n"
                       "%b: f32[4, 5] = gather(@w, %x) {axis=0}\n%r: f32[4, 5] = add(%a, %b)"),
            "0:2");
  // Positions that begin at 2, as in some language models.
  EXPECT_EQ(range_of_x("weight @two: i64[4] = [2, 2, 2, 2]\n%p: i64[4] = add(%x, @two)\n%r: f32[4, 5] = gather(%f, %p) {axis=0}"), "-2:6");
  // A negative index wrapped by the model itself.
  EXPECT_EQ(range_of_x("%zero: i64[4] = full() {dtype=i64, shape=[4], value=0}\n%nine: i64[4] = full() {dtype=i64, shape=[4], value=9}\n"
                       "%c: bool[4] = lt(%x, %zero)\n%a: i64[4] = add(%x, %nine)\n%p: i64[4] = select(%c, %a, %x)\n"
                       "%r: f32[4, 5] = gather(%f, %p) {axis=0}"),
            "0:8");
  // Classes, by comparison with positions; lengths.
  const std::string positions =
      "%i: i64[4, 5] = iota() {axis=1, dtype=i64, shape=[4, 5]}\n%s: i64[4, 5] = broadcast_in_dim(%x) {dims=[0], shape=[4, 5]}\n";
  EXPECT_EQ(range_of_x(positions + "%r: bool[4, 5] = eq(%i, %s)", "%r: bool[4, 5]"), "0:4");
  EXPECT_EQ(range_of_x(positions + "%r: bool[4, 5] = lt(%i, %s)", "%r: bool[4, 5]"), "1:5");
  EXPECT_EQ(range_of_x(positions + "%r: bool[4, 5] = gt(%s, %i)", "%r: bool[4, 5]"), "1:5");
  EXPECT_EQ(range_of_x(positions + "%r: bool[4, 5] = le(%s, %i)", "%r: bool[4, 5]"), "1:5");
  EXPECT_EQ(range_of_x("%r: i64[4] = mul(%x, %x)", "%r: i64[4]"), "unknown");
}

}  // namespace
}  // namespace tcc
