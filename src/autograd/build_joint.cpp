// The joint graph, in two sweeps over the nodes of the forward graph.
//   forward    which values vary with what is differentiated, and what the outputs depend on; composites on the way that have no rule of their own
//              become their decomposition
//   backward   every node whose results have a cotangent gives one to each operand that varies, by its rule; cotangents of one value add up
//              in the order in which they come
// So a cotangent that nothing needs is never built. At the end dead nodes go and equal ones merge: rules write what they need of the forward pass
// again, as the forward pass writes it.
//
// A node without a rule, or whose rule refuses, is reported, and its operands get zeros: the sweep goes on, and finds every other one.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/check_parameters.h"
#include "autograd/losses.h"
#include "autograd/statistics.h"
#include "autograd/vjp.h"
#include "tcc/autograd/autograd.h"
#include "tcc/graph/location.h"
#include "tcc/graph/rule_error.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/rules.h"

namespace tcc {
namespace {

using autograd::find_vjp;
using autograd::Vjp;
using autograd::VjpEntry;

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return glob_matches(pattern, name); });
}

std::vector<Value*> values_of_weights(const Graph& graph) {
  std::vector<Value*> values;
  for (const auto& weight : graph.weights()) values.push_back(graph.find_weight(weight->name));
  return values;
}

/// A glob that matches nothing is a mistake.
void check_globs(const char* flag, const std::vector<std::string>& patterns, const std::vector<Value*>& candidates) {
  for (const std::string& pattern : patterns) {
    if (std::any_of(candidates.begin(), candidates.end(), [&](const Value* value) { return glob_matches(pattern, value->name); })) continue;
    throw Error(
        ExitCode::usage, "unknown-input", "",
        std::string(flag) + "=" + pattern + " matches no float " + (std::string(flag) == "--wrt" ? "input or parameter" : "parameter"));
  }
}

class Differentiator {
 public:
  Differentiator(Graph& graph, Diagnostics& diagnostics) : graph_(graph), diagnostics_(diagnostics) {}

  /// The values that gradients are asked for.
  void choose(const GradOptions& options) {
    std::vector<Value*> parameters, inputs;
    for (Value* weight : values_of_weights(graph_)) {
      if (weight->weight->from_model && is_float(weight->type.dtype)) parameters.push_back(weight);
    }
    for (Value* input : graph_.body.args) {
      if (is_float(input->type.dtype)) inputs.push_back(input);
    }
    std::vector<Value*> both = inputs;
    both.insert(both.end(), parameters.begin(), parameters.end());
    check_globs("--wrt", options.wrt, both);
    check_globs("--train", options.train, parameters);
    check_globs("--freeze", options.freeze, parameters);
    if (!options.wrt.empty()) {
      for (Value* value : both) {
        if (any_matches(options.wrt, value->name)) targets_.push_back(value);
      }
      return;
    }
    const auto statistics = autograd::running_statistics(graph_);
    for (Value* value : parameters) {
      const bool usual = value->type.rank() > 0 && statistics.count(value) == 0 && !glob_matches("*inv_freq", value->name);
      const bool trains = options.train.empty() ? usual : any_matches(options.train, value->name);
      if (trains && !any_matches(options.freeze, value->name)) targets_.push_back(value);
    }
  }

  /// Rules read the named inputs in the place of the named results.
  void use_saved(const std::map<std::string, std::string>& saved) {
    if (saved.empty()) return;
    std::unordered_map<std::string, Value*> inputs;
    for (Value* input : graph_.body.args) inputs[input->name] = input;
    for (const Node* node : graph_.body.nodes) {
      for (const Value* result : node->results) {
        if (const auto found = saved.find(result->name); found != saved.end()) saved_[result] = inputs.at(found->second);
      }
    }
    check(saved_.size() == saved.size(), "a result that is saved is not in the graph");
  }

  const std::vector<Value*>& targets() const { return targets_; }

  void differentiate(const std::vector<std::pair<Value*, Value*>>& seeds) {
    grow();
    for (Value* target : targets_) varies_[id(target)] = 1;
    mark_useful(seeds);
    decompose_on_the_way();
    const std::vector<Node*> nodes = graph_.body.nodes;  // without the sums of cotangents, of a value that is returned twice
    for (const auto& [value, cotangent] : seeds) add_cotangent(now(value), cotangent, nullptr);
    for (size_t i = nodes.size(); i-- > 0;) apply_rule(*nodes[i]);
  }

  /// What an output of the forward graph is now.
  Value* now(Value* value) const {
    const auto found = replaced_.find(value);
    return found == replaced_.end() ? value : found->second;
  }

  /// Null: nothing that was differentiated depends on it.
  Value* cotangent(const Value* value) const { return id(value) < cotangents_.size() ? cotangents_[id(value)] : nullptr; }

