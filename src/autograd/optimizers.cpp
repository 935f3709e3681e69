// Optimizers as graph ops. With g the gradient (clipped, plus weight_decay * p except in adamw) and t the number of the step, from 1:
//   sgd       b = momentum * b + g;  p -= lr * (nesterov ? g + momentum * b : b)
//   adam      m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;  p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
//   adamw     the same after p *= 1 - lr * weight_decay
//   adagrad   s += g^2;  p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + epsilon)
// 1 - beta^t is -expm1(t * log(beta)): exact to the last place where the difference would cancel.

#include "tcc/autograd/optimizer.h"

#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "autograd/option_text.h"
#include "prims/rules_common.h"
#include "tcc/graph/builder.h"
#include "tcc/graph/passes.h"

namespace tcc {
namespace {

using Kind = OptimizerOptions::Kind;

/// A parameter and its gradient, in the dtype in which it is updated.
struct Parameter {
  std::string name;
  Value* weight;   ///< what the model reads
  Value* current;  ///< the value to update: the weight, or its f32 master
  Value* gradient;
  Location loc;
};

class StepBuilder {
 public:
  StepBuilder(Graph& graph, const OptimizerOptions& options)
      : graph_(graph), options_(options), b_(graph, graph.body, {graph.file, "optimizer", "update"}) {}

  void build(std::vector<Parameter> parameters) {
    lr_ = graph_.add_input("lr", Type(DType::f32, {}));
    if (options_.kind != Kind::sgd) {
      Value* before = state("optimizer.step", DType::f32, {}, 0);
      step_ = b_.binary(Op::add_, before, 1.0);
      graph_.state_updates.push_back({before->weight, step_});
    }
    clip(parameters);
    for (Parameter& p : parameters) update(p);
  }

 private:
  Value* state(const std::string& name, DType dtype, const Shape& shape, double value) {
    Tensor tensor(dtype, shape);
    if (value != 0) {
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, value);
    }
    return graph_.add_weight(name, tensor);
  }
  Value* scale(Value* x, double factor) { return factor == 1 ? x : b_.binary(Op::mul_, x, factor); }
  /// A rank-0 f32 scalar in a tensor's dtype.
  Value* as(Value* scalar, const Value* like) { return b_.cast(scalar, like->type.dtype); }
  Value* one_minus_power(double beta) { return b_.unary(Op::neg_, b_.unary(Op::expm1_, scale(step_, std::log(beta)))); }

  /// As torch.nn.utils.clip_grad_value_, then clip_grad_norm_.
  void clip(std::vector<Parameter>& parameters) {
    if (options_.clip_value > 0) {
      for (Parameter& p : parameters) {
        b_.set_loc(p.loc);
        p.gradient = b_.emit(Op::clamp_,
                             {p.gradient, b_.full_like(p.gradient, -options_.clip_value), b_.full_like(p.gradient, options_.clip_value)});
      }
    }
    if (options_.clip_norm <= 0 || parameters.empty()) return;
    Value* sum = nullptr;
    for (Parameter& p : parameters) {
      b_.set_loc(p.loc);
      Value* squares = b_.reduce(Op::reduce_sum_, b_.mul(p.gradient, p.gradient), prims::axes_from(0, p.gradient->type.rank()));
      squares = b_.cast(squares, DType::f32);
      sum = sum == nullptr ? squares : b_.add(sum, squares);
    }
    b_.set_loc({graph_.file, "optimizer", "update"});
    Value* norm = b_.binary(Op::add_, b_.unary(Op::sqrt_, sum), 1e-6);
    Value* factor = b_.binary(Op::min_, b_.div(b_.full(DType::f32, {}, options_.clip_norm), norm), 1.0);
    for (Parameter& p : parameters) {
      b_.set_loc(p.loc);
      p.gradient = b_.mul(p.gradient, as(factor, p.gradient));
    }
  }

  /// The state tensor of a parameter, with its new value.
  Value* slot(const Parameter& p, const char* name, double initial = 0) {
    return state("optimizer." + std::string(name) + "." + p.name, p.current->type.dtype, p.current->type.shape(), initial);
  }
  void set(Value* slot, Value* value) { graph_.state_updates.push_back({slot->weight, value}); }
  /// decay * old + share * added
  Value* blend(double decay, Value* old, double share, Value* added) { return b_.add(scale(old, decay), scale(added, share)); }

