// Composites to prims, in one sweep; afterwards every node is a prim whose pointwise operands have one shape.
//   in:   resolved graph                 out: graph of stage prims, the same values
//     %y: f32[2, 8] = relu(%x)                                       loc("r")
//     %z: f32[2, 8] = add(%y, @bias)                                 loc("a")
//   becomes
//     %0: f32[2, 8] = full() {dtype=f32, shape=[2, 8], value=0}      loc("r")
//     %y: f32[2, 8] = max(%x, %0)                                    loc("r")
//     %1: f32[2, 8] = broadcast_in_dim(@bias) {dims=[1], shape=[2, 8]}   loc("a")
//     %z: f32[2, 8] = add(%y, %1)                                    loc("a")
// What a composite becomes keeps its location; the value that takes the place of a result takes its name too, so that a model's names stay
// findable. Each node is visited once, those that a decomposition emits included (they may be composites again), so it is linear.
// Two nodes that need the same broadcast get one each: merging equal nodes is another pass.

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tcc/graph/location.h"
#include "tcc/graph/rule_error.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/rules.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

class Decomposer {
 public:
  Decomposer(Graph& graph, Diagnostics& diagnostics) : graph_(graph), diagnostics_(diagnostics) {}

  void sweep(Region& region) {
    std::vector<Node*> nodes;
    nodes.swap(region.nodes);
    for (Node* node : nodes) place(*node, region);
    for (Value*& result : region.results) result = now(result);
  }
  Value* now(Value* value) const {
    const auto found = replaced_.find(value);
    return found == replaced_.end() ? value : found->second;
  }

 private:
  void place(Node& node, Region& region) {
    for (Value*& operand : node.operands) operand = now(operand);
    for (const auto& inner : node.regions) sweep(*inner);
    try {
      switch (info(node.op).kind) {
        case OpKind::prim:
          make_broadcasts_explicit(node, region);
          region.nodes.push_back(&node);
          return;
        case OpKind::composite: return replace(node, region);
        case OpKind::dynamic:
          throw RuleError{"unsupported-op", "`" + std::string(name_of(node.op)) + "` is still there, its sizes are not known"};
      }
    } catch (const RuleError& fault) {
      report(diagnostics_, graph_, node, fault);
      region.nodes.push_back(&node);  // so that what reads its results stays well formed while the rest is looked at
    }
  }

  void replace(Node& node, Region& region) {
    Region emitted;
    Builder builder(graph_, emitted, node.loc);
    builder.name_as_parts_of(node.result()->name);
    const std::vector<Value*> results = decompose_node(builder, node);
    check(results.size() == node.results.size(), "a decomposition gives another number of results than the node has");
    std::unordered_set<const Node*> fresh(emitted.nodes.begin(), emitted.nodes.end());
    for (size_t i = 0; i < results.size(); ++i) {
      Value& old = *node.results[i];
      Value& value = *results[i];
      check(value.type.dtype == old.type.dtype && value.type.dims == old.type.dims, "a decomposition gives another type than the node has");
      // Taken once only: a value may stand for two results.
      if (value.producer != nullptr && fresh.count(value.producer) != 0 && named_.insert(&value).second) std::swap(value.name, old.name);
    }
    for (Node* inner : emitted.nodes) place(*inner, region);
    for (size_t i = 0; i < results.size(); ++i) replaced_[node.results[i]] = now(results[i]);
  }

  void make_broadcasts_explicit(Node& node, Region& region) {
    if (info(node.op).lowering != Lowering::pointwise || node.operands.size() < 2) return;
    const Shape shape = node.result()->type.shape();
    Builder builder(graph_, region, node.loc);
    builder.name_as_parts_of(node.result()->name);
    for (Value*& operand : node.operands) {
      if (operand->type.shape() == shape) continue;
      const Node* producer = operand->producer;
      if (producer != nullptr && producer->op == Op::full_) {
        Attrs attrs = producer->attrs;
        attrs.set("shape", shape);
        operand = builder.emit(Op::full_, {}, attrs);
      } else {
        operand = builder.broadcast_to(operand, shape);
      }
    }
  }

  Graph& graph_;
  Diagnostics& diagnostics_;
  std::unordered_map<Value*, Value*> replaced_;
  std::unordered_set<const Value*> named_;
};

}  // namespace

void decompose(Graph& graph, Diagnostics& diagnostics) {
  Decomposer decomposer(graph, diagnostics);
  decomposer.sweep(graph.body);
  for (StateUpdate& update : graph.state_updates) update.value = decomposer.now(update.value);
}

}  // namespace tcc
