// Weights of the model that are no parameters.

#include "autograd/statistics.h"

namespace tcc::autograd {

std::unordered_set<const Value*> running_statistics(const Graph& graph) {
  std::unordered_set<const Value*> statistics;
  for (const Node* node : graph.body.nodes) {
    if (node->op != Op::batch_norm_ && node->op != Op::batch_norm_train_) continue;
    statistics.insert(node->operand(3));
    statistics.insert(node->operand(4));
  }
  return statistics;
}

}  // namespace tcc::autograd
