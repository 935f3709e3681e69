// multiply-quantized: a product of dequantised factors becomes the product of their 8-bit elements, and is scaled behind it.
//   in:   a canonical graph of prims        out: the same values but for rounding, fewer bytes to read and elements for tensor cores
//     %xs: f32[8, 64] = mul(cast(%x), broadcast_in_dim(%s))                                 %x: i8[8, 64], %s: f32[]
//     %ws: f32[64, 32] = mul(cast(@w), broadcast_in_dim(@t))                                @w: i8[64, 32], @t: f32[32]
//     %y: f32[8, 32] = dot_general(%xs, %ws) {lhs_contract=[1], rhs_contract=[0], ...}
//   becomes
//     %p: i32[8, 32] = dot_general(%x, @w.turned) {lhs_contract=[1], rhs_contract=[1], ...}
//     %y: f32[8, 32] = mul(mul(cast(%p), broadcast_in_dim(%s)), broadcast_in_dim(@t))
// Products and sums of integers are exact; those of 8-bit floats are in f32, as before. A zero point z, which must not vary along the sum either, is taken off
// behind the product, exactly, too: sum (x - z) w = sum x w - z sum w, where the last sum is a constant when w is.
// A constant factor is stored anew with the sum innermost, as tensor cores read it.
// Leaves alone: scales and zero points that vary along the sum, factors of which one has more bits, sums that could leave i32, and what is not a dot_general. Of these,
// products with one narrow factor are rewritten by multiply_narrow.cpp.

#include <algorithm>
#include <utility>

#include "passes/quantized_factor.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/evaluate.h"
#include "tcc/rules/rules_common.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

/// The largest magnitude of an element less its zero point.
int64_t largest(DType dtype, bool shifted) { return shifted || dtype == DType::u8 ? 255 : 128; }

/// Whether all elements of an i32 are surely elements of 8 bits.
bool is_small(const Value* value) {
  const Node* node = before_views(*value);
  if (node == nullptr) return false;
  if (node->op == Op::full_) return splat_of_full(*node).integer >= -128 && splat_of_full(*node).integer <= 255;
  return node->op == Op::cast_ && size_bits(node->operand(0)->type.dtype) <= 8 && is_integer(node->operand(0)->type.dtype);
}

class Multiplier : public ProductReplacer {
 public:
  using ProductReplacer::ProductReplacer;

 private:
  /// Whether the product is exact, and what scales it is the same along the sum.
  static bool fits(const Node& node, const Factor (&factors)[2], const Side (&sides)[2]) {
    const DType dtype = node.result()->type.dtype;
    const bool integers = !is_float(factors[0].bytes->type.dtype);
    if (integers == is_float(factors[1].bytes->type.dtype)) return false;
    for (const int s : {0, 1}) {
      const auto varies = [&](const Spread& spread) { return spread.has_blocks() || varies_along_sum(spread, sides[s]); };
      if (!is_byte(factors[s].bytes->type.dtype) || (factors[s].zero_point && factors[s].zero_point->value->type.dtype != DType::i32))
        return false;
      if ((factors[s].zero_point && varies(*factors[s].zero_point)) ||
          std::any_of(factors[s].scales.begin(), factors[s].scales.end(), varies))
        return false;
    }
    if (!is_float(dtype)) return integers && dtype == DType::i32;
    if (!integers) return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    for (const Factor& factor : factors) {
      if (factor.zero_point && !is_small(factor.zero_point->value)) return false;
    }
    const auto most = [&](int s) { return largest(factors[s].bytes->type.dtype, factors[s].zero_point.has_value()); };
    return rules::extent_over(node.operand(0), sides[0].contract) <= INT32_MAX / (most(0) * most(1)) && dtype != DType::f64;
  }