  /// Reports the refused nodes, each with what depends on it.
  void report_faults() {
    if (faults_.empty()) return;
    const std::vector<Above> above = targets_above();
    for (const auto& [node, fault] : faults_) {
      Diagnostic diagnostic{Diagnostic::Severity::not_supported, fault.kind, where_of(graph_, *node), fault.message, print(*node)};
      diagnostics_.add(std::move(diagnostic));
      Above of_node;
      for (const Value* operand : node->operands) {
        if (operand != nullptr) of_node.add(above[id(operand)]);
      }
      std::string list;
      for (int i = 0; i < std::min(of_node.count, Above::kNamed); ++i)
        list += (i == 0 ? "`" : ", `") + targets_[static_cast<size_t>(of_node.targets[i])]->name + "`";
      if (of_node.count > Above::kNamed) list += " and others";
      diagnostics_.note(where_of(graph_, *node), (of_node.count == 1 ? "the gradient of " : "the gradients of ") + list +
                                                     (of_node.count == 1 ? " depends on it" : " depend on it"));
    }
  }

 private:
  static size_t id(const Value* value) { return static_cast<size_t>(value->id); }
  void grow() {
    const size_t size = static_cast<size_t>(graph_.num_values());
    varies_.resize(size, 0);
    cotangents_.resize(size, nullptr);
  }

  void mark_useful(const std::vector<std::pair<Value*, Value*>>& seeds) {
    std::vector<char> needed(static_cast<size_t>(graph_.num_values()), 0);
    for (const auto& [value, cotangent] : seeds) needed[id(value)] = 1;
    for (size_t i = graph_.body.nodes.size(); i-- > 0;) {
      const Node* node = graph_.body.nodes[i];
      if (std::none_of(node->results.begin(), node->results.end(), [&](const Value* result) { return needed[id(result)]; })) continue;
      useful_.insert(node);
      for (const Value* operand : node->operands) {
        if (operand != nullptr) needed[id(operand)] = 1;
      }
    }
  }

