// The graph verifier. Collects every fault, each with the node printed under it.

#include <unordered_set>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/ops/attributes.h"
#include "tcc/ops/op.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, GraphStage stage) : graph_(graph), stage_(stage), defined_(static_cast<size_t>(graph.num_values()), 0) {}

  std::vector<std::string> run() {
    for (const auto& weight : graph_.weights()) {
      const Value* value = graph_.find_weight(weight->name);
      if (value == nullptr) {
        fault("no value reads the weight @" + weight->name);
        continue;
      }
      defined_[static_cast<size_t>(value->id)] = 1;
      if (value->type != Type(weight->tensor.dtype(), weight->tensor.shape())) {
        fault("@" + weight->name + " is " + to_string(value->type) + ", its tensor is " +
              to_string(Type(weight->tensor.dtype(), weight->tensor.shape())));
      }
    }
    for (size_t i = 0; i < graph_.body.args.size(); ++i) {
      const Value& input = *graph_.body.args[i];
      if (input.kind != Value::Kind::input || input.index != static_cast<int>(i))
        fault("input " + std::to_string(i) + ", %" + input.name + ", is not marked as that input");
      define(input, nullptr);
    }
    region(graph_.body);
    if (graph_.output_names.size() != graph_.body.results.size()) {
      fault(std::to_string(graph_.output_names.size()) + " output names, " + std::to_string(graph_.body.results.size()) + " outputs");
    }
    std::unordered_set<std::string> outputs;
    for (const std::string& name : graph_.output_names) {
      if (!outputs.insert(name).second) fault("two outputs are named `" + name + "`");
    }
    for (const Value* value : graph_.body.results) use(value, nullptr, "an output");
    for (const StateUpdate& update : graph_.state_updates) {
      use(update.value, nullptr, "new state");
      if (graph_.find_weight(update.weight->name) == nullptr)
        fault("state of @" + update.weight->name + ", which is not a weight of the graph");
      else if (update.value != nullptr && graph_.find_weight(update.weight->name)->type != update.value->type) {
        fault("new state of @" + update.weight->name + " is " + to_string(update.value->type) + ", the weight is " +
              to_string(graph_.find_weight(update.weight->name)->type));
      }
    }
    return std::move(faults_);
  }

 private:
  void fault(const std::string& text, const Node* node = nullptr) {
    faults_.push_back(node == nullptr ? text : text + "\n  " + print(*node));
  }

  bool owned(const Value& value) const { return value.id >= 0 && value.id < graph_.num_values(); }

  void define(const Value& value, const Node* node) {
    if (!owned(value)) return fault("%" + value.name + " belongs to another graph", node);
    char& mark = defined_[static_cast<size_t>(value.id)];
    if (mark) fault("%" + value.name + " is defined twice", node);
    mark = 1;
    if (!names_.insert(value.name).second) fault("two values are named %" + value.name, node);
    try {
      check_size(value.type);
    } catch (const RuleError& error) { fault("%" + value.name + ": " + error.message, node); }
    if (stage_ != GraphStage::imported && !value.type.is_static())
      fault("%" + value.name + " is " + to_string(value.type) + ", expected constant extents", node);
  }

  bool use(const Value* value, const Node* node, const char* what) {
    if (value == nullptr) {
      fault(std::string(what) + " is absent", node);
      return false;
    }
    if (!owned(*value)) {
      fault("%" + value->name + " belongs to another graph", node);
      return false;
    }
    if (!defined_[static_cast<size_t>(value->id)]) {
      const bool weight = value->kind == Value::Kind::weight;
      fault((weight ? "@" : "%") + value->name + " is used before it is defined: the nodes are out of order or form a cycle", node);
      return false;
    }
    return true;
  }

  void region(const Region& region) {
    for (const Node* each : region.nodes) node(*each);
  }

  void node(const Node& node) {
    bool sound = true;
    for (const Value* operand : node.operands) {
      if (operand != nullptr) {
        sound = use(operand, &node, "an operand") && sound;
      } else if (info(node.op).kind == OpKind::prim) {
        fault("an operand of the prim `" + std::string(name_of(node.op)) + "` is absent", &node);
        sound = false;
      }
    }
    const std::string count = operand_count_fault(node.op, static_cast<int>(node.operands.size()));
    if (!count.empty()) fault(count, &node);
    const std::string attrs = attribute_fault(node.op, node.attrs);
    if (!attrs.empty()) fault(attrs, &node);
    const OpKind kind = info(node.op).kind;
    if (stage_ == GraphStage::resolved && kind == OpKind::dynamic) fault("`" + std::string(name_of(node.op)) + "` is not resolved", &node);
    if (stage_ == GraphStage::prims && kind != OpKind::prim) fault("`" + std::string(name_of(node.op)) + "` is not a prim", &node);
    for (const auto& inner : node.regions) {
      for (const Value* arg : inner->args) define(*arg, &node);
      region(*inner);
      for (const Value* result : inner->results) use(result, &node, "a result of a region");
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value& result = *node.results[i];
      if (result.producer != &node || result.index != static_cast<int>(i))
        fault("%" + result.name + " does not know that this node makes it", &node);
      define(result, &node);
    }
    if (sound && count.empty() && attrs.empty()) types(node);
  }

  void types(const Node& node) {
    std::vector<Type> inferred;
    try {
      inferred = infer_node_types(node);
    } catch (const RuleError& error) { return fault(error.message, &node); }
    for (size_t i = 0; i < inferred.size(); ++i) {
      const Type& found = node.results[i]->type;
      // Before shapes are bound either side may know less.
      const bool vague = stage_ == GraphStage::imported && !(inferred[i].is_static() && found.is_static());
      Type plain = found;
      plain.layout = nullptr;  // rules know shapes; layouts are chosen, not inferred
      if (vague ? found.dtype != inferred[i].dtype && inferred[i].ranked && found.ranked : plain != inferred[i]) {
        fault("%" + node.results[i]->name + " is " + to_string(found) + ", expected " + to_string(inferred[i]), &node);
      }
      if (stage_ != GraphStage::prims || info(node.op).lowering != Lowering::pointwise) continue;
      for (const Value* operand : node.operands) {
        if (operand->type.dims != found.dims)
          fault("operand %" + operand->name + " is " + to_string(operand->type) +
                    ", expected the shape of the result: prims do not broadcast",
                &node);
      }
    }
  }

  const Graph& graph_;
  GraphStage stage_;
  std::vector<char> defined_;
  std::unordered_set<std::string> names_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph, GraphStage stage) { return Verifier(graph, stage).run(); }

}  // namespace tcc
