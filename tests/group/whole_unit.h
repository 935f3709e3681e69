// A unit that holds a whole prims graph: tests of lowering start from it.
#pragma once

#include <algorithm>

#include "tcc/group/group.h"

namespace tcc::group {

/// All nodes of the graph as one unit; the kind is that of the op that shapes the loops.
inline Unit whole_unit(const Graph& graph) {
  Unit unit;
  for (Node* node : graph.body.nodes) {
    unit.nodes.push_back(node);
    auto anchored = [&](UnitKind kind) {
      unit.kind = kind;
      unit.anchor = node;
    };
    switch (info(node->op).lowering) {
      case Lowering::reduce:
        if (!unit.anchor) unit.kind = UnitKind::rows;
        break;
      case Lowering::contract: anchored(UnitKind::contract); break;
      case Lowering::window: anchored(UnitKind::window); break;
      case Lowering::scan: anchored(UnitKind::scan); break;
      case Lowering::scatter: anchored(UnitKind::scatter); break;
      case Lowering::sort: anchored(UnitKind::sort); break;
      default: break;
    }
    for (Value* operand : node->operands) {
      const bool outside = operand->kind == Value::Kind::input || operand->kind == Value::Kind::weight;
      if (outside && std::find(unit.inputs.begin(), unit.inputs.end(), operand) == unit.inputs.end()) unit.inputs.push_back(operand);
    }
  }
  for (Value* output : graph.body.results) unit.outputs.push_back(output);
  return unit;
}

}  // namespace tcc::group
