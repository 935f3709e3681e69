// Which results may lie where an operand did, each tried: kernels that overwrite give the same bits as kernels that don't.
#pragma once

#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/target/target.h"

namespace tcc::plan {

struct Overwrites {
  std::vector<std::string> allowed;  ///< "x -> y"
  std::vector<std::string> faults;   ///< of those: kernels that don't verify, bits that change
};

/// Every pair of an operand and a result of one type, of the units of a graph of prims.
Overwrites try_overwrites(const Graph& graph, const Target& target);

}  // namespace tcc::plan
