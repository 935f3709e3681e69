// The model's own names in the graph: messages, labels of kernels and the interface of the library speak in them.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tcc/graph/graph.h"

namespace tcc {

/// Gives a value that was made after `first_new` values the name that the model has for it, in place of the one that an inner function or a handler
/// gave. An older value keeps its name: it is a result that is an operand.
void give_name(Graph& graph, Value* value, const std::string& name, int first_new);

/// Names that are each taken once: `y`, `y.1`, `y.2`.
class UniqueNames {
 public:
  std::string add(const std::string& name);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  // number to try for a name
};

}  // namespace tcc