  void update(const Parameter& p) {
    b_.set_loc(p.loc);
    Value* now = p.current;
    Value* g = p.gradient;
    Value* lr = as(lr_, now);
    if (options_.weight_decay != 0) {
      if (options_.kind == Kind::adamw) now = b_.mul(now, b_.binary(Op::add_, scale(lr, -options_.weight_decay), 1.0));
      else g = b_.add(g, scale(now, options_.weight_decay));
    }
    Value* next = nullptr;
    switch (options_.kind) {
      case Kind::sgd: {
        Value* direction = g;
        if (options_.momentum != 0) {
          Value* buffer = slot(p, "momentum_buffer");
          Value* velocity = blend(options_.momentum, buffer, 1, g);
          set(buffer, velocity);
          direction = options_.nesterov ? blend(1, g, options_.momentum, velocity) : velocity;
        }
        next = b_.sub(now, b_.mul(direction, lr));
        break;
      }
      case Kind::adam:
      case Kind::adamw: {
        Value *mean = slot(p, "exp_avg"), *square = slot(p, "exp_avg_sq");
        Value* m = blend(options_.beta1, mean, 1 - options_.beta1, g);
        Value* v = blend(options_.beta2, square, 1 - options_.beta2, b_.mul(g, g));
        set(mean, m);
        set(square, v);
        Value* rate = as(b_.div(lr_, one_minus_power(options_.beta1)), now);
        Value* correction = as(b_.unary(Op::rsqrt_, one_minus_power(options_.beta2)), now);
        Value* width = b_.binary(Op::add_, b_.mul(b_.unary(Op::sqrt_, v), correction), options_.epsilon);
        next = b_.sub(now, b_.mul(b_.div(m, width), rate));
        break;
      }
      case Kind::adagrad: {
        Value* sum = slot(p, "sum", options_.initial_accumulator_value);
        Value* s = b_.add(sum, b_.mul(g, g));
        set(sum, s);
        Value* slowed = lr_;
        if (options_.lr_decay != 0)
          slowed = b_.div(lr_, b_.binary(Op::add_, scale(b_.binary(Op::add_, step_, -1.0), options_.lr_decay), 1.0));
        next = b_.sub(now, b_.div(b_.mul(g, as(slowed, now)), b_.binary(Op::add_, b_.unary(Op::sqrt_, s), options_.epsilon)));
        break;
      }
    }
    if (p.current != p.weight) set(p.current, next);
    set(p.weight, b_.cast(next, p.weight->type.dtype));
  }

  Graph& graph_;
  const OptimizerOptions& options_;
  Builder b_;
  Value* lr_ = nullptr;
  Value* step_ = nullptr;
};

}  // namespace

std::unique_ptr<Graph> build_step(const Graph& joint, const OptimizerOptions& options, bool keep_gradients) {
  std::unique_ptr<Graph> graph = joint.clone();
  std::vector<Parameter> parameters;
  std::vector<Value*> outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph->body.results.size(); ++i) {
    Value* value = graph->body.results[i];
    const std::string& name = graph->output_names[i];
    Value* weight = name.rfind("grad.", 0) == 0 ? graph->find_weight(name.substr(5)) : nullptr;
    if (weight == nullptr || keep_gradients) {
      outputs.push_back(value);
      names.push_back(name);
    }
    if (weight == nullptr) continue;
    Location loc = value->producer == nullptr ? Location{graph->file, weight->name, ""} : value->producer->loc;
    loc.phase = "update";
    parameters.push_back({weight->name, weight, weight, value, loc});
  }
  if (parameters.empty()) throw Error(ExitCode::usage, "invalid-argument", "", "--mode=train: no parameter trains");
  graph->body.results = std::move(outputs);
  graph->output_names = std::move(names);
  for (Parameter& p : parameters) {
    const DType dtype = p.weight->type.dtype, wide = compute_dtype(dtype);
    if (dtype == wide) continue;
    p.current = graph->add_weight("optimizer.master." + p.name, p.weight->weight->tensor.cast_to(wide));
    Builder builder(*graph, graph->body, p.loc);
    p.gradient = builder.cast(p.gradient, wide);
  }
  StepBuilder(*graph, options).build(std::move(parameters));
  eliminate_common_subexpressions(*graph);
  eliminate_dead_code(*graph);
  return graph;
}

