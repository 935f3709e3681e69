#include "driver/make_functions.h"

#include <algorithm>
#include <limits>
#include <map>

#include "driver/stages.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

// The importer adds it when the model draws random numbers.
constexpr const char* kSeed = "seed";

void add_seed(const Graph& graph, Functions& functions) {
  if (graph.body.args.empty() || !functions.scalars.empty()) return;
  const Value* last = graph.body.args.back();
  if (last->name == kSeed && last->type == Type(DType::i64, {})) functions.scalars.push_back({kSeed, DType::i64, 0});
}

/// A scalar for each thing that guards compare, not a number until the caller states it.
void add_settings(const std::vector<ImportedGuard>& guards, Functions& functions) {
  for (const ImportedGuard& guard : guards) {
    const auto is_it = [&](const link::ScalarDesc& scalar) { return scalar.name == guard.setting; };
    if (!guard.setting.empty() && std::none_of(functions.scalars.begin(), functions.scalars.end(), is_it))
      functions.scalars.push_back({guard.setting, DType::f64, std::numeric_limits<double>::quiet_NaN()});
  }
}

OptimizerOptions optimizer_options(const Options& options) {
  OptimizerOptions optimizer = parse_optimizer(options.optimizer);
  optimizer.clip_norm = options.clip_norm;
  optimizer.clip_value = options.clip_value;
  optimizer.accumulate = options.accumulate;
  if (!options.loss_scale.empty()) optimizer.loss_scale = parse_loss_scale(options.loss_scale);
  return optimizer;
}

/// What the model itself keeps. Nothing of the text of a training step, which doesn't say how its state lies: such a text is only looked at.
StateLayout state_of(const std::vector<Function>& functions) {
  std::vector<const Graph*> graphs;
  for (const Function& function : functions) {
    if (update_of_training(*function.prims) != nullptr) return {};
    graphs.push_back(function.prims.get());
  }
  return lay_out_state(graphs);
}

/// What one graph changes is a constant in none of them.
void share_state(const std::vector<PassState>& states) {
  std::map<std::string, Tensor> changed;
  for (const PassState& state : states) {
    for (const auto& weight : state.graph->weights()) {
      if (weight->is_state) changed.emplace(weight->name, weight->tensor);
    }
  }
  for (const PassState& state : states) {
    for (const auto& weight : state.graph->weights()) {
      const auto found = changed.find(weight->name);
      weight->is_state |= found != changed.end() && found->second.same_bytes(weight->tensor);
    }
  }
}

void add(Session& session, Functions& functions, const char* name, std::unique_ptr<Graph> graph, bool has_backward = false,
         bool in_halves = false) {
  if (graph == nullptr) return;
  PassState state;
  state.graph = std::move(graph);
  state.stage = GraphStage::resolved;
  to_prims(session, state);
  to_groupable(session, state, true);
  functions.list.push_back({name, std::move(state.graph), has_backward, in_halves});
}

/// Of a joint graph, whose forward half changes the model's own state.
void add_gradients(Session& session, Functions& functions, std::unique_ptr<Graph> joint) {
  add(session, functions, "grad", std::move(joint), true);
  functions.state = state_of(functions.list);
}

void keep_as_state(Graph& graph, const StateLayout& state) {
  for (const auto& weight : graph.weights()) weight->is_state |= weight->is_buffer && state.find(weight->name) != nullptr;
}

/// The first output `grad.<name>` of an input or weight of the graph; empty when there is none. A joint graph has them.
std::string gradient_in(const Graph& graph) {
  for (const std::string& output : graph.output_names) {
    if (!output.starts_with("grad.")) continue;
    const std::string name = output.substr(5);
    const bool of_input =
        std::any_of(graph.body.args.begin(), graph.body.args.end(), [&](const Value* input) { return input->name == name; });
    if (of_input || graph.find_weight(name) != nullptr) return output;
  }
  return "";
}

bool chooses_gradients(const Options& options) {
  return !options.loss.empty() || !options.wrt.empty() || !options.train.empty() || !options.freeze.empty() || options.train_batch_norms ||
         options.precision;
}

}  // namespace

