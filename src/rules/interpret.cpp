// The interpreter: every node evaluated in order. It defines what a graph means and is the oracle of tests and of `tcc verify`, so it takes no shortcut;
// a value is let go after its last reader, which is all that whole models need.

#include <algorithm>
#include <cmath>
#include <limits>

#include "rules/rounding.h"
#include "tcc/graph/graph.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/evaluate.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/reference.h"
#include "tcc/rules/rules.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"
#include "tcc/support/random.h"

namespace tcc {
namespace {

enum class Arithmetic { own, f64, reference };

/// f64 with the range of f32: infinities beyond it, and below the smallest normal number what f32 has there.
Tensor in_range_of_f32(const Tensor& tensor) {
  constexpr double kLargest = std::numeric_limits<float>::max(), kSmallest = std::numeric_limits<float>::min();
  constexpr int64_t kGrain = 8192;
  Tensor result(DType::f64, tensor.shape());
  const double* from = tensor.data<double>();
  double* to = result.mutable_data<double>();
  parallel_for(tensor.count(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double magnitude = std::abs(from[i]);
      to[i] = magnitude >= kSmallest && magnitude <= kLargest ? from[i] : static_cast<double>(static_cast<float>(from[i]));
    }
  });
  return result;
}

/// Each element off by up to a unit in the last place that `dtype` has.
Tensor with_noise(const Tensor& tensor, DType dtype, const RandomStream& random) {
  constexpr int64_t kGrain = 1024;
  const double unit = std::ldexp(1.0, -digits_of(dtype));
  Tensor result(DType::f64, tensor.shape());
  const double* from = tensor.data<double>();
  double* to = result.mutable_data<double>();
  parallel_for(tensor.count(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = from[i] * (1 + unit * (2 * static_cast<double>(random.uniform(static_cast<uint64_t>(i))) - 1));
  });
  return result;
}

/// What a value of `type` keeps of a result in f64; see reference.h.
Tensor kept_by(const Node& node, const Type& type, const Tensor& result) {
  if (!is_float(type.dtype) || type.dtype == DType::f64) return result;
  const bool rounds = size_bits(type.dtype) < 32 || node.op == Op::cast_ || info(node.op).lowering == Lowering::create;
  return rounds ? result.cast_to(type.dtype).cast_to(DType::f64) : in_range_of_f32(result);
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, Arithmetic arithmetic)
      : f64_(arithmetic != Arithmetic::own),
        rounds_(arithmetic == Arithmetic::reference),
        values_(static_cast<size_t>(graph.num_values())),
        remaining_(count_uses(graph)) {}

  /// Of the reference: for values that went through a rounding.
  void add_noise(uint64_t seed, std::vector<std::optional<DType>> roundings) {
    noise_ = seed;
    roundings_ = std::move(roundings);
  }
  void set(const Value& value, Tensor tensor) { values_[static_cast<size_t>(value.id)] = std::move(tensor); }
  /// Keeps a value beyond its readers in the graph.
  void keep(const Value& value) { ++remaining_[static_cast<size_t>(value.id)]; }

  Tensor get(const Value& value) {
    Tensor& tensor = values_[static_cast<size_t>(value.id)];
    if (!tensor.defined() && value.kind == Value::Kind::weight) {
      tensor = value.weight->tensor;
      if (f64_ && is_float(tensor.dtype())) tensor = tensor.cast_to(DType::f64);
    }
    check(tensor.defined(), "a value is read before it is computed");
    return tensor;
  }

  void run(const Region& region, const std::function<void(const Value&, const Tensor&)>& observe) {
    for (const Node* node : region.nodes) {
      std::vector<Tensor> operands;
      operands.reserve(node->operands.size());
      for (const Value* operand : node->operands) operands.push_back(operand == nullptr ? Tensor() : get(*operand));
      for (const Value* operand : node->operands) {
        if (operand != nullptr && --remaining_[static_cast<size_t>(operand->id)] == 0) set(*operand, Tensor());
      }
      std::vector<Tensor> results = evaluate(*node, operands);
      check(results.size() == node->results.size(), "an evaluator gave another number of results than its node has");
      for (size_t i = 0; i < results.size(); ++i) {
        const Value& value = *node->results[i];
        check(results[i].shape() == value.type.shape(), "an evaluator gave another shape than its node has");
        if (observe) observe(value, results[i]);
        if (remaining_[static_cast<size_t>(value.id)] > 0) set(value, std::move(results[i]));
      }
    }
  }

 private:
  std::vector<Tensor> evaluate(const Node& node, std::span<const Tensor> operands) const {
    if (!rounds_) return evaluate_node(node, operands, f64_);
    // An integer is rounded once, not to f64 before.
    const bool from_integer = node.op == Op::cast_ && !is_float(operands[0].dtype()) && is_float(node.result()->type.dtype);
    if (from_integer) return {operands[0].cast_to(node.result()->type.dtype).cast_to(DType::f64)};
    std::vector<Tensor> results = evaluate_node(node, operands, true);
    for (size_t i = 0; i < results.size() && i < node.results.size(); ++i) {
      const Value& value = *node.results[i];
      const bool moves = noise_ && is_float(value.type.dtype) && roundings_[static_cast<size_t>(value.id)] && !only_chooses(node);
      if (moves) results[i] = with_noise(results[i], value.type.dtype, {.seed = *noise_, .stream = static_cast<uint64_t>(value.id)});
      results[i] = kept_by(node, value.type, results[i]);
    }
    return results;
  }

  bool f64_, rounds_;
  std::optional<uint64_t> noise_;
  std::vector<std::optional<DType>> roundings_;  // by value id; with noise
  std::vector<Tensor> values_;                   // by id; undefined: not computed yet, or let go
  std::vector<int> remaining_;                   // readers that have not run yet
};

