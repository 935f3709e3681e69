// Conversions to element types: what Cast, CastLike, BitCast and the quantising ops of ONNX share.
#pragma once

#include <string>

#include "frontend/onnx/context.h"
#include "frontend/onnx/narrow_types.h"

namespace tcc::onnx {

struct Rounding {
  /// What is beyond the range of an 8-bit float becomes the nearest number of it; else infinity where the type has one, or NaN.
  bool saturate = true;
  std::string mode = "up";  ///< to powers of two (float8e8m0): up, down or nearest
};

/// x in another element type. Floats are rounded to nearest even.
Value* converted(NodeContext& node, Value* x, ElementType to, const Rounding& rounding = {});
/// The bits of x, which has type `from`, in another element type of the same width.
Value* with_same_bits(NodeContext& node, Value* x, ElementType from, ElementType to);
/// Integers, cut off at the ends of the 2-bit type.
Value* clamped_to(NodeContext& node, Value* x, const NarrowType& type);

int width_of(ElementType type);  ///< bits of an element in ONNX
std::string name_of(ElementType type);

}  // namespace tcc::onnx
