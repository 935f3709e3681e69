// Makes the graphs of a training: the joint graph with its gradients updated from, added up or written down.
//
// What happens to the gradients of one dtype, in f32 or wider:
//   flat      concat of all, each padded with zeros to 256 bytes; with an accumulation of K: / K, plus what the state has
//   finite    with a loss scale: whether all gradients are finite; then divided by the scale
//   clipped   clamp_value, then the joint norm over all dtypes
//   updated   by the formulas in update_rules.cpp; with a loss scale select(finite, new, old)

#include <algorithm>
#include <unordered_map>

#include "autograd/training_state.h"
#include "autograd/update_rules.h"
#include "prims/rules_common.h"
#include "tcc/graph/builder.h"
#include "tcc/graph/passes.h"

namespace tcc {
namespace autograd {
namespace {

/// Appends to one graph what reads and writes the state.
class StateWriter {
 public:
  StateWriter(Graph& graph, TrainingState& state, const OptimizerOptions& options)
      : graph_(graph), state_(state), options_(options), b_(graph, graph.body, {graph.file, "optimizer", "update"}) {}

  /// The gradients of a stretch as one tensor.
  Value* gradient_of(const Stretch& stretch, const std::unordered_map<const Value*, Value*>& copies) {
    std::vector<Value*> pieces;
    for (const Trained& t : stretch.parts) {
      Value* gradient = copies.at(t.gradient);
      if (!stretch.flat) return gradient;
      const int64_t count = gradient->type.count();
      if (count == 0) continue;
      b_.set_loc(update_location(gradient));
      Value* piece = b_.reshape(gradient, {count});
      pieces.push_back(b_.pad(piece, b_.full(stretch.dtype, {}, 0), {0}, {padded_count(stretch.dtype, count) - count}));
    }
    b_.set_loc({graph_.file, "optimizer", "update"});
    return pieces.empty() ? b_.full(stretch.dtype, {0}, 0) : b_.concat(pieces, 0);
  }

  Value* read(const std::string& name) { return state_.read(graph_, name); }
  void set(const std::string& name, Value* value) { graph_.state_updates.push_back({read(name)->weight, value}); }

  /// state(name = the state's value + gradient / K), in the wide dtype of the two.
  Value* accumulated(const std::string& name, Value* gradient, DType wide) {
    Value* share = b_.binary(Op::mul_, b_.cast(gradient, wide), 1.0 / options_.accumulate);
    return b_.add(b_.cast(read(name), wide), share);
  }
  void accumulate(const Trained& t, Value* gradient) {
    b_.set_loc(update_location(gradient));
    const std::string name = "grad." + t.weight->name;
    set(name, b_.cast(accumulated(name, gradient, compute_dtype(gradient->type.dtype)), gradient->type.dtype));
  }
  void clear(const Stretch& stretch) { set(stretch.gradients, b_.full_like(read(stretch.gradients), 0)); }

  /// Counts a draw of random numbers.
  void advance_draw() {
    if (state_.layout.find("optimizer.draw") != nullptr) set("optimizer.draw", b_.binary(Op::add_, read("optimizer.draw"), 1.0));
  }

  /// Updates each stretch from its gradient, all in the wide dtype.
  void update(const std::vector<Stretch>& stretches, std::vector<Value*> gradients) {
    Value* lr = graph_.add_input("lr", Type(DType::f32, {}));
    unscale(gradients);
    clip(gradients);
    Value* step = nullptr;
    if (counts_steps(options_)) {
      step = b_.binary(Op::add_, read("optimizer.step"), 1.0);
      set_if_finite("optimizer.step", step);
    }
    for (size_t i = 0; i < stretches.size(); ++i) {
      const Stretch& stretch = stretches[i];
      b_.set_loc(stretch.flat ? Location{graph_.file, "optimizer", "update"} : update_location(gradients[i]));
      std::vector<Value*> slots;
      for (const std::string& slot : stretch.slots) slots.push_back(read(slot));
      const Updated updated = update_rule(b_, options_, read(stretch.current()), gradients[i], slots, lr, step);
      Value* parameter = set_if_finite(stretch.current(), updated.parameter);
      if (!stretch.master.empty()) set(stretch.parameters, b_.cast(parameter, stretch.dtype));
      for (size_t k = 0; k < slots.size(); ++k) set_if_finite(stretch.slots[k], updated.slots[k]);
    }
  }

  Builder& builder() { return b_; }

 private:
  Location update_location(const Value* value) const {
    Location loc = value->producer == nullptr ? Location{graph_.file, value->name, ""} : value->producer->loc;
    loc.phase = "update";
    return loc;
  }

  Value* set_if_finite(const std::string& name, Value* value) {
    if (finite_ != nullptr) value = b_.select(finite_, value, read(name));
    set(name, value);
    return value;
  }

