// resolve: gives every value a static type and replaces the ops whose sizes, axes or starts are operands.
//   in:   a graph whose inputs have constant extents        out: static types, no op of kind `dynamic`; the same values
//     %s: i64[1] = shape_of(%x) {start=0, end=1}
//     %t: i64[2] = concat(%s, @minus_one) {axis=0}
//     %y: f32[*] = dynamic_reshape(%x, %t) {allowzero=false}
//   becomes, for %x: f32[2, 3, 4],
//     %y: f32[2, 12] = reshape(%x) {shape=[2, 12]}
// One sweep, in order: when a node is reached, the types and the known values of its operands are final. A node whose operands are all known is
// evaluated when it is shape-like (small); it then leaves the graph, and comes back as a constant only where a node that stays reads it. What is
// computed from float parameters of the model is known to the rules but stays a node, because training changes parameters.
// Large constants are not computed here: that is fold-constants' decision.

#include "passes/resolve.h"

#include <algorithm>
#include <set>
#include <string>

#include "passes/check_indices.h"
#include "passes/known_values.h"
#include "tcc/graph/location.h"
#include "tcc/graph/rule_error.h"
#include "tcc/passes/passes.h"
#include "tcc/passes/resolve_sweep.h"
#include "tcc/rules/evaluate.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

const Tensor* ResolveContext::want(const Node& node, int operand, std::string_view name) {
  const Value* value = node.operand(operand);
  check(value != nullptr, "a resolve rule asks for an absent operand");
  const Tensor* tensor = known(value);
  if (tensor == nullptr) {
    missing = value;
    missing_role = name;
  }
  return tensor;
}

