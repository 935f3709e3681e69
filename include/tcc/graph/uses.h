// What makes values, and what reads them.
#pragma once

#include <unordered_map>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

/// The node that makes a value if it is of this op, else null; also of no value.
inline Node* made_by(const Value* value, Op op) {
  return value != nullptr && value->producer != nullptr && value->producer->op == op ? value->producer : nullptr;
}

/// The nodes of the region itself that read each value, once for each operand.
using Users = std::unordered_map<const Value*, std::vector<Node*>>;
inline Users users_of(const Region& region) {
  Users users;
  for (Node* node : region.nodes) {
    for (const Value* operand : node->operands) {
      if (operand != nullptr) users[operand].push_back(node);
    }
  }
  return users;
}

}  // namespace tcc
