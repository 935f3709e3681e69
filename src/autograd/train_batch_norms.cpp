// Batch norms that learn their statistics: each evaluation form becomes the training form, with an update of what it remembers. One whose statistics are
// constants stays as it is.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tcc/autograd/optimizer.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/rules_common.h"

namespace tcc {

namespace {

/// Statistics that are constants of the model have no place to be remembered in.
bool has_constant_statistics(const Node& norm) {
  return std::any_of(norm.operands.begin() + 3, norm.operands.end(), [](const Value* statistic) {
    if (statistic->kind == Value::Kind::weight) return !statistic->weight->from_model && !statistic->weight->is_buffer;
    return statistic->producer != nullptr && statistic->producer->op == Op::full_;
  });
}

}  // namespace

void train_batch_norms(Graph& graph, double momentum) {
  std::vector<Node*> nodes;
  nodes.swap(graph.body.nodes);
  std::unordered_map<Value*, Value*> replaced;
  std::unordered_set<const Value*> updated;
  for (Node* node : nodes) {
    if (node->op != Op::batch_norm_ || has_constant_statistics(*node)) {
      graph.body.nodes.push_back(node);
      continue;
    }
    Builder b(graph, graph.body, node->loc);
    b.name_as_parts_of(node->result()->name);
    Node* trained =
        b.emit_node(Op::batch_norm_train_, node->operands, {{"epsilon", node->attrs.get_float("epsilon")}, {"momentum", 1 - momentum}}, 3);
    std::swap(trained->result()->name, node->result()->name);
    replaced[node->result()] = trained->result();
    // The statistics as the decomposition computes them; only the variance that is remembered is unbiased.
    Location loc = node->loc;
    loc.phase = "update";
    b.set_loc(loc);
    Value* x = rules::widen(b, node->operand(0));
    const std::vector<int64_t> axes = rules::other_axes(x->type.rank(), {1});
    const double n = static_cast<double>(rules::extent_over(x, axes));
    Value* mean = rules::mean(b, x, axes);
    Value* centered = b.sub(x, rules::spread(b, mean, x->type.shape(), axes));
    Value* variance = b.binary(Op::mul_, rules::mean(b, b.mul(centered, centered), axes), n / std::max(n - 1, 1.0));
    auto remember = [&](Value* old, Value* now) {
      if (old->kind != Value::Kind::weight || !updated.insert(old).second) return;
      Value* kept = b.binary(Op::mul_, b.cast(old, now->type.dtype), 1 - momentum);
      old->weight->is_state |= old->weight->is_buffer;  // no constant from here on
      graph.state_updates.push_back({old->weight, b.cast(b.add(kept, b.binary(Op::mul_, now, momentum)), old->type.dtype)});
    };
    remember(node->operand(3), mean);
    remember(node->operand(4), variance);
  }
  replace_values(graph, replaced);
}

}  // namespace tcc
