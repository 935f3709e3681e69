// Branches and loops that no graph without them can hold, and faults inside of those that one can.
#include "errors/import_errors.h"

namespace tcc {
namespace {

constexpr int kBool = pb::TensorProto::BOOL;
using onnx::make_node;

const char* const kLoopHelp = ": help: fix the input with --bind=NAME=VALUE, or export the model with a constant number of steps";

pb::GraphProto graph_of(const std::vector<std::pair<std::string, int>>& inputs, const std::vector<pb::NodeProto>& nodes,
                        const std::vector<std::string>& outputs) {
  pb::GraphProto graph;
  graph.set_name("body");
  for (const auto& [name, type] : inputs) *graph.add_input() = onnx::make_value_info(name, type, nullptr);
  for (const auto& node : nodes) *graph.add_node() = node;
  for (const auto& output : outputs) graph.add_output()->set_name(output);
  return graph;
}

/// A loop over a state from x[2]; its body makes `next` of `state`, sees x and the integer k[1], and goes on while `flag`, an input, is set.
ModelBuilder loop_model(const std::string& trips, const std::string& runs, const std::vector<pb::NodeProto>& nodes,
                        const std::string& goes_on, bool collects = false) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.input("n", kInt64, {});
  model.input("k", kInt64, {1});
  model.input("flag", kBool, {});
  model.int64s("three", {}, {3});
  model.int64s("endless", {}, {INT64_MAX});
  std::vector<std::string> outputs{goes_on, "next"}, results{"y"};
  if (collects) outputs.push_back("next"), results.push_back("all");
  const auto body = graph_of({{"i", kInt64}, {"goes", kBool}, {"state", kFloat}}, nodes, outputs);
  model.node("Loop", {trips, runs, "x"}, results, {onnx::graph_attribute("body", body)}, "steps");
  model.output("y", kFloat);
  if (collects) model.output("all", kFloat);
  return model;
}

const std::vector<pb::NodeProto> kDouble{make_node("Add", {"state", "state"}, {"next"}, {}, "twice")};

TEST_F(ImportErrors, LoopsOnData) {
  expect_error(
      loop_model("n", "", kDouble, "goes"), ExitCode::model,
      std::string(
          "DIR/net.onnx:steps: error: not supported yet: the trip count of this Loop depends on the input `n` [unsupported-control-flow]\n"
          "  %y = Loop(%n: i64[], none, %x: f32[2])\n"
          "DIR/net.onnx:steps") +
          kLoopHelp);
  expect_error(
      loop_model("", "flag", kDouble, "goes"), ExitCode::model,
      std::string(
          "DIR/net.onnx:steps: error: not supported yet: the condition of this Loop depends on the input `flag`, and no trip count bounds "
          "its steps [unsupported-control-flow]\n"
          "  %y = Loop(none, %flag: bool[], %x: f32[2])\n"
          "DIR/net.onnx:steps") +
          kLoopHelp);
  expect_error(
      loop_model("endless", "", kDouble, "flag"), ExitCode::model,
      std::string(
          "DIR/net.onnx:steps: error: not supported yet: the condition of this Loop depends on the input `flag`, and a trip count of "
          "9223372036854775807 is no bound that can be unrolled [unsupported-control-flow]\n"
          "  %y = Loop(@endless: i64[], none, %x: f32[2])\n"
          "DIR/net.onnx:steps") +
          kLoopHelp);
  expect_error(
      loop_model("three", "", kDouble, "flag", true), ExitCode::model,
      std::string(
          "DIR/net.onnx:steps: error: not supported yet: the condition of this Loop depends on the input `flag`, so the length of its "
          "result 1 depends on it, too [unsupported-control-flow]\n"
          "  %y, %all = Loop(@three: i64[], none, %x: f32[2])\n"
          "DIR/net.onnx:steps") +
          kLoopHelp);
}

// A position from data is read where the loop is over, too; and a state has one shape.
TEST_F(ImportErrors, StepsThatCannotBeThrownAway) {
  expect_error(loop_model("three", "flag",
                          {make_node("Gather", {"state", "k"}, {"one"}, {}, "pick"), make_node("Add", {"state", "one"}, {"next"})}, "goes"),
               ExitCode::model,
               std::string("DIR/net.onnx:steps: error: not supported yet: the condition of this Loop depends on the input `flag`, and node "
                           "`steps[0]/pick` in it "
                           "reads positions that depend on data: where it doesn't run they may be out of range [unsupported-control-flow]\n"
                           "  %y = Loop(@three: i64[], %flag: bool[], %x: f32[2])\n"
                           "DIR/net.onnx:steps") +
                   kLoopHelp);
  expect_error(
      loop_model("three", "flag", {make_node("Concat", {"state", "state"}, {"next"}, {onnx::int_attribute("axis", 0)})}, "goes"),
      ExitCode::model,
      std::string(
          "DIR/net.onnx:steps: error: not supported yet: the condition of this Loop depends on the input `flag`, and a result is f32[4] or "
          "f32[2]: one type was expected [unsupported-control-flow]\n"
          "  %y = Loop(@three: i64[], %flag: bool[], %x: f32[2])\n"
          "DIR/net.onnx:steps") +
          kLoopHelp);
}

TEST_F(ImportErrors, LoopsWithoutEnd) {
  expect_error(loop_model("", "", kDouble, "goes"), ExitCode::model,
               "DIR/net.onnx:steps: error: loops are unrolled to more than 32768 nodes [too-complex]\n"
               "  %y = Loop(none, none, %x: f32[2])");
}

// A fault of the body is one of each step, and is said once.
TEST_F(ImportErrors, FaultsOfALoopAreSaidOnce) {
  expect_error(loop_model("three", "",
                          {make_node("NoSuchOp", {"state"}, {"h"}, {}, "first"), make_node("Relu", {"h"}, {"next"}, {}, "second")}, "goes"),
               ExitCode::model,
               "DIR/net.onnx:steps/first: error: not supported yet: op `NoSuchOp` of domain `ai.onnx`, opset 18 [unsupported-op]\n"
               "DIR/net.onnx:steps/first: help: `tcc check --ops` lists what is known; export the model without the op, or as a function "
               "of known ops");
  expect_error(loop_model("three", "", {make_node("Concat", {"state", "x"}, {"next"}, {onnx::int_attribute("axis", 3)}, "join")}, "goes"),
               ExitCode::model,
               "DIR/net.onnx:steps[0]/join: error: `axis` is 3, rank is 1 [type-error]\n"
               "  %next = Concat(%state: f32[2], %x: f32[2])");
  expect_error(loop_model("three", "", kDouble, "nowhere"), ExitCode::model,
               "DIR/net.onnx:steps: error: output `nowhere` of a subgraph is made by no node, input or initializer [malformed-file]\n"
               "  %y = Loop(@three: i64[], none, %x: f32[2])");
}

TEST_F(ImportErrors, BranchesOnDataOfTwoTypes) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.input("c", kBool, {});
  model.input("d", kBool, {});
  model.node("And", {"c", "d"}, {"both"});
  const auto same = graph_of({}, {make_node("Neg", {"x"}, {"t"})}, {"t"});
  const auto longer = graph_of({}, {make_node("Concat", {"x", "x"}, {"e"}, {onnx::int_attribute("axis", 0)})}, {"e"});
  model.node("If", {"both"}, {"y"}, {onnx::graph_attribute("then_branch", same), onnx::graph_attribute("else_branch", longer)}, "choice");
  model.output("y", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:choice: error: not supported yet: the condition of this If depends on the inputs `c` and `d`, and a result is "
               "f32[2] or f32[4]: one "
               "type was expected [unsupported-control-flow]\n"
               "  %y = If(%both: bool[])\n"
               "DIR/net.onnx:choice: help: compute both sides and choose between them with torch.where, or fix the condition with "
               "--bind=NAME=VALUE");
}

