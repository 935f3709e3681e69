// Names of a library's functions, from ids of graphs.
#pragma once

#include <string>
#include <vector>

namespace tcc::fx {

/// For each id a C identifier, all different: other characters become `_`, a digit in front gets one before it. `step` and `accumulate`, which mean
/// something in libraries for training, get one behind. Equal ones are told apart by a number: `g`, `g_2`.
std::vector<std::string> function_names(const std::vector<std::string>& ids);

}  // namespace tcc::fx
