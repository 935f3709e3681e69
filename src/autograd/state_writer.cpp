// Reads, writes and updates of the state as nodes.

#include "autograd/state_writer.h"

#include <algorithm>

#include "autograd/node_placer.h"
#include "autograd/update_rules.h"
#include "tcc/rules/rules_common.h"

namespace tcc::autograd {

StateWriter::StateWriter(Graph& graph, TrainingState& state, const OptimizerOptions& options)
    : graph_(graph), state_(state), options_(options), b_(graph, graph.body, {graph.file, "optimizer", "update"}) {}

Location StateWriter::update_location(const Value* value) const {
  Location loc = value->producer == nullptr ? Location{graph_.file, value->name, ""} : value->producer->loc;
  loc.phase = "update";
  return loc;
}

// --------------------------------------------------------------------------------------------------------- gradients

Value* StateWriter::gradient_of(const FlatParameters& flat, const std::unordered_map<const Value*, Value*>& copies) {
  std::vector<Value*> pieces;
  for (const Trained& t : flat.parts) {
    Value* gradient = copies.at(t.gradient);
    if (!flat.flat) return gradient;
    const int64_t count = gradient->type.count();
    if (count == 0) continue;
    b_.set_loc(update_location(gradient));
    Value* piece = b_.reshape(gradient, {count});
    pieces.push_back(b_.pad(piece, b_.full(flat.dtype, {}, 0), {0}, {padded_count(flat.dtype, count) - count}));
  }
  b_.set_loc({graph_.file, "optimizer", "update"});
  return pieces.empty() ? b_.full(flat.dtype, {0}, 0) : b_.concat(pieces, 0);
}

Value* StateWriter::accumulated(const std::string& name, Value* gradient, DType wide) {
  Value* share = b_.binary(Op::mul_, b_.cast(gradient, wide), 1.0 / options_.accumulate);
  return b_.add(b_.cast(read(name), wide), share);
}

void StateWriter::accumulate(const std::vector<Trained>& trained, const std::unordered_map<const Value*, Value*>& copies) {
  NodePlacer placer(graph_);
  for (const Trained& t : trained) {
    Value* gradient = copies.at(t.gradient);
    const size_t first = graph_.body.nodes.size();
    const std::string name = "grad." + t.weight->name;
    b_.set_loc(update_location(gradient));
    set(name, b_.cast(accumulated(name, gradient, compute_dtype(gradient->type.dtype)), gradient->type.dtype));
    placer.move(first, placer.behind(gradient));
  }
  placer.finish();
}

/// Finds out whether all gradients are finite, divides them by the loss scale, and adapts a dynamic one.
void StateWriter::unscale(std::vector<Value*>& gradients) {
  const LossScale& scaling = options_.loss_scale;
  if (!scaling.enabled()) return;
  for (Value* gradient : gradients) {
    Value* all = b_.reduce(Op::reduce_and_, b_.unary(Op::isfinite_, gradient), rules::axes_from(0, gradient->type.rank()));
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

/// As torch.nn.utils.clip_grad_value_.
Value* StateWriter::clip_value(Value* g) {
  if (options_.clip_value <= 0) return g;
  return b_.emit(Op::clamp_, {g, b_.full_like(g, -options_.clip_value), b_.full_like(g, options_.clip_value)});
}

/// As torch.nn.utils.clip_grad_norm_.
void StateWriter::clip_norm(std::vector<Value*>& gradients) {
  if (options_.clip_norm <= 0) return;
  Value* sum = nullptr;
  for (Value* g : gradients) {
    Value* squares = b_.cast(b_.reduce(Op::reduce_sum_, b_.mul(g, g), rules::axes_from(0, g->type.rank())), DType::f32);
    sum = sum == nullptr ? squares : b_.add(sum, squares);
  }
  Value* norm = b_.binary(Op::add_, b_.unary(Op::sqrt_, sum), 1e-6);
  Value* factor = b_.binary(Op::min_, b_.div(b_.full(DType::f32, {}, options_.clip_norm), norm), 1.0);
  for (Value*& g : gradients) g = b_.mul(g, b_.cast(factor, g->type.dtype));
}

// ----------------------------------------------------------------------------------------------------------- updates

Value* StateWriter::set_if_finite(const std::string& name, Value* value) {
  if (finite_ != nullptr) value = b_.select(finite_, value, read(name));
  set(name, value);
  return value;
}

void StateWriter::update(const FlatParameters& flat, Value* gradient, Value* lr, Value* step) {
  std::vector<Value*> slots;
  for (const std::string& slot : flat.slots) slots.push_back(read(slot));
  const Updated updated = update_rule(b_, options_, read(flat.current()), gradient, slots, lr, step);
  Value* parameter = set_if_finite(flat.current(), updated.parameter);
  if (!flat.master.empty()) set(flat.parameters, b_.cast(parameter, flat.dtype));
  for (size_t k = 0; k < slots.size(); ++k) set_if_finite(flat.slots[k], updated.slots[k]);
}

void StateWriter::update(const std::vector<FlatParameters>& flats, std::vector<Value*> gradients) {
  Value* lr = graph_.add_input("lr", Type(DType::f32, {}));
  NodePlacer placer(graph_);
  // Updates apart stand behind their gradient and the last reader of the parameter, which they overwrite; what they share, before the first of them.
  const size_t end = graph_.body.nodes.size();
  std::vector<size_t> places;
  for (size_t i = 0; i < flats.size(); ++i)
    places.push_back(flats[i].flat ? end : placer.behind(gradients[i], graph_.find_weight(flats[i].parameters)));

  const bool together = options_.loss_scale.enabled() || options_.clip_norm > 0;
  if (together) {
    for (Value*& gradient : gradients) gradient = b_.cast(gradient, compute_dtype(gradient->type.dtype));
    unscale(gradients);
    for (Value*& gradient : gradients) gradient = clip_value(gradient);
    clip_norm(gradients);
  }
  Value* step = nullptr;
  if (counts_steps(options_)) {
    step = b_.binary(Op::add_, read("optimizer.step"), 1.0);
    set_if_finite("optimizer.step", step);
  }
  placer.move(end, *std::min_element(places.begin(), places.end()));

  for (size_t i = 0; i < flats.size(); ++i) {
    const FlatParameters& flat = flats[i];
    const size_t first = graph_.body.nodes.size();
    b_.set_loc(flat.flat ? Location{graph_.file, "optimizer", "update"} : update_location(gradients[i]));
    update(flat, together ? gradients[i] : clip_value(b_.cast(gradients[i], flat.wide)), lr, step);
    placer.move(first, places[i]);
  }
  placer.finish();
}

void StateWriter::advance_draw() {
  if (state_.layout.find("optimizer.draw") == nullptr) return;
  b_.set_loc({graph_.file, "seed", "update"});
  // Begins anew where f32 has no next integer, after 16 million draws.
  Value* next = b_.binary(Op::add_, read("optimizer.draw"), 1.0);
  set("optimizer.draw", b_.select(b_.binary(Op::ge_, next, 16777216.0), b_.full(DType::f32, {}, 0), next));
}

}  // namespace tcc::autograd