  bool any_varies(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](const Value* operand) { return operand != nullptr && varies_[id(operand)]; });
  }

  void decompose_on_the_way() {
    std::vector<Node*> nodes;
    nodes.swap(graph_.body.nodes);
    for (Node* node : nodes) place(*node, useful_.count(node) != 0);
    for (Value*& result : graph_.body.results) result = now(result);
    for (StateUpdate& update : graph_.state_updates) update.value = now(update.value);
  }

  void place(Node& node, bool useful) {
    for (Value*& operand : node.operands) {
      if (operand != nullptr) operand = now(operand);
    }
    const bool varies = any_varies(node);
    const Gradient kind = find_vjp(node).kind;
    if (varies && useful && kind == Gradient::decompose) return replace(node);
    graph_.body.nodes.push_back(&node);
    if (!varies || kind == Gradient::zero) return;
    for (const Value* result : node.results) varies_[id(result)] = is_float(result->type.dtype);
  }

  void replace(Node& node) {
    Region emitted;
    Builder builder(graph_, emitted, node.loc);
    builder.name_as_parts_of(node.result()->name);
    std::vector<Value*> results;
    try {
      results = decompose_node(builder, node);
    } catch (const RuleError& fault) {
      faults_.emplace_back(&node, fault);
      graph_.body.nodes.push_back(&node);
      return;
    }
    grow();
    const std::unordered_set<const Node*> fresh(emitted.nodes.begin(), emitted.nodes.end());
    for (size_t i = 0; i < results.size(); ++i) {
      // The value that takes the place of a result takes its name too; once only, since a value may stand for two results.
      if (results[i]->producer != nullptr && fresh.count(results[i]->producer) != 0 && named_.insert(results[i]).second) {
        std::swap(results[i]->name, node.results[i]->name);
      }
    }
    for (Node* inner : emitted.nodes) place(*inner, true);
    for (size_t i = 0; i < results.size(); ++i) replaced_[node.results[i]] = now(results[i]);
  }

  Location grad_location(const Node* node) const {
    Location loc = node == nullptr ? Location() : node->loc;
    loc.phase = "grad";
    return loc;
  }

  void add_cotangent(const Value* value, Value* cotangent, const Node* reader) {
    Value*& sum = cotangents_[id(value)];
    if (sum == nullptr) {
      sum = cotangent;
      return;
    }
    Builder builder(graph_, graph_.body, grad_location(reader));
    builder.name_as_parts_of(value->name + ".grad");
    if (const Node* scatter = added_to_zeros(cotangent)) sum = add_into(builder, *scatter, sum);
    else if (const Node* other = added_to_zeros(sum)) sum = add_into(builder, *other, cotangent);
    else sum = builder.add(sum, cotangent);
  }

  /// What is added at indices (the gradient of an embedding) to zeros is added to another cotangent of the same value just as well (a tied output layer):
  /// neither zeros nor a sum, and what makes the other one need not wait. Returns the scatter, of a sum that may have been rounded to 16 bits; null for others.
  static const Node* added_to_zeros(const Value* value) {
    const Node* node = value->producer;
    if (node != nullptr && node->op == Op::cast_ && compute_dtype(value->type.dtype) == node->operand(0)->type.dtype)
      node = node->operand(0)->producer;
    if (node == nullptr || (node->op != Op::scatter_nd_ && node->op != Op::scatter_elements_)) return nullptr;
    const Node* data = node->operand(0)->producer;
    const bool zeros = data != nullptr && data->op == Op::full_ && data->attrs.get_float("value") == 0;
    return zeros && node->attrs.get_string("combiner") == "add" ? node : nullptr;
  }
  static Value* add_into(Builder& builder, const Node& scatter, Value* data) {
    Value* wide = builder.cast(data, scatter.operand(0)->type.dtype);
    return builder.cast(builder.emit(scatter.op, {wide, scatter.operand(1), scatter.operand(2)}, scatter.attrs), data->type.dtype);
  }

  void apply_rule(const Node& node) {
    std::vector<Value*> results, cotangents;
    for (Value* result : node.results) {
      const auto saved = saved_.find(result);
      results.push_back(saved == saved_.end() ? result : saved->second);
    }
    for (const Value* result : node.results) cotangents.push_back(varies_[id(result)] ? cotangents_[id(result)] : nullptr);
    if (std::all_of(cotangents.begin(), cotangents.end(), [](const Value* value) { return value == nullptr; })) return;
    std::vector<char> wanted;
    for (const Value* operand : node.operands) wanted.push_back(operand != nullptr && varies_[id(operand)]);
    Builder builder(graph_, graph_.body, grad_location(&node));
    builder.name_as_parts_of(node.result()->name + ".grad");
    Vjp vjp(builder, node, std::move(results), std::move(cotangents), wanted);
    try {
      const VjpEntry entry = find_vjp(node);
      if (entry.kind != Gradient::rule)
        throw RuleError{"unsupported-gradient", "the gradient of `" + std::string(name_of(node.op)) + "` is not known"};
      entry.rule(vjp);
    } catch (const RuleError& fault) {
      faults_.emplace_back(&node, fault);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const int operand = static_cast<int>(i);
        if (wanted[i] && vjp.given(operand) == nullptr) vjp.give(operand, vjp.zeros(node.operand(operand)));
      }
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (Value* cotangent = vjp.given(static_cast<int>(i))) add_cotangent(node.operands[i], cotangent, &node);
    }
  }

  /// The first few of what is differentiated that reach a value, as ascending indices into targets_. A few, so that all values take linear time.
  struct Above {
    static constexpr int kNamed = 3;
    int targets[kNamed + 1];
    int count = 0;

    void add(const Above& other) {
      int merged[kNamed + 1], i = 0, j = 0, size = 0;
      while (size <= kNamed && (i < count || j < other.count)) {
        const bool from_other = i == count || (j < other.count && other.targets[j] < targets[i]);
        const int next = from_other ? other.targets[j++] : targets[i++];
        if (size == 0 || merged[size - 1] != next) merged[size++] = next;
      }
      std::copy(merged, merged + size, targets);
      count = size;
    }
  };

  std::vector<Above> targets_above() const {
    std::vector<Above> above(static_cast<size_t>(graph_.num_values()));
    for (size_t i = 0; i < targets_.size(); ++i) {
      Above& own = above[id(targets_[i])];
      own.targets[0] = static_cast<int>(i);
      own.count = 1;
    }
    for (const Node* node : graph_.body.nodes) {
      for (const Value* result : node->results) {
        if (id(result) >= varies_.size() || !varies_[id(result)]) continue;
        for (const Value* operand : node->operands) {
          if (operand != nullptr) above[id(result)].add(above[id(operand)]);
        }
      }
    }
    return above;
  }

  Graph& graph_;
  Diagnostics& diagnostics_;
  std::vector<Value*> targets_;
  std::vector<char> varies_;        // by value id
  std::vector<Value*> cotangents_;  // by value id
  std::unordered_set<const Node*> useful_;
  std::unordered_map<Value*, Value*> replaced_;
  std::unordered_map<const Value*, Value*> saved_;
  std::unordered_set<const Value*> named_;
  std::vector<std::pair<const Node*, RuleError>> faults_;
};

