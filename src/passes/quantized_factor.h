// Operands of products as dequantised elements: what passes/multiply_quantized.cpp and passes/multiply_narrow.cpp look for.
//
//   %f: f32[8, 64] = mul(cast(sub(cast(%x), broadcast_in_dim(%z))), broadcast_in_dim(%s))      bytes %x, zero point %z, scales {%s}
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "passes/rewrite.h"
#include "tcc/rules/builder.h"

namespace tcc {

using Axes = std::vector<int64_t>;

inline bool contains(const Axes& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

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

/// The axes of one side of a product, and where they are in its result.
struct Side {
  Axes batch, contract, free;
  int64_t first_free = 0;  ///< of the result

  int rank() const { return static_cast<int>(batch.size() + contract.size() + free.size()); }
  Axes places() const;
};

/// Side `number` of a dot_general, whose free axes in the result begin at `first_free`.
Side side_of(const Node& node, int number, int64_t first_free);

/// Whether what is spread differs along the sum.
bool varies_along_sum(const Spread& spread, const Side& side);

/// A value along axes of an operand, spread over a shape: axis i of the operand is axis places[i] of the shape, those of blocks are there.
Value* spread_over(Builder& builder, const Spread& what, const Axes& places, const Shape& shape);

/// A constant whose summed axes are its last ones, in the order of the product; others as they are. The attributes of the product follow.
Value* with_sum_inside(Builder& builder, Rewriter& rewriter, Graph& graph, Value* bytes, const Side& side, int number, Attrs& attrs);

/// What makes a value, seen through views that keep its elements; null for a parameter.
const Node* before_views(const Value& value);

/// What both halves of the pass share: products are replaced, in every use.
class ProductReplacer {
 public:
  ProductReplacer(Graph& graph, bool keep_parameters) : graph_(graph), rewriter_(graph, keep_parameters) {}
  virtual ~ProductReplacer() = default;
  void run();

 protected:
  /// What stands for the result of a dot_general, whose operands are those that stand now; null where it stays, and then nothing may have been emitted.
  virtual Value* multiply(const Node& node, Builder& builder) = 0;

  Graph& graph_;
  Rewriter rewriter_;  // knows constants

 private:
  void sweep(Region& region);
  bool replace(const Node& node, Region& region);
  Value* now(Value* value) const;

  std::unordered_map<Value*, Value*> replaced_;
};

/// The second half of the pass, for products of which one factor is dequantised (multiply_narrow.cpp).
void multiply_narrow(Graph& graph, bool keep_parameters);

}  // namespace tcc