void check_input(const Value& input, const Tensor& tensor, bool f64) {
  const bool dtype_matches = tensor.dtype() == input.type.dtype || (f64 && is_float(input.type.dtype) && tensor.dtype() == DType::f64);
  if (dtype_matches && tensor.shape() == input.type.shape()) return;
  throw Error(ExitCode::usage, "type-error", input.name,
              "the input is " + to_string(Type(tensor.dtype(), tensor.shape())) + ", expected " + to_string(input.type));
}

}  // namespace

bool broadcasts_implicitly(const Node& node) {
  if (info(node.op).lowering != Lowering::pointwise) return false;
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [&](const Value* operand) { return operand->type.dims != node.result()->type.dims; });
}

std::vector<Tensor> evaluate_prim(const Node& node, std::span<const Tensor> operands, bool f64) {
  const EvalRule rule = eval_rule(node.op);
  check(rule != nullptr, "only prims have evaluators");
  return rule({node, operands, f64});
}

namespace {

/// A node in a graph of its own: a composite decomposed once, a prim with its operands broadcast.
struct Expansion {
  Graph graph{"node"};
  std::vector<Value*> inputs, results;  ///< an input is null where the operand is absent

  explicit Expansion(const Node& node) {
    if (info(node.op).kind == OpKind::dynamic) internal_error("`" + std::string(name_of(node.op)) + "` is evaluated before it is resolved");
    for (const Value* operand : node.operands) inputs.push_back(operand == nullptr ? nullptr : graph.add_input("x", operand->type));
    Builder builder(graph, graph.body, node.loc);
    if (broadcasts_implicitly(node)) {
      results = builder.emit_node(node.op, builder.broadcast_together(inputs), node.attrs)->results;
      return;
    }
    std::vector<Type> types;
    for (const Value* result : node.results) types.push_back(result->type);
    const Node* copy = graph.make_node(node.op, inputs, node.attrs, std::move(types), node.loc);
    results = decompose_node(builder, *copy);
  }

  std::vector<Tensor> evaluate(std::span<const Tensor> operands, bool f64) const {
    Interpreter interpreter(graph, f64 ? Arithmetic::f64 : Arithmetic::own);
    for (const Value* result : results) interpreter.keep(*result);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != nullptr) interpreter.set(*inputs[i], operands[i]);
    }
    interpreter.run(graph.body, nullptr);
    std::vector<Tensor> tensors;
    for (const Value* result : results) tensors.push_back(interpreter.get(*result));
    return tensors;
  }
};

bool is_plain_prim(const Node& node) { return info(node.op).kind == OpKind::prim && !broadcasts_implicitly(node); }

bool is_cheap(const Node& node) {
  std::vector<const Type*> operands;
  for (const Value* operand : node.operands) operands.push_back(operand == nullptr ? nullptr : &operand->type);
  std::vector<Type> results;
  for (const Value* result : node.results) results.push_back(result->type);
  // A product is computed in blocks, many elements at once.
  const int64_t work = work_of(node.op, operands, node.attrs, results) / (node.op == Op::dot_general_ ? 64 : 1);
  int64_t bytes = 0;
  for (const Type& result : results) bytes += result.size_bytes();
  if (work > kMaxFoldedWork || bytes > kMaxFoldedBytes) return false;
  if (is_plain_prim(node)) return true;
  const Expansion expansion(node);
  return std::all_of(expansion.graph.body.nodes.begin(), expansion.graph.body.nodes.end(),
                     [](const Node* inner) { return is_cheap(*inner); });
}

}  // namespace

std::vector<Tensor> evaluate_node(const Node& node, std::span<const Tensor> operands, bool f64) {
  return is_plain_prim(node) ? evaluate_prim(node, operands, f64) : Expansion(node).evaluate(operands, f64);
}

std::optional<std::vector<Tensor>> evaluate_cheap_node(const Node& node, std::span<const Tensor> operands) {
  if (!is_cheap(node)) return std::nullopt;
  return evaluate_node(node, operands, false);
}

namespace {

std::vector<Tensor> interpret_in(Arithmetic arithmetic, const Graph& graph, std::span<const Tensor> inputs,
                                 const std::function<void(const Value&, const Tensor&)>& observe, std::optional<uint64_t> noise) {
  const bool f64 = arithmetic != Arithmetic::own;
  if (inputs.size() != graph.body.args.size()) {
    throw Error(ExitCode::usage, "type-error", graph.file,
                "found " + std::to_string(inputs.size()) + " inputs, expected " + std::to_string(graph.body.args.size()));
  }
  Interpreter interpreter(graph, arithmetic);
  if (noise) interpreter.add_noise(*noise, rounding_of_values(graph));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& input = *graph.body.args[i];
    check_input(input, inputs[i], f64);
    interpreter.set(input, f64 && is_float(inputs[i].dtype()) ? inputs[i].cast_to(DType::f64) : inputs[i]);
  }
  interpreter.run(graph.body, observe);
  std::vector<Tensor> outputs;
  for (const Value* result : graph.body.results) outputs.push_back(interpreter.get(*result));
  return outputs;
}

}  // namespace

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, bool f64,
                              const std::function<void(const Value&, const Tensor&)>& observe) {
  return interpret_in(f64 ? Arithmetic::f64 : Arithmetic::own, graph, inputs, observe, std::nullopt);
}

std::vector<Tensor> interpret_reference(const Graph& prims, std::span<const Tensor> inputs, std::optional<uint64_t> noise) {
  return interpret_in(Arithmetic::reference, prims, inputs, nullptr, noise);
}

}  // namespace tcc
