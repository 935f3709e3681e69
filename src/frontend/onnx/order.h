// The order in which the nodes of a graph can be imported.
#pragma once

#include <vector>

#include "frontend/onnx/proto.h"

namespace tcc::onnx {

/// Nodes with producers first: the order of the file where that holds (ONNX demands it), otherwise the closest one to it.
/// RuleError "cyclic-graph" that lists the nodes of a cycle; "malformed-file" when two nodes make a value of the same name.
std::vector<const pb::NodeProto*> order_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes);

}  // namespace tcc::onnx
