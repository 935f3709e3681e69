// What nodes of a model are called in messages, labels and printed graphs.
#pragma once

#include <string>

#include "frontend/onnx/proto.h"

namespace tcc::onnx {

/// The node's name, or `Relu(y)` after its op and first output when it has none; behind the module that it is in where the exporter of PyTorch
/// says so: `encoder.layer.0.output/node_Add_63`.
std::string name_of_node(const pb::NodeProto& node);

}  // namespace tcc::onnx