// Both sides run, so the ops of both are known or named.
TEST_F(ImportErrors, BranchesOnDataOfUnknownOps) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.input("c", kBool, {});
  const auto first = graph_of({}, {make_node("NoSuchOp", {"x"}, {"t"}, {}, "first")}, {"t"});
  const auto second = graph_of({}, {make_node("Mystery", {"x"}, {"e"}, {}, "second")}, {"e"});
  model.node("If", {"c"}, {"y"}, {onnx::graph_attribute("then_branch", first), onnx::graph_attribute("else_branch", second)}, "choice");
  model.output("y", kFloat);
  expect_error(
      model, ExitCode::model,
      "DIR/net.onnx:first: error: not supported yet: op `NoSuchOp` of domain `ai.onnx`, opset 18 [unsupported-op]\n"
      "DIR/net.onnx:first: help: `tcc check --ops` lists what is known; export the model without the op, or as a function of known ops\n"
      "DIR/net.onnx:second: error: not supported yet: op `Mystery` of domain `ai.onnx`, opset 18 [unsupported-op]\n"
      "DIR/net.onnx:second: help: `tcc check --ops` lists what is known; export the model without the op, or as a function of known ops");
}

TEST_F(ImportErrors, EmptyOptionals) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.node("Optional", {}, {"o"}, {}, "empty");
  model.node("OptionalGetElement", {"o"}, {"y"}, {}, "get");
  model.node("Relu", {"o"}, {"z"}, {}, "relu");
  model.output("y", kFloat);
  model.output("z", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:get: error: the optional is empty, an element was expected [type-error]\n"
               "  %y = OptionalGetElement(%o: bool[*])\n"
               "DIR/net.onnx:relu: error: operand `o` is an empty optional, a tensor was expected [type-error]\n"
               "  %z = Relu(%o: bool[*])");
}

