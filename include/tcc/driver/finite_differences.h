// Gradients against differences of the function that they are of, in f64 by the interpreter: what tells a wrong rule from wrong code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/tensor.h"

namespace tcc::driver {

/// The derivative along a random direction of one input or parameter, both ways.
struct DirectionalDerivative {
  std::string name;     ///< of the input or parameter
  double gradient = 0;  ///< <gradient, direction>
  double difference = 0;
  bool at_kink = false;        ///< the two sides differ, and the gradient lies between them
  int64_t num_not_finite = 0;  ///< elements of the gradient that are infinite or no number, which the direction leaves out
  bool agrees = true;
};

/// `joint`: prims, with outputs `grad.<name>`; `inputs` of it. The function is the first output when it is a loss, else the sum of all outputs (those
/// elements that are finite) times their cotangents. Nothing is rounded on the way, not even by a Cast to f16: a function of steps has no differences.
/// A gradient that is not a number agrees where the function has no finite difference either (a power of a negative base, by its exponent). `observe` (may
/// be null) sees each as it comes.
std::vector<DirectionalDerivative> check_gradients(const Graph& joint, const std::vector<Tensor>& inputs, uint64_t seed,
                                                   const std::function<void(const DirectionalDerivative&)>& observe);

}  // namespace tcc::driver
