// bind-shapes: sizes, symbols, expressions of symbols, inputs that become constants, and what is refused.

#include <gtest/gtest.h>

#include "tcc/graph/passes.h"

namespace tcc {
namespace {

std::unique_ptr<Graph> parse(const char* text) { return parse_graph(text, "net.onnx", {}); }

std::string message_of(Graph& graph, const Bindings& bindings, ExitCode code) {
  try {
    bind_shapes(graph, bindings);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(BindShapes, ASymbolIsFixedEverywhere) {
  const auto graph =
      parse(R"--(graph @g(%x: f32[n, 3], %y: f32[2, n], %z: f32["2*n + 1", "floor(n/3)"], %u: f32[*]) -> (%o: f32[n, 3]) { return %x })--");
  bind_shapes(*graph, {.shapes = {{"x", {8, 3}}, {"u", {4}}}});
  const auto type = [&](int i) { return to_string(graph->body.args[static_cast<size_t>(i)]->type); };
  EXPECT_EQ(type(0), "f32[8, 3]");
  EXPECT_EQ(type(1), "f32[2, 8]");
  EXPECT_EQ(type(2), "f32[17, 2]");
  EXPECT_EQ(type(3), "f32[4]");
}

TEST(BindShapes, SymbolsByName) {
  const auto graph = parse("graph @g(%x: f32[n, m<=4]) -> (%o: f32[n, m<=4]) { return %x }");
  bind_shapes(*graph, {.symbols = {{"n", 5}, {"m", 4}}});
  EXPECT_EQ(to_string(graph->body.args[0]->type), "f32[5, 4]");
}

TEST(BindShapes, AnInputBecomesAConstant) {
  const auto graph = parse("graph @g(%x: f32[2], %k: i64[n]) -> (%o: f32[2], %p: i64[n]) { return %x, %k }");
  bind_shapes(*graph, {.inputs = {{"k", Tensor::from_ints({7, 9})}}});
  ASSERT_EQ(graph->body.args.size(), 1u);
  ASSERT_EQ(graph->body.results[1]->kind, Value::Kind::weight);
  EXPECT_EQ(graph->body.results[1]->weight->tensor.as_int64(1), 9);
}

TEST(BindShapes, Refusals) {
  const char* text = "graph @g(%x: f32[n, 3], %y: f32[n]) -> (%o: f32[n]) { return %y }";
  EXPECT_EQ(message_of(*parse(text), {.shapes = {{"z", {1}}}}, ExitCode::usage),
            "net.onnx: error: --shapes: `z` is no input of the model [unknown-input]\nnet.onnx: help: inputs are `x`, `y`");
  EXPECT_EQ(message_of(*parse(text), {.shapes = {{"x", {2, 4}}}}, ExitCode::model),
            "net.onnx:x: error: axis 1 is given as 4, the model declares f32[n, 3] [type-error]");
  EXPECT_EQ(message_of(*parse(text), {.shapes = {{"x", {2}}}}, ExitCode::model),
            "net.onnx:x: error: the sizes given are [2], the model declares f32[n, 3] [type-error]");
  EXPECT_EQ(message_of(*parse(text), {.shapes = {{"x", {2, 3}}, {"y", {4}}}}, ExitCode::model),
            "net.onnx:y: error: size `n` is 4 here and 2 elsewhere [unbound-size]\nnet.onnx:y: help: equal names mean equal sizes");
  EXPECT_EQ(message_of(*parse(text), {.symbols = {{"m", 4}}}, ExitCode::usage),
            "net.onnx: error: no input has a size `m` to bind [invalid-argument]");
  EXPECT_EQ(message_of(*parse(text), {.inputs = {{"y", Tensor::from_ints({7, 9})}}}, ExitCode::model),
            "net.onnx:y: error: the value to bind is i64[2], the model declares f32[n] [type-error]");
}

}  // namespace
}  // namespace tcc