TEST_F(ImportErrors, RecurrentLayers) {
  const auto lstm = [](std::vector<pb::AttributeProto> attributes, std::initializer_list<int64_t> r,
                       const std::vector<std::string>& operands = {"x", "w", "r"}) {
    ModelBuilder model;
    model.input("x", kFloat, {5, 2, 3});
    model.input("w", kFloat, {1, 8, 3});
    model.input("r", kFloat, r);
    model.floats("bias", {1, 20}, std::vector<float>(20));
    auto& lengths = *model.graph().add_initializer();
    lengths.set_name("lengths");
    lengths.set_data_type(pb::TensorProto::INT32);
    lengths.add_dims(2);
    lengths.add_int32_data(3);
    lengths.add_int32_data(6);
    model.node("LSTM", operands, {"y"}, attributes, "lstm");
    model.output("y", kFloat);
    return model;
  };
  const std::string where = "DIR/net.onnx:lstm: error: ", shown = "\n  %y = LSTM(%x: f32[5, 2, 3], %w: f32[1, 8, 3], %r: f32[1, 8, 2])";
  expect_error(lstm({onnx::int_attribute("hidden_size", 3)}, {1, 8, 2}), ExitCode::model,
               where + "`hidden_size` is 3, the recurrent weights are f32[1, 8, 2] [type-error]" + shown);
  expect_error(lstm({}, {1, 12, 3}), ExitCode::model,
               where +
                   "`W` is f32[1, 8, 3], [1, 12, ?] was expected [type-error]\n"
                   "  %y = LSTM(%x: f32[5, 2, 3], %w: f32[1, 8, 3], %r: f32[1, 12, 3])");
  expect_error(lstm({}, {1, 8, 2}, {"x", "w", "r", "bias"}), ExitCode::model,
               where +
                   "`B` is f32[1, 20], [1, 16] was expected [type-error]\n"
                   "  %y = LSTM(%x: f32[5, 2, 3], %w: f32[1, 8, 3], %r: f32[1, 8, 2], @bias: f32[1, 20])");
  expect_error(lstm({onnx::text_attribute("direction", "both")}, {1, 8, 2}), ExitCode::model,
               where + "not supported yet: `direction` is `both`, forward, reverse and bidirectional are known [unsupported-attribute]" +
                   shown + "\nDIR/net.onnx:lstm: help: export the model without the attribute, or with a value that the message names");
  expect_error(lstm({}, {1, 8, 2}, {"x", "w", "r", "", "lengths"}), ExitCode::model,
               where +
                   "`sequence_lens` has 6, there are 5 steps [type-error]\n"
                   "  %y = LSTM(%x: f32[5, 2, 3], %w: f32[1, 8, 3], %r: f32[1, 8, 2], none, @lengths: i32[2])");
}

}  // namespace
}  // namespace tcc
