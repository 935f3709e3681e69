// Programs that change buffers, parameters or inputs: three calls in a row give what they give in the framework (fx_state_cases.json, written by
// make_fx_state_cases.py), outputs, state and changed inputs. By the interpreter of graphs, by that of kernels as planned for both targets, and as an
// x86-64 library.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "autograd/to_prims.h"
#include "frontend/fx/importer.h"
#include "frontend/fx/read_program.h"
#include "frontend/fx_cases.h"
#include "plan/plan_graph.h"
#include "plan/stateful.h"
#include "tcc/driver/pipeline.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/runtime/library.h"
#include "tcc/support/files.h"
#include "tcc/support/safetensors.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

using Json = nlohmann::json;
using testing::tensor_of;

const Json& cases() {
  static const Json json = Json::parse(read_text_file(std::string(TCC_TEST_DATA_DIR) + "/fx_state_cases.json"));
  return json;
}

std::unique_ptr<Graph> import_program(const Json& one, const Json& program) {
  const fx::WeightSource weights = [&](const fx::InputSpec& input, const fx::TensorMeta&) -> std::optional<Tensor> {
    const auto found = one.at("weights").find(input.target);
    return found == one.at("weights").end() ? std::nullopt : std::optional(tensor_of(*found));
  };
  Diagnostics diagnostics;
  const fx::Program read = fx::read_program(program.dump(), "program.json");
  auto graph = fx::Importer(read, "program.json", weights, {}, diagnostics).run();
  resolve(*graph, diagnostics);
  diagnostics.checkpoint();
  return graph;
}

/// Runs calls one after the other; each way to run a program has one.
struct Runner {
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> run;
  std::function<Tensor(const std::string&)> read_state;
};

/// All calls of a case: outputs, inputs that changed, state.
void expect_calls(const Json& one, const Graph& graph, const Runner& runner) {
  const StateLayout state = lay_out_state({&graph});
  for (const Json& call : one.at("calls")) {
    std::vector<Tensor> inputs;
    for (const Json& input : call.at("inputs")) inputs.push_back(tensor_of(input));
    ASSERT_EQ(graph.body.args.size(), inputs.size());
    const std::vector<Tensor> outputs = runner.run(inputs);
    const size_t num_outputs = call.at("outputs").size();
    for (size_t i = 0; i < num_outputs; ++i) {
      EXPECT_EQ(graph.body.results.at(i)->type.dtype, tensor_of(call.at("outputs")[i]).dtype());
      testing::compare(outputs.at(i), tensor_of(call.at("outputs")[i]), "output " + std::to_string(i));
    }
    size_t next = num_outputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_output = next < graph.output_names.size() && graph.output_names[next] == "new." + graph.body.args[i]->name;
      const Tensor after = tensor_of(call.at("inputs_after")[i]);
      testing::compare(is_output ? outputs.at(next) : inputs[i], after, "input " + graph.body.args[i]->name);
      next += is_output;
    }
    EXPECT_EQ(next, graph.output_names.size());
    for (const auto& [name, after] : call.at("weights_after").items()) {
      const Tensor expected = tensor_of(after);
      // What the program doesn't change is not a state: it stays as it was.
      const bool is_state = state.find(name) != nullptr;
      const Tensor found = is_state ? runner.read_state(name) : tensor_of(one.at("weights").at(name));
      testing::compare(found, expected, "state " + name);
    }
  }
}

class FxState : public ::testing::TestWithParam<size_t> {
 protected:
  const Json& one() const { return cases().at(GetParam()); }
};

/// Its text reads back: marks of buffers and state too.
std::unique_ptr<Graph> through_text(const Graph& graph) {
  std::map<std::string, Tensor> weights;
  for (const auto& weight : graph.weights()) weights[weight->name] = weight->tensor;
  auto read = parse_graph(print(graph), graph.file, weights);
  std::string why;
  EXPECT_TRUE(equal(graph, *read, &why)) << why;
  return read;
}

