#include "passes/products.h"

#include <utility>

namespace tcc {

Axes Side::places() const {
  Axes places(static_cast<size_t>(rank()), -1);
  for (size_t i = 0; i < batch.size(); ++i) places[static_cast<size_t>(batch[i])] = static_cast<int64_t>(i);
  for (size_t i = 0; i < free.size(); ++i) places[static_cast<size_t>(free[i])] = first_free + static_cast<int64_t>(i);
  return places;
}

Side side_of(const Node& node, int number, int64_t first_free) {
  Side side{node.attrs.get_ints(number == 0 ? "lhs_batch" : "rhs_batch"),
            node.attrs.get_ints(number == 0 ? "lhs_contract" : "rhs_contract"),
            {},
            first_free};
  for (int64_t axis = 0; axis < node.operand(number)->type.rank(); ++axis) {
    if (!contains(side.batch, axis) && !contains(side.contract, axis)) side.free.push_back(axis);
  }
  return side;
}

const Node* before_views(const Value& value) {
  const Node* node = value.producer;
  while (node != nullptr && is_bijective(*node)) node = node->operand(0)->producer;
  return node;
}

void ProductReplacer::run() {
  sweep(graph_.body);
  for (StateUpdate& update : graph_.state_updates) update.value = now(update.value);
}

void ProductReplacer::sweep(Region& region) {
  const std::vector<Node*> nodes = std::move(region.nodes);
  region.nodes.clear();
  for (Node* node : nodes) {
    for (Value*& operand : node->operands) operand = now(operand);
    for (const auto& inner : node->regions) sweep(*inner);
    if (node->op != Op::dot_general_ || !replace(*node, region)) region.nodes.push_back(node);
  }
  for (Value*& result : region.results) result = now(result);
}

bool ProductReplacer::replace(const Node& node, Region& region) {
  Region emitted;
  Builder builder(graph_, emitted, node.loc);
  builder.name_as_parts_of(node.result()->name);
  Value* product = multiply(node, builder);
  if (product == nullptr) return false;
  std::swap(product->name, node.result()->name);
  replaced_[node.result()] = product;
  region.nodes.insert(region.nodes.end(), emitted.nodes.begin(), emitted.nodes.end());
  return true;
}

Value* ProductReplacer::now(Value* value) const {
  const auto found = replaced_.find(value);
  return found == replaced_.end() ? value : found->second;
}

}  // namespace tcc
