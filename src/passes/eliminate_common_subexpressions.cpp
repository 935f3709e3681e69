// eliminate-common-subexpressions: nodes that compute the same from the same values become one.
//   in:   any graph        out: the same outputs, fewer nodes; the first of equal nodes stays
//     %a: f32[4] = exp(%x)
//     %b: f32[4] = exp(%x)
//     %y: f32[4] = mul(%a, %b)
//   becomes
//     %a: f32[4] = exp(%x)
//     %y: f32[4] = mul(%a, %a)
// The operands of add and mul count in either order. Weights that a pass made merge when their bytes are equal; weights of the model only when asked,
// because two parameters that are equal today need not be after a training step. Nodes with regions are left alone, the nodes inside are not.
// One sweep over the nodes in order: when a node is looked up, its operands stand for their classes already.

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "tcc/graph/attr_values.h"
#include "tcc/passes/passes.h"

namespace tcc {
namespace {

bool commutes(Op op) {
  switch (op) {
    case Op::add_:
    case Op::mul_:
    case Op::and_:
    case Op::or_:
    case Op::xor_:
    case Op::eq_:
    case Op::ne_: return true;
    default: return false;
  }
}

/// Operands as they are compared: those of commutative ops by id.
std::vector<const Value*> key_operands(const Node& node) {
  std::vector<const Value*> operands(node.operands.begin(), node.operands.end());
  if (commutes(node.op) && operands[0]->id > operands[1]->id) std::swap(operands[0], operands[1]);
  return operands;
}

size_t hash_node(const Node& node) {
  size_t hash = combine_hashes(static_cast<size_t>(node.op), node.results.size());
  for (const Value* operand : key_operands(node))
    hash = combine_hashes(hash, operand == nullptr ? ~size_t{0} : static_cast<size_t>(operand->id));
  return combine_hashes(hash, hash_bits(node.attrs));
}

bool same_computation(const Node& a, const Node& b) {
  if (a.op != b.op || a.results.size() != b.results.size() || key_operands(a) != key_operands(b) || !same_bits(a.attrs, b.attrs))
    return false;
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (a.results[i]->type != b.results[i]->type) return false;
  }
  return true;
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph), representative_(static_cast<size_t>(graph.num_values()), nullptr) {}

  void merge_weights(bool of_model) {
    std::unordered_multimap<size_t, Value*> seen;
    for (const auto& weight : graph_.weights()) {
      if (weight->is_state || ((weight->from_model || weight->is_buffer) && !of_model)) continue;
      const Tensor& tensor = weight->tensor;
      const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.size_bytes()));
      const size_t hash = combine_hashes(std::hash<std::string_view>()(bytes), static_cast<size_t>(tensor.dtype()));
      Value* value = graph_.find_weight(weight->name);
      const auto [begin, end] = seen.equal_range(hash);
      const auto found = std::find_if(begin, end, [&](const auto& entry) { return entry.second->weight->tensor.same_bytes(tensor); });
      if (found == end) seen.emplace(hash, value);
      else representative_[static_cast<size_t>(value->id)] = found->second;
    }
  }

  void sweep(Region& region) {
    std::vector<size_t> added;  // leave the table with the region: its values are not visible outside
    size_t kept = 0;
    for (Node* node : region.nodes) {
      for (Value*& operand : node->operands) {
        if (operand != nullptr) operand = represent(operand);
      }
      for (const auto& inner : node->regions) sweep(*inner);
      if (!node->regions.empty()) {
        region.nodes[kept++] = node;
        continue;
      }
      const size_t hash = hash_node(*node);
      std::vector<Node*>& bucket = table_[hash];
      const auto found = std::find_if(bucket.begin(), bucket.end(), [&](const Node* other) { return same_computation(*node, *other); });
      if (found == bucket.end()) {
        bucket.push_back(node);
        added.push_back(hash);
        region.nodes[kept++] = node;
        continue;
      }
      for (size_t i = 0; i < node->results.size(); ++i) representative_[static_cast<size_t>(node->results[i]->id)] = (*found)->results[i];
    }
    region.nodes.resize(kept);
    for (Value*& result : region.results) result = represent(result);
    for (const size_t hash : added) table_[hash].pop_back();
  }

  Value* represent(Value* value) const {
    Value* other = representative_[static_cast<size_t>(value->id)];
    return other == nullptr ? value : other;
  }

 private:
  Graph& graph_;
  std::vector<Value*> representative_;  // by value id; null: itself
  std::unordered_map<size_t, std::vector<Node*>> table_;
};

}  // namespace

void eliminate_common_subexpressions(Graph& graph, bool merge_model_weights) {
  Merger merger(graph);
  merger.merge_weights(merge_model_weights);
  merger.sweep(graph.body);
  for (StateUpdate& update : graph.state_updates) update.value = merger.represent(update.value);
  graph.remove_unused_weights();
}

}  // namespace tcc
