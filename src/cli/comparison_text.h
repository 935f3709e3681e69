// What is said of a tensor that was compared with what is expected of it.
#pragma once

#include <string>

#include "tcc/driver/tolerance.h"
#include "tcc/support/tensor.h"

namespace tcc::cli {

/// "1 of 8 elements differ, the worst at [1, 1]: 0.25, the interpreter gives 0.75", for `whose` "the interpreter gives".
std::string describe_worst(const driver::Comparison& comparison, const Shape& shape, const std::string& whose);

}  // namespace tcc::cli
