// What a user can do about a fault in an ONNX model.
#pragma once

#include <string>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {

/// Empty when the message says it.
std::string help_for(const RuleError& error);

}  // namespace tcc::onnx
