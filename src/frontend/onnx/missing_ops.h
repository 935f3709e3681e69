// Ops of a model that tcc does not know, each said once, however many nodes it has.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/diagnostics.h"

namespace tcc::onnx {

class MissingOps {
 public:
  /// `where` is the node's place for a message, `node` its name.
  void add(const std::string& domain, const std::string& op, const std::string& opset, const std::string& where, const std::string& node);
  /// Says all of them, in the order of their first nodes, and forgets them.
  void report(Diagnostics& diagnostics, bool every_node);

 private:
  struct Op {
    std::string text, kind, remedy;
    std::vector<std::string> places, nodes;
  };
  std::vector<Op> ops_;
};

}  // namespace tcc::onnx
