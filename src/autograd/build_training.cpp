// Makes the graphs of a training: the joint graph with its gradients updated from, added up or written down.

#include <algorithm>
#include <unordered_map>

#include "autograd/state_writer.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"

namespace tcc {
namespace autograd {
namespace {

/// Mixes the number of the draw into what reads the input `seed`: numbers of one instance differ from draw to draw, and from those of another seed.
void vary_seed(Graph& graph, TrainingState& state) {
  const auto& inputs = graph.body.args;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [](const Value* input) { return input->name == "seed"; });
  if (found == inputs.end() || state.layout.find("optimizer.draw") == nullptr) return;
  Region first;
  Builder b(graph, first, {graph.file, "seed", ""});
  constexpr int64_t kStride = (int64_t(1) << 38) + 0x9E3779B9;  // odd, beyond usual seeds, and new in the low half as in the high one
  Value* seed = *found;
  Value* draw = b.cast(state.read(graph, "optimizer.draw"), DType::i64);
  Value* mixed = b.add(seed, b.mul(draw, b.full_int(DType::i64, {}, kStride)));
  replace_values(graph, {{seed, mixed}});
  // replace_values sees the graph alone: the new nodes are not in it yet and still read the seed itself.
  graph.body.nodes.insert(graph.body.nodes.begin(), first.nodes.begin(), first.nodes.end());
}

/// A copy of the joint graph without the gradients of parameters among its outputs; `copies` tells what they are in it.
std::unique_ptr<Graph> copy_without_gradients(const Graph& joint, const std::vector<Trained>& trained,
                                              std::unordered_map<const Value*, Value*>& copies) {
  std::unique_ptr<Graph> graph = joint.clone();
  std::unordered_map<std::string, const Value*> gradients;
  for (const Trained& t : trained) gradients["grad." + t.weight->name] = t.gradient;
  std::vector<Value*> outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph->body.results.size(); ++i) {
    const auto found = gradients.find(graph->output_names[i]);
    if (found != gradients.end()) {
      copies[found->second] = graph->body.results[i];
      continue;
    }
    outputs.push_back(graph->body.results[i]);
    names.push_back(graph->output_names[i]);
  }
  graph->body.results = std::move(outputs);
  graph->output_names = std::move(names);
  return graph;
}

class TrainingBuilder {
 public:
  TrainingBuilder(const Graph& joint, const Graph& forward, const OptimizerOptions& options)
      : joint_(joint), options_(options), state_(joint, forward, options), trained_(trained_parameters(joint)) {}

  TrainingGraphs build() {
    TrainingGraphs graphs;
    graphs.step = step();
    if (options_.accumulate > 1) graphs.accumulate = accumulate();
    graphs.gradients = gradients();
    graphs.update = update();
    for (Graph* graph : {graphs.step.get(), graphs.accumulate.get(), graphs.gradients.get(), graphs.update.get()}) {
      if (graph == nullptr) continue;
      eliminate_common_subexpressions(*graph);
      eliminate_dead_code(*graph);
      graph->remove_unused_weights();
    }
    graphs.state = std::move(state_.layout);
    return graphs;
  }

 private:
  /// Without the gradients of parameters among its outputs, its random numbers those of the draw; `copies` tells what the gradients are in it.
  std::unique_ptr<Graph> copy_joint(std::unordered_map<const Value*, Value*>& copies) {
    auto graph = copy_without_gradients(joint_, trained_, copies);
    vary_seed(*graph, state_);
    return graph;
  }

  std::unique_ptr<Graph> step() {
    std::unordered_map<const Value*, Value*> copies;
    auto graph = copy_joint(copies);
    StateWriter writer(*graph, state_, options_);
    const bool accumulates = options_.accumulate > 1;
    std::vector<Value*> gradients;
    for (const FlatParameters& flat : state_.updated) {
      Value* gradient = writer.gradient_of(flat, copies);
      if (accumulates) gradient = writer.accumulated(flat.gradients, gradient, flat.wide);
      gradients.push_back(gradient);
    }
    writer.update(state_.updated, std::move(gradients));
    if (accumulates) {
      for (const FlatParameters& flat : state_.by_dtype) writer.clear_gradients(flat);
    }
    writer.advance_draw();
    return graph;
  }

  std::unique_ptr<Graph> accumulate() {
    std::unordered_map<const Value*, Value*> copies;
    auto graph = copy_joint(copies);
    StateWriter writer(*graph, state_, options_);
    writer.accumulate(trained_, copies);
    writer.advance_draw();
    return graph;
  }

  std::unique_ptr<Graph> gradients() {
    std::unordered_map<const Value*, Value*> copies;
    auto graph = copy_joint(copies);
    StateWriter writer(*graph, state_, options_);
    for (const Trained& t : trained_) writer.set("grad." + t.weight->name, copies.at(t.gradient));
    return graph;
  }

  std::unique_ptr<Graph> update() {
    auto graph = std::make_unique<Graph>(joint_.name);
    graph->file = joint_.file;
    StateWriter writer(*graph, state_, options_);
    std::vector<Value*> gradients;
    for (const FlatParameters& flat : state_.by_dtype) gradients.push_back(writer.read(flat.gradients));
    writer.update(state_.by_dtype, std::move(gradients));
    writer.advance_draw();
    return graph;
  }

  const Graph& joint_;
  const OptimizerOptions& options_;
  TrainingState state_;
  const std::vector<Trained> trained_;
};

}  // namespace
}  // namespace autograd

TrainingGraphs build_training(const Graph& joint, const Graph& forward, const OptimizerOptions& options) {
  check(options.loss_scale.dynamic == (joint.find_weight("optimizer.loss_scale") != nullptr),
        "the joint graph has another loss scale than the optimizer");
  return autograd::TrainingBuilder(joint, forward, options).build();
}

}  // namespace tcc