  /// Finds out whether all gradients are finite, divides them by the loss scale, and adapts a dynamic one.
  void unscale(std::vector<Value*>& gradients) {
    const LossScale& scaling = options_.loss_scale;
    if (!scaling.enabled()) return;
    for (Value* gradient : gradients) {
      Value* all = b_.reduce(Op::reduce_and_, b_.unary(Op::isfinite_, gradient), prims::axes_from(0, gradient->type.rank()));
      finite_ = finite_ == nullptr ? all : b_.emit(Op::and_, {finite_, all});
    }
    Value* scale = scaling.dynamic ? read("optimizer.loss_scale") : nullptr;
    Value* inverse = scaling.dynamic ? b_.unary(Op::recip_, scale) : b_.full(DType::f32, {}, 1 / scaling.scale);
    for (Value*& gradient : gradients) gradient = b_.mul(gradient, b_.cast(inverse, gradient->type.dtype));
    if (!scaling.dynamic) return;
    Value* good = b_.binary(Op::add_, read("optimizer.growth_tracker"), 1.0);
    Value* full = b_.binary(Op::ge_, good, static_cast<double>(scaling.growth_interval));
    Value* zero = b_.full(DType::f32, {}, 0);
    Value* grown = b_.binary(Op::mul_, scale, scaling.growth);
    Value* kept = b_.select(b_.emit(Op::and_, {full, b_.unary(Op::isfinite_, grown)}), grown, scale);
    set("optimizer.loss_scale", b_.select(finite_, kept, b_.binary(Op::mul_, scale, scaling.backoff)));
    set("optimizer.growth_tracker", b_.select(finite_, b_.select(full, zero, good), zero));
  }

  /// As torch.nn.utils.clip_grad_value_, then clip_grad_norm_.
  void clip(std::vector<Value*>& gradients) {
    if (options_.clip_value > 0) {
      for (Value*& g : gradients) g = b_.emit(Op::clamp_, {g, b_.full_like(g, -options_.clip_value), b_.full_like(g, options_.clip_value)});
    }
    if (options_.clip_norm <= 0) return;
    Value* sum = nullptr;
    for (Value* g : gradients) {
      Value* squares = b_.cast(b_.reduce(Op::reduce_sum_, b_.mul(g, g), prims::axes_from(0, g->type.rank())), DType::f32);
      sum = sum == nullptr ? squares : b_.add(sum, squares);
    }
    Value* norm = b_.binary(Op::add_, b_.unary(Op::sqrt_, sum), 1e-6);
    Value* factor = b_.binary(Op::min_, b_.div(b_.full(DType::f32, {}, options_.clip_norm), norm), 1.0);
    for (Value*& g : gradients) g = b_.mul(g, b_.cast(factor, g->type.dtype));
  }

  Graph& graph_;
  TrainingState& state_;
  const OptimizerOptions& options_;
  Builder b_;
  Value* finite_ = nullptr;  ///< bool[], null without a loss scale
};

/// Mixes the number of the draw into what reads the input `seed`: numbers of one instance differ from draw to draw, and from those of another seed.
void vary_seed(Graph& graph, TrainingState& state) {
  const auto& inputs = graph.body.args;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [](const Value* input) { return input->name == "seed"; });
  if (found == inputs.end() || state.layout.find("optimizer.draw") == nullptr) return;
  Region first;
  Builder b(graph, first, {graph.file, "seed", ""});
  constexpr int64_t kStride = (int64_t(1) << 38) + 0x9E3779B9;  // odd, beyond usual seeds, and new in the low half as in the high one
  Value* seed = *found;
  Value* draw = state.read(graph, "optimizer.draw");
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
  std::unique_ptr<Graph> step() {
    std::unordered_map<const Value*, Value*> copies;
    auto graph = copy_without_gradients(joint_, trained_, copies);
    vary_seed(*graph, state_);
    StateWriter writer(*graph, state_, options_);
    const bool accumulates = options_.accumulate > 1;
    std::vector<Value*> gradients;
    for (const Stretch& stretch : state_.in_steps) {
      Value* gradient = writer.gradient_of(stretch, copies);
      gradient =
          accumulates ? writer.accumulated(stretch.gradients, gradient, stretch.wide) : writer.builder().cast(gradient, stretch.wide);
      gradients.push_back(gradient);
    }
    writer.update(state_.in_steps, std::move(gradients));
    if (accumulates) {
      for (const Stretch& stretch : state_.whole) writer.clear(stretch);
    }
    writer.advance_draw();
    return graph;
  }

  std::unique_ptr<Graph> accumulate() {
    std::unordered_map<const Value*, Value*> copies;
    auto graph = copy_without_gradients(joint_, trained_, copies);
    vary_seed(*graph, state_);
    StateWriter writer(*graph, state_, options_);
    for (const Trained& t : trained_) writer.accumulate(t, copies.at(t.gradient));
    writer.advance_draw();
    return graph;
  }

  std::unique_ptr<Graph> gradients() {
    std::unordered_map<const Value*, Value*> copies;
    auto graph = copy_without_gradients(joint_, trained_, copies);
    vary_seed(*graph, state_);
    StateWriter writer(*graph, state_, options_);
    for (const Trained& t : trained_) writer.set("grad." + t.weight->name, copies.at(t.gradient));
    return graph;
  }

  std::unique_ptr<Graph> update() {
    auto graph = std::make_unique<Graph>(joint_.name);
    graph->file = joint_.file;
    StateWriter writer(*graph, state_, options_);
    std::vector<Value*> gradients;
    for (const Stretch& stretch : state_.whole) gradients.push_back(writer.builder().cast(writer.read(stretch.gradients), stretch.wide));
    writer.update(state_.whole, std::move(gradients));
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