std::optional<std::vector<int64_t>> ResolveContext::ints(const Node& node, int operand, std::string_view name) {
  const Tensor* tensor = want(node, operand, name);
  if (tensor == nullptr) return std::nullopt;
  std::vector<int64_t> values(static_cast<size_t>(tensor->count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor->as_int64(static_cast<int64_t>(i));
  return values;
}

std::optional<std::vector<double>> ResolveContext::floats(const Node& node, int operand, std::string_view name) {
  const Tensor* tensor = want(node, operand, name);
  if (tensor == nullptr) return std::nullopt;
  std::vector<double> values(static_cast<size_t>(tensor->count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor->as_double(static_cast<int64_t>(i));
  return values;
}

std::optional<int64_t> ResolveContext::scalar(const Node& node, int operand, std::string_view name) {
  const auto values = ints(node, operand, name);
  if (!values) return std::nullopt;
  if (values->size() != 1)
    type_error("`" + std::string(name) + "` is " + to_string(node.operand(operand)->type) + ", expected one element");
  return (*values)[0];
}

const std::vector<Value*>* ResolveContext::find_sequence(const Value* value) const {
  const auto found = sequences_.find(value->id);
  return found == sequences_.end() ? nullptr : &found->second;
}

namespace {

constexpr ResolveRule kRules[] = {
#define TCC_POINTWISE(...) nullptr,
#define TCC_PRIM(...) nullptr,
#define TCC_COMPOSITE(...) nullptr,
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) resolve_rule,
#include "tcc/ops/ops.def"
};

}  // namespace

ResolveRule resolve_rule(Op op) { return kRules[static_cast<size_t>(op)]; }

namespace {

constexpr int64_t kMaxElements = 64 * 1024;  // of integers and bools: indices, masks, sizes
constexpr int64_t kMaxFloats = 1024;         // of floats: scales and the arithmetic from which sizes are rounded

class Resolver final : public ResolveContext {
 public:
  /// Without diagnostics faults are not said.
  Resolver(Graph& graph, Diagnostics* diagnostics, const GradientRule& gradient)
      : ResolveContext(builder_, gradient), graph_(graph), diagnostics_(diagnostics), builder_(graph, emitted_, {}), known_(graph, kept_) {}

  void run() {
    const std::vector<Node*> nodes = std::move(graph_.body.nodes);
    states_.reserve(static_cast<size_t>(graph_.num_values()) * 2);
    for (Node* node : nodes) append(*node);
    for (Value*& output : graph_.body.results) output = final_value(output);
    for (StateUpdate& update : graph_.state_updates) update.value = final_value(update.value);
    graph_.body.nodes = std::move(kept_);
  }

  void append(Node& node) {
    bool faulty = false;
    for (Value*& operand : node.operands) {
      if (operand == nullptr) continue;
      if (Value* replacement = state(operand).replacement) operand = replacement;
      faulty = faulty || state(operand).faulty;
    }
    if (!faulty) faulty = !resolve_node(node);
    if (!faulty) return;
    for (Value* result : node.results) set_faulty(result);
  }

  void set_faulty(const Value* value) { state(value).faulty = true; }

  const Tensor* known(const Value* value) override { return known_.find(value); }

  /// As ResolveSweep::known().
  std::optional<Tensor> known_result(const Value* value) {
    if (const Value* replacement = state(value).replacement) value = replacement;
    if (state(value).faulty || state(value).parameter) return std::nullopt;
    if (const Tensor* tensor = known(value)) return *tensor;
    const Node* producer = value->producer;
    if (producer == nullptr || !producer->operands.empty() || info(producer->op).lowering != Lowering::create) return std::nullopt;
    return evaluate_prim(*producer, {}, false).at(0);
  }

  /// As ResolveSweep::type().
  std::optional<Type> resolved_type(const Value* value) {
    if (const Value* replacement = state(value).replacement) value = replacement;
    return state(value).faulty || !value->type.is_static() ? std::nullopt : std::optional(value->type);
  }

  Value* constant(Tensor tensor) override {
    Value* value = graph_.make_value(Value::Kind::result, Type(tensor.dtype(), tensor.shape()), "const");
    known_.set(value, std::move(tensor), true);
    return value;
  }

 private:
  struct State {
    Value* replacement = nullptr;  // what stands for the value from here on
    bool parameter = false;        // computed from float parameters of the model
    bool faulty = false;           // reported already; what reads it is passed over
  };

  State& state(const Value* value) {
    if (static_cast<size_t>(value->id) >= states_.size()) states_.resize(static_cast<size_t>(graph_.num_values()));
    return states_[static_cast<size_t>(value->id)];
  }

  bool from_parameter(const Value* value) {
    if (value->kind == Value::Kind::weight) return value->weight->from_model && is_float(value->type.dtype) && value->type.rank() > 0;
    return state(value).parameter;
  }

  /// What a model leaves to the rank: axes counted from the end, and a transpose without a permutation, which reverses.
  void apply_rank(Node& node) {
    if (node.op == Op::transpose_ && node.attrs.get_ints("permutation").empty()) {
      std::vector<int64_t> reversed;
      for (int64_t axis = node.operand(0)->type.rank(); axis-- > 0;) reversed.push_back(axis);
      node.attrs.set("permutation", std::move(reversed));
    }
    const AttrValue* axis = node.attrs.find("axis");
    const Value* x = node.operand(0);
    if (axis == nullptr || x == nullptr || !x->type.ranked || node.op == Op::dynamic_one_hot_ || node.op == Op::one_hot_)
      return;  // theirs is of the result
    if (const int64_t value = std::get<int64_t>(*axis); value < 0 && value >= -x->type.rank())
      node.attrs.set("axis", value + x->type.rank());
  }

  bool resolve_node(Node& node) {
    try {
      apply_rank(node);
      if (const ResolveRule rule = resolve_rule(node.op)) return replace(node, rule);
      check_operands(node);
      std::vector<Type> types = infer_node_types(node);
      for (size_t i = 0; i < types.size(); ++i) node.results[i]->type = std::move(types[i]);
      place(node);
      return true;
    } catch (const RuleError& error) {
      if (diagnostics_ != nullptr) report(*diagnostics_, graph_, node, error);
    }
    return false;
  }

  // A sequence is a value for the sequence ops only.
  void check_operands(const Node& node) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] != nullptr && !node.operands[i]->type.is_static()) {
        type_error("operand " + std::to_string(i) + " of `" + std::string(name_of(node.op)) + "` is a sequence, expected a tensor");
      }
    }
  }

  bool replace(Node& node, ResolveRule rule) {
    if (node.op != Op::sequence_at_) check_operands(node);
    if (const int operands = static_cast<int>(node.operands.size()); operands < info(node.op).min_operands) {
      type_error("`" + std::string(name_of(node.op)) + "` has " + std::to_string(operands) + " operands, expected " +
                 std::to_string(info(node.op).min_operands));
    }
    const int first_new = graph_.num_values();
    builder_.set_loc(node.loc);
    emitted_.nodes.clear();
    const auto results = rule(*this, node);
    if (!results) {
      if (diagnostics_ != nullptr) report_missing(node);
      return false;
    }
    check(results->size() == node.results.size(), "a resolve rule gave another number of results than its node has");
    for (size_t i = 0; i < results->size(); ++i) {
      Value* result = (*results)[i];
      if (result == node.results[i]) continue;  // a sequence
      state(node.results[i]).replacement = result;
      // The model's own name goes to the value that stands for it.
      if (result->id >= first_new && result->kind != Value::Kind::weight) std::swap(result->name, node.results[i]->name);
    }
    for (Node* emitted : emitted_.nodes) place(*emitted);
    return true;
  }

  /// The node has static types. Evaluates it if it is shape-like, keeps it otherwise.
  void place(Node& node) {
    check_indices(node, [&](const Value* value) { return known(value); });
    bool parameter = false, all_known = true;
    int64_t largest = 0;
    for (const Value* operand : node.operands) {
      if (operand == nullptr) continue;
      parameter = parameter || from_parameter(operand);
      all_known = all_known && known(operand) != nullptr;
      largest = std::max(largest, operand->type.count());
    }
    for (const Value* result : node.results) {
      state(result).parameter = parameter;
      largest = std::max(largest, is_float(result->type.dtype) ? result->type.count() * (kMaxElements / kMaxFloats) : result->type.count());
    }
    if (all_known && largest <= kMaxElements) {
      std::vector<Tensor> operands;
      for (const Value* operand : node.operands) operands.push_back(operand == nullptr ? Tensor() : *known(operand));
      if (std::optional<std::vector<Tensor>> results = evaluate_cheap_node(node, operands)) {
        // `full` and `iota` cost nothing where they stand and say more than their elements.
        const bool absent = !parameter && info(node.op).lowering != Lowering::create;
        for (size_t i = 0; i < results->size(); ++i) known_.set(node.results[i], std::move((*results)[i]), absent);
        if (absent) return;
      }
    }
    if (const Tensor* same = largest <= kMaxElements ? only_choice(node) : nullptr) known_.set(node.result(), *same, false);
    for (Value*& operand : node.operands) {
      if (operand != nullptr) operand = known_.present(operand);
    }
    kept_.push_back(&node);
  }

  /// What a select returns whatever its condition is: its operands hold the same, as where a gate keeps gradients from one of them. Null elsewhere.
  const Tensor* only_choice(const Node& node) const {
    if (node.op != Op::select_) return nullptr;
    const Tensor *a = known_.find(node.operand(1)), *b = known_.find(node.operand(2));
    const bool same = a != nullptr && b != nullptr && a->shape() == node.result()->type.shape() && a->same_bytes(*b);
    return same ? a : nullptr;
  }

  Value* final_value(Value* value) {
    if (Value* replacement = state(value).replacement) value = replacement;
    return state(value).faulty ? value : known_.present(value);
  }

  void report_missing(const Node& node) {
    const std::string where = where_of(graph_, node);
    const bool is_input = missing->kind == Value::Kind::input;
    diagnostics_->error("unknown-value", where,
                        "`" + missing_role + "` is %" + missing->name + ", " + (is_input ? "an input" : "which is computed from inputs") +
                            ", expected a value known at compile time",
                        print(node));
    const std::vector<std::string> inputs = inputs_behind(missing);
    std::string names;
    for (const std::string& name : inputs) names += (names.empty() ? "`" : ", `") + name + "`";
    if (!inputs.empty()) diagnostics_->help(where, "bind " + names + " to a constant with --bind=" + inputs[0] + "=<value or file>");
  }

  /// Names of the inputs from which a value is computed.
  std::vector<std::string> inputs_behind(const Value* value) {
    std::vector<std::string> names;
    std::vector<char> seen(static_cast<size_t>(graph_.num_values()), 0);
    std::vector<const Value*> stack = {value};
    while (!stack.empty()) {
      const Value* top = stack.back();
      stack.pop_back();
      if (top == nullptr || seen[static_cast<size_t>(top->id)]) continue;
      seen[static_cast<size_t>(top->id)] = 1;
      if (top->kind == Value::Kind::input) names.push_back(top->name);
      if (top->producer != nullptr) stack.insert(stack.end(), top->producer->operands.begin(), top->producer->operands.end());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Graph& graph_;
  Diagnostics* diagnostics_;
  Region emitted_;  // what a rule emitted for the node at hand
  Builder builder_;
  std::vector<Node*> kept_;    // the new body
  std::vector<State> states_;  // by value id
  KnownValues known_;
};

/// A plain name, as --bind takes it; an expression of others or an unnamed size is none.
bool is_size_name(const std::string& symbol) {
  return !symbol.empty() && symbol != "?" && symbol.find_first_of(" +-*/%(),") == std::string::npos;
}

/// One error that lists every size that is not bound.
bool report_unbound(const Graph& graph, Diagnostics& diagnostics) {
  std::string list, example, symbols;
  std::set<std::string> named;
  bool all_named = true;
  for (const Value* input : graph.body.args) {
    if (input->type.is_static()) continue;
    all_named &= input->type.ranked;
    for (const Dim& dim : input->type.dims) {
      if (dim.is_constant()) continue;
      all_named &= is_size_name(dim.symbol);
      // Of `2*n` the size `n` stands in another input, or can't be named alone.
      if (is_size_name(dim.symbol) && named.insert(dim.symbol).second)
        symbols += (symbols.empty() ? "" : ",") + dim.symbol + "=<" + dim.symbol + ">";
    }
    list += (list.empty() ? "`" : "; `") + input->name + "` ";
    example += (example.empty() ? "" : ",") + input->name + ":";
    if (!input->type.ranked) {
      list += "has no declared rank";
      example += "<d0>x<d1>...";
      continue;
    }
    bool first = true;
    for (size_t i = 0; i < input->type.dims.size(); ++i) {
      const Dim& dim = input->type.dims[i];
      const std::string name = dim.symbol.empty() || dim.symbol == "?" ? "d" + std::to_string(i) : dim.symbol;
      example += (i > 0 ? "x" : "") + (dim.is_constant() ? std::to_string(dim.bound) : "<" + name + ">");
      if (dim.is_constant()) continue;
      list += (first ? "axis " : ", axis ") + std::to_string(i) + (dim.symbol == "?" ? " has no name" : " is `" + dim.symbol + "`");
      first = false;
    }
  }
  if (list.empty()) return false;
  if (!all_named) symbols.clear();
  diagnostics.error("unbound-size", graph.file, "sizes of inputs are not bound: " + list);
  diagnostics.help(graph.file, "give the sizes with " + (symbols.empty() ? "" : "--bind " + symbols + " or ") + "--shapes=" + example);
  return true;
}

/// Inputs of sizes that nothing can hold; those of results are found where they are inferred.
bool report_too_large(const Graph& graph, Diagnostics& diagnostics) {
  bool any = false;
  for (const Value* input : graph.body.args) {
    try {
      check_size(input->type);
    } catch (const RuleError& error) {
      diagnostics.error(error.kind, graph.file.empty() ? input->name : graph.file + ":" + input->name, error.message);
      any = true;
    }
  }
  return any;
}

}  // namespace

std::optional<std::vector<Value*>> resolve_gradient(ResolveContext& context, const Node& node) {
  check(context.gradient() != nullptr, "a graph with `gradient` is resolved without a rule for it");
  return context.gradient()(context.builder(), node);
}

void resolve(Graph& graph, Diagnostics& diagnostics, const GradientRule& gradient) {
  if (report_unbound(graph, diagnostics) || report_too_large(graph, diagnostics)) return;
  Resolver(graph, &diagnostics, gradient).run();
}

class ResolveSweep::Impl {
 public:
  explicit Impl(Graph& graph) : resolver(graph, nullptr, with_types_alone) {}

  /// Only the types of a gradient are known before autograd.
  const GradientRule with_types_alone = [](Builder&, const Node& node) {
    const std::vector<Type> types = infer_node_types(node);
    for (size_t i = 0; i < types.size(); ++i) node.results[i]->type = types[i];
    return node.results;
  };
  Resolver resolver;
};

ResolveSweep::ResolveSweep(Graph& graph) : impl_(std::make_unique<Impl>(graph)) {}
ResolveSweep::~ResolveSweep() = default;
void ResolveSweep::append(Node& node) { impl_->resolver.append(node); }
void ResolveSweep::set_unknown(const Value* value) { impl_->resolver.set_faulty(value); }
std::optional<Tensor> ResolveSweep::known(const Value* value) { return impl_->resolver.known_result(value); }
std::optional<Type> ResolveSweep::type(const Value* value) { return impl_->resolver.resolved_type(value); }

}  // namespace tcc
