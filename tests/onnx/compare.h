// The comparison of the suite: dtype and shape exactly, |found - expected| <= atol + rtol * |expected|, NaN equals NaN.
#pragma once

#include <string>

#include "tcc/support/tensor.h"

namespace tcc::onnx_suite {

/// Empty when they agree; else what differs.
std::string difference(const Tensor& found, const Tensor& expected, double rtol, double atol);

}  // namespace tcc::onnx_suite
