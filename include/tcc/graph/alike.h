// Whether values are computed in the same way: of what the backward pass computes again there are several.
#pragma once

#include <map>
#include <utility>

#include "tcc/graph/graph.h"

namespace tcc {

/// Compares values of one graph, and remembers what it found. Says no where it would have to look at too many nodes.
class Alike {
 public:
  bool operator()(const Value* a, const Value* b);

 private:
  std::map<std::pair<const Value*, const Value*>, bool> known_;
};

}  // namespace tcc