/// Which output the loss is of, or is.
size_t find_output(const Graph& graph, const LossOptions& loss) {
  for (size_t i = 0; i < graph.output_names.size(); ++i) {
    if (loss.output.empty() ? is_float(graph.body.results[i]->type.dtype) : graph.output_names[i] == loss.output) return i;
  }
  std::string known;
  for (const std::string& name : graph.output_names) known += (known.empty() ? "`" : ", `") + name + "`";
  if (loss.output.empty()) throw Error(ExitCode::usage, "invalid-argument", "", "--loss: the model has no float output");
  throw Error(ExitCode::usage, "invalid-argument", "", "--loss: the model has no output `" + loss.output + "`", "outputs are " + known);
}

/// The values whose cotangents are given, with these; makes the outputs those of the joint graph.
std::vector<std::pair<Value*, Value*>> seed(Graph& graph, const LossOptions& options, const LossScale& scaling) {
  Builder grad(graph, graph.body, {graph.file, "loss", "grad"});
  if (options.kind == LossOptions::Kind::none) {
    std::vector<std::pair<Value*, Value*>> seeds;
    for (size_t i = 0; i < graph.body.results.size(); ++i) {
      Value* output = graph.body.results[i];
      if (is_float(output->type.dtype)) seeds.emplace_back(output, graph.add_input("cotangent." + graph.output_names[i], output->type));
    }
    if (seeds.empty())
      throw Error(ExitCode::model, "unsupported-gradient", graph.file, "the model has no float output, there is nothing to differentiate");
    return seeds;
  }
  const size_t index = find_output(graph, options);
  Value* output = graph.body.results[index];
  const std::string name = graph.output_names[index];
  graph.body.results.clear();
  graph.output_names.clear();
  Value* loss;
  if (options.kind == LossOptions::Kind::output) {
    if (!is_float(output->type.dtype) || output->type.count() != 1) {
      throw Error(ExitCode::usage, "invalid-argument", "",
                  "--loss: the output `" + name + "` is " + to_string(output->type) + ", a float of one element is needed");
    }
    loss = output;
    graph.add_output(loss, name);
  } else {
    Builder builder(graph, graph.body, {graph.file, "loss", ""});
    builder.name_as_parts_of("loss");
    loss = autograd::append_loss(builder, output, options);
    graph.add_output(loss, "loss");
  }
  const Shape shape = loss->type.shape();
  if (!scaling.dynamic) return {{loss, grad.full(loss->type.dtype, shape, scaling.enabled() ? scaling.scale : 1)}};
  Value* scale = graph.add_weight("optimizer.loss_scale", Tensor::scalar(DType::f32, scaling.scale));
  return {{loss, grad.broadcast_in_dim(grad.cast(scale, loss->type.dtype), shape, {})}};
}

}  // namespace

std::unique_ptr<Graph> build_joint(const Graph& forward, const GradOptions& options, Diagnostics& diagnostics, GradReport* report) {
  std::unique_ptr<Graph> graph = forward.clone();
  Differentiator differentiator(*graph, diagnostics);
  differentiator.use_saved(options.saved);
  differentiator.choose(options);  // before inputs are added: a target or cotangent is never differentiated
  const auto seeds = seed(*graph, options.loss, options.loss_scale);
  differentiator.differentiate(seeds);
  differentiator.report_faults();
  diagnostics.checkpoint();

  GradReport local;
  std::unordered_set<const Value*> trained;
  Builder builder(*graph, graph->body, {graph->file, "", "grad"});
  for (Value* target : differentiator.targets()) {
    Value* cotangent = differentiator.cotangent(target);
    if (cotangent == nullptr && options.wrt.empty()) continue;
    if (cotangent == nullptr) {
      diagnostics.warning("ignored", graph->file, "no output depends on `" + target->name + "`: its gradient is zero");
      cotangent = builder.full(target->type.dtype, target->type.shape(), 0);
    }
    const std::string name = "grad." + target->name;
    if (cotangent->kind == Value::Kind::result && cotangent->name.rfind("grad.", 0) != 0) graph->rename(cotangent, name);
    graph->add_output(cotangent, name);
    trained.insert(target);
  }
  for (const Value* weight : values_of_weights(*graph)) {
    if (!weight->weight->from_model || !is_float(weight->type.dtype)) continue;
    (trained.count(weight) != 0 ? local.trained : local.frozen).push_back(weight->name);
  }
  if (options.wrt.empty()) {
    std::vector<const Value*> weights;
    for (const std::string& name : local.trained) weights.push_back(forward.find_weight(name));
    autograd::check_parameters(forward, weights, diagnostics);
  }
  if (report != nullptr) *report = std::move(local);

  eliminate_dead_code(*graph);
  eliminate_common_subexpressions(*graph);
  eliminate_dead_code(*graph);
  return graph;
}

}  // namespace tcc
