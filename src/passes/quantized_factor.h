// Operands of products as dequantised elements: what passes/multiply_quantized.cpp and passes/multiply_narrow.cpp look for.
//
//   %f: f32[8, 64] = mul(cast(sub(cast(%x), broadcast_in_dim(%z))), broadcast_in_dim(%s))      bytes %x, zero point %z, scales {%s}
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "passes/products.h"

namespace tcc {

/// Elements of 8 bits that products take as they are; those of 4 bits, too, that are widened on the way.
bool is_byte(DType dtype);
bool is_narrow(DType dtype);

/// A value seen along axes of a larger one: its axes of more than one element, in order, lie along `dims`. An element stands for `blocks` neighbours there.
struct Spread {
  Value* value;
  Axes dims, blocks;

  bool has_blocks() const {
    return std::any_of(blocks.begin(), blocks.end(), [](int64_t block) { return block > 1; });
  }
};

/// An operand of a product: scales * (bytes - zero point), all in the shape of the operand.
struct Factor {
  Value* bytes = nullptr;
  std::vector<const Node*> views;  ///< through which the bytes are seen, the innermost first
  std::optional<Spread> zero_point;
  std::vector<Spread> scales;
};

/// The value as a factor of 4 or 8 bits; casts between wider floats don't matter, as what they round would be more exact without them.
std::optional<Factor> factor_of(Value* value);

/// The bytes in the shape of the operand.
Value* seen_bytes(Builder& builder, const Factor& factor);

/// Whether what is spread differs along the sum.
bool varies_along_sum(const Spread& spread, const Side& side);

/// A value along axes of an operand, spread over a shape: axis i of the operand is axis places[i] of the shape, those of blocks are there.
Value* spread_over(Builder& builder, const Spread& what, const Axes& places, const Shape& shape);

/// A constant whose summed axes are its last ones, in the order of the product; others as they are. The attributes of the product follow.
Value* with_sum_inside(Builder& builder, Rewriter& rewriter, Graph& graph, Value* bytes, const Side& side, int number, Attrs& attrs);

/// The second half of the pass, for products of which one factor is dequantised (multiply_narrow.cpp).
void multiply_narrow(Graph& graph, bool keep_parameters);

}  // namespace tcc