  Value* multiply(const Node& node, Builder& builder) override {
    const std::optional<Factor> a = factor_of(node.operand(0)), b = factor_of(node.operand(1));
    if (!a || !b) return nullptr;
    const Factor factors[] = {*a, *b};
    const Side left = side_of(node, 0, static_cast<int64_t>(node.attrs.get_ints("lhs_batch").size()));
    const Side sides[] = {left, side_of(node, 1, left.first_free + static_cast<int64_t>(left.free.size()))};
    if (!fits(node, factors, sides)) return nullptr;

    Attrs attrs = node.attrs;
    std::vector<Value*> bytes;
    for (const int s : {0, 1})
      bytes.push_back(with_sum_inside(builder, rewriter_, graph_, seen_bytes(builder, factors[s]), sides[s], s, attrs));
    if (bytes == node.operands) return nullptr;
    const Shape shape = rules::shape_of(node.result());
    const bool integers = !is_float(factors[0].bytes->type.dtype);
    attrs.set("dtype", integers ? DType::i32 : DType::f32);
    Value* product = builder.emit(Op::dot_general_, {bytes[0], bytes[1]}, std::move(attrs));
    product = without_zero_points(builder, node, *product->producer, factors, sides);
    const DType dtype = node.result()->type.dtype;
    if (is_float(dtype)) product = builder.cast(product, DType::f32);
    for (const int s : {0, 1}) {
      for (const Spread& scale : factors[s].scales) {
        product = builder.mul(product, builder.cast(spread(builder, scale, sides[s], shape), DType::f32));
      }
    }
    return builder.cast(product, dtype);
  }

  /// A value along axes of an operand, spread over the result.
  static Value* spread(Builder& builder, const Spread& what, const Side& side, const Shape& shape) {
    return spread_over(builder, what, side.places(), shape);
  }

  /// sum (a - y)(b - z) = sum a b - y sum b - z sum a + K y z, in i32, where what leaves its range comes back.
  Value* without_zero_points(Builder& builder, const Node& node, const Node& of_bytes, const Factor (&factors)[2], const Side (&sides)[2]) {
    Value* product = of_bytes.result();
    const Shape shape = rules::shape_of(product);
    Value* points[2] = {};
    for (const int s : {0, 1}) {
      if (!factors[s].zero_point) continue;
      points[s] = spread(builder, *factors[s].zero_point, sides[s], shape);
      const int other = 1 - s;
      Spread sums{sums_of(builder, of_bytes, other), {}, {}};
      for (int64_t axis = 0; axis < sides[other].rank(); ++axis) {
        if (!contains(sides[other].contract, axis) && rules::extent_of(node.operand(other), axis) != 1) sums.dims.push_back(axis);
      }
      sums.blocks.assign(sums.dims.size(), 1);
      product = builder.sub(product, builder.mul(spread(builder, sums, sides[other], shape), points[s]));
    }
    if (points[0] == nullptr || points[1] == nullptr) return product;
    Value* both = builder.mul(builder.mul(points[0], points[1]),
                              builder.full_int(DType::i32, shape, rules::extent_over(node.operand(0), sides[0].contract)));
    return builder.add(product, both);
  }

  /// Of the elements of one side along the sum, in i32: a constant where they are.
  Value* sums_of(Builder& builder, const Node& product, int side) {
    Value* bytes = product.operand(side);
    const Axes axes = product.attrs.get_ints(side == 0 ? "lhs_contract" : "rhs_contract");
    if (const Tensor* tensor = rewriter_.constant(bytes)) {
      Region scratch;
      Builder apart(graph_, scratch, builder.loc());
      std::optional<std::vector<Tensor>> values = std::vector<Tensor>{*tensor};
      Value* sums = apart.reduce(Op::reduce_sum_, apart.cast(bytes, DType::i32), axes);
      for (const Node* node : scratch.nodes) {
        if (values) values = evaluate_cheap_node(*node, *values);
      }
      if (values) return builder.constant(std::move(values->front()), sums->name);
    }
    return builder.reduce(Op::reduce_sum_, builder.cast(bytes, DType::i32), axes);
  }
};

}  // namespace

void multiply_quantized(Graph& graph, bool keep_parameters) {
  Multiplier(graph, keep_parameters).run();
  multiply_narrow(graph, keep_parameters);
  eliminate_dead_code(graph);
}

}  // namespace tcc