const StateUpdate* update_of_training(const Graph& graph) {
  const auto& updates = graph.state_updates;
  const auto found = std::find_if(updates.begin(), updates.end(), [](const StateUpdate& update) { return !update.weight->is_state; });
  return found == updates.end() ? nullptr : &*found;
}

Functions functions_of(Session& session, std::unique_ptr<Graph> prims) {
  Functions functions;
  PassState state;
  state.graph = std::move(prims);
  state.stage = GraphStage::prims;
  add_seed(*state.graph, functions);
  to_groupable(session, state, false);
  const bool backward = session.options.mode != Mode::infer;
  functions.list.push_back({backward ? "grad" : "infer", std::move(state.graph), backward});
  functions.state = state_of(functions.list);
  return functions;
}

Functions make_functions(Session& session, std::vector<PassState> imported, ProductWriter& writer, bool stop_at_joint) {
  const Options& options = session.options;
  Functions functions;
  for (const PassState& state : imported) add_seed(*state.graph, functions);
  share_state(imported);
  if (options.mode == Mode::infer) {
    for (PassState& state : imported) {
      if (options.from != "prims") {
        to_resolved(session, state);
        to_prims(session, state);
      }
      to_groupable(session, state, false);
      add_settings(state.guards, functions);
      functions.list.push_back({state.function, std::move(state.graph), false, false, std::move(state.guards)});
    }
    functions.state = state_of(functions.list);
    return functions;
  }
  PassState& state = imported.front();
  for (const ImportedGuard& guard : state.guards) {
    if (!guard.setting.empty())
      session.diagnostics.warning("ignored", options.model, "the guard that " + guard.text + " is not checked: it is one of an inference");
  }
  if (update_of_training(*state.graph) != nullptr)
    throw Error(ExitCode::usage, "invalid-argument", options.model, "the graph is a training step already", "leave --mode out");
  const std::string gradient = gradient_in(*state.graph);
  const bool goes_on = !gradient.empty() && options.mode == Mode::grad && !options.from.empty() && !chooses_gradients(options);
  if (!gradient.empty() && !goes_on) {
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                "the graph has an output `" + gradient + "`: it has its gradients already",
                "leave --mode out; a joint graph that is read back is taken with --mode=grad alone");
  }
  if (options.from != "prims") to_resolved(session, state);
  if (goes_on) {
    writer.write_graph("joint", *state.graph);
    if (!stop_at_joint) add_gradients(session, functions, std::move(state.graph));
    return functions;
  }
  std::unique_ptr<Graph> forward = options.mode == Mode::train ? state.graph->clone() : nullptr;
  to_joint(session, state);
  writer.write_graph("joint", *state.graph);
  if (stop_at_joint) return functions;
  if (options.mode == Mode::grad) {
    add_gradients(session, functions, std::move(state.graph));
    return functions;
  }
  if (options.precision == DType::f16 && options.loss_scale.empty()) {
    session.diagnostics.warning("missing-loss-scale", options.model, "gradients below 6e-8 are zero in f16");
    session.diagnostics.help(options.model, "add --loss-scale=dynamic, or take --precision=bf16");
  }
  const OptimizerOptions optimizer = optimizer_options(options);
  TrainingGraphs training;
  session.progress.step("build-step");
  // No reproducer: a joint graph that is read back trains no more.
  run_stage(session, "build-step", {}, [&] { training = build_training(*state.graph, *forward, optimizer); });
  functions.state = std::move(training.state);
  // In all of them alike: what one function changes, or the caller, is a constant in none.
  for (Graph* graph : {forward.get(), training.step.get(), training.accumulate.get(), training.gradients.get()}) {
    if (graph != nullptr) keep_as_state(*graph, functions.state);
  }
  functions.scalars.push_back({"lr", DType::f32, optimizer.lr});
  functions.accumulate = optimizer.accumulate;
  add(session, functions, "infer", std::move(forward));
  functions.main = functions.list.size();
  add(session, functions, "step", std::move(training.step), true);
  add(session, functions, "accumulate", std::move(training.accumulate), true);
  add(session, functions, "backward", std::move(training.gradients), true, true);
  add(session, functions, "update", std::move(training.update));
  return functions;
}

}  // namespace tcc::driver