OptimizerOptions parse_optimizer(std::string_view text) {
  const autograd::OptionText parsed("optimizer", text);
  OptimizerOptions options;
  if (parsed.name() == "sgd") options.kind = Kind::sgd;
  else if (parsed.name() == "adam") options.kind = Kind::adam;
  else if (parsed.name() == "adamw") options.kind = Kind::adamw;
  else if (parsed.name() == "adagrad") options.kind = Kind::adagrad;
  else parsed.refuse("known are sgd, adam, adamw and adagrad");
  const bool sgd = options.kind == Kind::sgd, adagrad = options.kind == Kind::adagrad, adam = !sgd && !adagrad;
  if (options.kind == Kind::adamw) options.weight_decay = 1e-2;
  if (adagrad) {
    options.lr = 1e-2;
    options.epsilon = 1e-10;
  }
  for (const auto& [key, value] : parsed.items()) {
    if (key == "lr") options.lr = parsed.number(value);
    else if (key == "weight_decay") options.weight_decay = parsed.number(value);
    else if (key == "momentum" && sgd) options.momentum = parsed.number(value);
    else if (key == "nesterov" && sgd) options.nesterov = parsed.truth(value);
    else if (key == "beta1" && adam) options.beta1 = parsed.number(value);
    else if (key == "beta2" && adam) options.beta2 = parsed.number(value);
    else if (key == "eps" && !sgd) options.epsilon = parsed.number(value);
    else if (key == "lr_decay" && adagrad) options.lr_decay = parsed.number(value);
    else if (key == "initial_accumulator_value" && adagrad) options.initial_accumulator_value = parsed.number(value);
    else {
      const char* own = sgd ? "momentum, nesterov" : adam ? "beta1, beta2, eps" : "eps, lr_decay, initial_accumulator_value";
      parsed.refuse("`" + std::string(key) + "` is no option of it, known are lr, weight_decay, " + own);
    }
  }
  for (double beta : {options.beta1, options.beta2}) {
    if (beta < 0 || beta >= 1) parsed.refuse("a beta is " + std::to_string(beta) + ", at least 0 and below 1 is needed");
  }
  if (options.nesterov && options.momentum <= 0) parsed.refuse("nesterov needs a momentum");
  return options;
}

void train_batch_norms(Graph& graph, double momentum) {
  std::vector<Node*> nodes;
  nodes.swap(graph.body.nodes);
  std::unordered_map<Value*, Value*> replaced;
  std::unordered_set<const Value*> updated;
  for (Node* node : nodes) {
    if (node->op != Op::batch_norm_) {
      graph.body.nodes.push_back(node);
      continue;
    }
    Builder b(graph, graph.body, node->loc);
    b.set_name_hint(node->result()->name);
    Node* trained =
        b.emit_node(Op::batch_norm_train_, node->operands, {{"epsilon", node->attrs.get_float("epsilon")}, {"momentum", 1 - momentum}});
    std::swap(trained->result()->name, node->result()->name);
    replaced[node->result()] = trained->result();
    // The statistics as the decomposition computes them; only the variance that is remembered is unbiased.
    Location loc = node->loc;
    loc.phase = "update";
    b.set_loc(loc);
    Value* x = prims::widen(b, node->operand(0));
    const std::vector<int64_t> axes = prims::other_axes(x->type.rank(), {1});
    const double n = static_cast<double>(prims::extent_over(x, axes));
    Value* mean = prims::mean(b, x, axes);
    Value* centered = b.sub(x, prims::spread(b, mean, x->type.shape(), axes));
    Value* variance = b.binary(Op::mul_, prims::mean(b, b.mul(centered, centered), axes), n / std::max(n - 1, 1.0));
    auto remember = [&](Value* old, Value* now) {
      if (old->kind != Value::Kind::weight || !updated.insert(old).second) return;
      Value* kept = b.binary(Op::mul_, b.cast(old, now->type.dtype), 1 - momentum);
      graph.state_updates.push_back({old->weight, b.cast(b.add(kept, b.binary(Op::mul_, now, momentum)), old->type.dtype)});
    };
    remember(node->operand(3), mean);
    remember(node->operand(4), variance);
  }
  replace_values(graph, replaced);
}

}  // namespace tcc