/// With the interpreter of graphs.
Runner interpreted(Graph& graph) {
  return {[&graph](const std::vector<Tensor>& inputs) {
            const auto extended = graph.clone();
            for (const StateUpdate& update : extended->state_updates) extended->add_output(update.value, "state");
            std::vector<Tensor> outputs = interpret(*extended, inputs, false);
            for (size_t i = 0; i < graph.state_updates.size(); ++i)
              graph.state_updates[i].weight->tensor = outputs[graph.body.results.size() + i];
            outputs.resize(graph.body.results.size());
            return outputs;
          },
          [&graph](const std::string& name) { return graph.find_weight(name)->weight->tensor; }};
}

TEST_P(FxState, IsKeptByTheGraph) {
  for (const Json& program : one().at("programs")) {
    const auto graph = import_program(one(), program);
    EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
    const auto read = through_text(*graph);
    expect_calls(one(), *read, interpreted(*read));
  }
}

TEST_P(FxState, IsKeptByPlans) {
  for (const Json& program : one().at("programs")) {
    const auto graph = import_program(one(), program);
    test::to_prims(*graph);
    const auto read = through_text(*graph);
    const StateLayout state = lay_out_state({read.get()});
    for (const auto& target : {schedule::Target::cuda_sm80(), schedule::Target::cpu_v3()}) {
      plan::PlanOptions options;
      if (!state.tensors.empty()) options.state = &state;
      const plan::Plan plan = plan::plan_graph(*read, target, options);
      EXPECT_EQ(plan::verify(plan), std::vector<std::string>()) << plan::print(plan);
      plan::StateMemory memory = plan::initial_state(state, {});
      expect_calls(one(), *read,
                   {[&](const std::vector<Tensor>& inputs) {
                      std::vector<Tensor> outputs = plan::interpret(plan, inputs, &memory);
                      // A plan may know an output under the shape of what it is a view of.
                      for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = outputs[i].reshaped(read->body.results[i]->type.shape());
                      return outputs;
                    },
                    [&](const std::string& name) { return plan::read_state(memory, state, name); }});
    }
  }
}

/// The functional form through the driver: all of its passes with what they do for inference, and the runtime's state.
TEST_P(FxState, IsKeptByALibrary) {
  const testing::ScratchFolder folder;
  const auto graph = import_program(one(), one().at("programs").at(1));
  std::map<std::string, Tensor> weights;
  for (const auto& weight : graph->weights()) weights[weight->name] = weight->tensor;
  write_safetensors(folder / "weights", weights);
  write_file_atomically(folder / "text", print(*graph, {.weights_file = "weights"}));
  driver::Options options;
  options.from = "graph";
  options.cuda = false;
  driver::compile_to_library(folder / "text", options, folder / "library.so");
  const auto library = runtime::Library::open(folder / "library.so");
  runtime::Instance instance(library, {.device = runtime::Device::cpu, .num_threads = 1});
  const Runner runner = {[&](const std::vector<Tensor>& inputs) { return instance.run(inputs); },
                         [&](const std::string& name) { return instance.read_state(name); }};
  expect_calls(one(), *graph, runner);
  if (library->state().empty()) return;
  // The last call once more from what the one before left, in another instance and through a file.
  instance.reset_state();
  expect_calls(one(), *graph, runner);
  instance.save_state(folder / "state.safetensors");
  runtime::Instance second(library, {.device = runtime::Device::cpu, .num_threads = 1});
  second.load_state(folder / "state.safetensors");
  for (const runtime::StateInfo& info : library->state()) {
    const Value* weight = graph->find_weight(info.name);
    EXPECT_EQ(info.role, weight->weight->from_model ? StateRole::parameter : StateRole::buffer);
    EXPECT_TRUE(second.read_state(info.name).same_bytes(instance.read_state(info.name))) << info.name;
    second.write_state(info.name, weight->weight->tensor);
  }
  expect_calls(one(), *graph,
               {[&](const std::vector<Tensor>& inputs) { return second.run(inputs); },
                [&](const std::string& name) { return second.read_state(name); }});
}

INSTANTIATE_TEST_SUITE_P(Programs, FxState, ::testing::Range<size_t>(0, cases().size()),
                         [](const auto& info) { return cases().at(info.param).at("name").template get<std::string>(); });

}  // namespace
}  // namespace tcc
