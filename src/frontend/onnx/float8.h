// Conversions to 8-bit floats with saturate=0.
#pragma once

#include "frontend/onnx/context.h"

namespace tcc::onnx {

/// x rounded to nearest even; what would round to more than the largest number, infinities among them, becomes infinity where `to` has one, else NaN.
Value* cast_without_saturation(NodeContext& node, Value* x, DType to);

}  // namespace tcc::onnx
