// bind-shapes where no text gives the bindings: tensors, and what the command line refuses before. The rest is in bind_shapes.graph and fail_bind_*.graph.

#include <gtest/gtest.h>

#include "tcc/passes/passes.h"

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

TEST(BindShapes, AnInputBecomesAConstant) {
  const auto graph = parse("graph @g(%x: f32[2], %k: i64[n]) -> (%o: f32[2], %p: i64[n]) { return %x, %k }");
  bind_shapes(*graph, {.inputs = {{"k", Tensor::from_ints({7, 9})}}});
  ASSERT_EQ(graph->body.args.size(), 1u);
  ASSERT_EQ(graph->body.results[1]->kind, Value::Kind::weight);
  EXPECT_EQ(graph->body.results[1]->weight->tensor.as_int64(1), 9);
}

TEST(BindShapes, Refusals) {
  const char* text = "graph @g(%x: f32[n, 3], %y: f32[n]) -> (%o: f32[n]) { return %y }";
  EXPECT_EQ(message_of(*parse(text), {.symbols = {{"m", 4}}}, ExitCode::usage),
            "net.onnx: error: no input has a size `m` to bind [invalid-argument]");
  EXPECT_EQ(message_of(*parse(text), {.inputs = {{"y", Tensor::from_ints({7, 9})}}}, ExitCode::model),
            "net.onnx:y: error: the value to bind is i64[2], the model declares f32[n] [type-error]");
}

}  // namespace
}  // namespace tcc
