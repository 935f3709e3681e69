// `tcc verify`: what a compiled model gives, against the interpreter in f64.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"
#include "tcc/runtime/library.h"
#include "tcc/support/tensor.h"

namespace tcc::driver {

/// |found - expected| <= atol + rtol * |expected|. NaN fits NaN, an infinity itself.
struct Tolerance {
  double rtol = 0, atol = 0;
};
/// What rounding alone explains for a whole model of that dtype; exact for integers.
Tolerance default_tolerance(DType dtype);
/// Of a gradient, whose elements are sums that cancel: ten times the relative tolerance, and the absolute one in units of the tensor's largest
/// element, or a hundredth of it in units of the model's largest gradient.
Tolerance gradient_tolerance(DType dtype, double largest, double largest_of_model);

struct Comparison {
  int64_t num_elements = 0, num_wrong = 0;
  double max_absolute = 0;         ///< largest difference, over elements that are finite in both
  double max_relative = 0;         ///< largest difference over |expected|, where that is not tiny
  int64_t worst = -1;              ///< flat index of the element furthest beyond the tolerance
  double found = 0, expected = 0;  ///< there
};
/// `expected` may be of another dtype (f64); the shapes must be equal.
Comparison compare(const Tensor& found, const Tensor& expected, const Tolerance& tolerance);

struct VerifyOptions {
  runtime::Device device = runtime::Device::automatic;
  int threads = 0;
  std::optional<double> rtol, atol;  ///< in the place of the defaults of every dtype
};

struct Verification {
  std::string device;
  std::vector<Comparison> outputs;  ///< one per output of the graph
  std::vector<Tensor> expected;     ///< what the interpreter gives, in f64
  bool passed = true;
};
/// Compiles prims, runs them on the inputs and compares every output.
Verification verify_prims(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options, const VerifyOptions& verify);

/// The first node whose value differs when it is computed as an output of its own: found by bisection over the nodes in order, a compilation
/// each. Null when no single node does.
struct FirstDifference {
  const Node* node = nullptr;
  int result = 0;
  Comparison comparison;
};
FirstDifference find_first_difference(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options,
                                      const VerifyOptions& verify);

}  // namespace tcc::driver
