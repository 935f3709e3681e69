// One graph or function body while its nodes are imported.
#pragma once

#include <map>
#include <string>

#include "frontend/base/scope.h"
#include "frontend/onnx/proto.h"
#include "tcc/graph/graph.h"

namespace tcc::onnx {

struct Body {
  Scope<Value*> names;                                          ///< a subgraph sees those around it, a function body doesn't
  std::map<std::string, int64_t> opsets;                        ///< by domain
  std::map<std::string, const pb::AttributeProto*> attributes;  ///< of the call, inside a function body
  bool in_loop = false;                                         ///< its nodes are made once for each step
  std::string prefix;                                           ///< put in front of node names: "call/" inside a function body

  Value* find(const std::string& name) const {
    Value* const* found = names.find(name);
    return found == nullptr ? nullptr : *found;
  }
};

}  // namespace tcc::onnx
