// A small random graph of each prim and composite with float operands: shapes, axes and attributes at random, zero extents and broadcasting among them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/differences.h"
#include "autograd/draw.h"

namespace tcc {

/// Ops whose graphs are written alike.
struct OpFamily {
  std::vector<const char*> ops;
  std::function<Case(Draw& draw, const std::string& op)> write;
};

/// All ops but those that have no float operands, or whose floats are bits.
std::vector<OpFamily> op_families();

}  // namespace tcc
