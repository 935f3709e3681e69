// multiply-quantized, of one factor: a product with dequantised weights reads their 4 or 8 bits, and widens them as it does.
//   in:   a canonical graph of prims        out: the same values but for rounding
//     %z: i32[1024, 768] = reshape(broadcast_in_dim(cast(@z)))                               @z: u4[32, 768], one for 32 inputs
//     %s: f32[1024, 768] = reshape(broadcast_in_dim(@s))                                     @s: f32[32, 768]
//     %w: f16[1024, 768] = cast(mul(mul(cast(sub(cast(@w), %z)), %s), broadcast_in_dim(@t))) @w: u4[1024, 768], @t: f32[768]
//     %y: f16[8, 768] = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0], ...}
//   becomes
//     %f: f16[768, 1024] = cast(mul(cast(sub(cast(@w.turned), %z.turned)), %s.turned))
//     %p: f32[8, 768] = dot_general(%x, %f) {lhs_contract=[1], rhs_contract=[1], ...}
//     %y: f16[8, 768] = cast(mul(%p, broadcast_in_dim(@t)))
// %f costs a few instructions an element and is read by the product alone: it joins its unit (group/merge_operands.cpp), whose schedule says where it is
// computed. Scales that are the same along the sum are multiplied behind it, once for each result, and not rounded to the dtype of the factor. An element less
// its zero point is exact in 16 bits.
// A constant is stored anew with the sum innermost: an access has neighbours along it, and blocks of scales are the same for all of them.
// Leaves alone: products of f64 and of integers, and of two factors that are both dequantised from 8 bits where their elements can be multiplied.

#include <cstdlib>
#include <utility>

#include "passes/quantized_factor.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

class NarrowMultiplier : public ProductReplacer {
 public:
  using ProductReplacer::ProductReplacer;

 private:
  static bool multiplies_in(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

  /// The side whose elements are widened: that of weights where both could be.
  std::optional<int> narrow_side(const Node& node, const std::optional<Factor> (&factors)[2]) const {
    if (!multiplies_in(node.result()->type.dtype)) return std::nullopt;
    std::optional<int> side;
    for (const int s : {0, 1}) {
      const bool widens = factors[s] && factors[s]->bytes != node.operand(s) && multiplies_in(node.operand(s)->type.dtype);
      if (widens && (!side || rewriter_.constant(factors[s]->bytes) != nullptr)) side = s;
    }
    return side;
  }

  Value* multiply(const Node& node, Builder& builder) override {
    const std::optional<Factor> factors[] = {factor_of(node.operand(0)), factor_of(node.operand(1))};
    const std::optional<int> s = narrow_side(node, factors);
    if (!s) return nullptr;
    const Factor& factor = *factors[*s];
    const Side left = side_of(node, 0, static_cast<int64_t>(node.attrs.get_ints("lhs_batch").size()));
    const Side side = *s == 0 ? left : side_of(node, 1, left.first_free + static_cast<int64_t>(left.free.size()));

    Attrs attrs = node.attrs;
    Value* seen = seen_bytes(builder, factor);
    Value* bytes = with_sum_inside(builder, rewriter_, graph_, seen, side, *s, attrs);
    std::vector<Spread> inside, behind;
    for (const Spread& scale : factor.scales) (varies_along_sum(scale, side) ? inside : behind).push_back(scale);
    std::vector<Value*> operands = node.operands;
    operands[static_cast<size_t>(*s)] = widened(builder, factor, bytes, inside, axes_of(side, bytes != seen), node.operand(*s)->type.dtype);
    const DType dtype = node.result()->type.dtype;
    if (!behind.empty()) attrs.set("dtype", DType::f32);
    Value* product = builder.emit(Op::dot_general_, std::move(operands), std::move(attrs));
    for (const Spread& scale : behind)
      product = builder.mul(product, builder.cast(spread_over(builder, scale, side.places(), rules::shape_of(product)), DType::f32));
    return builder.cast(product, dtype);
  }

  /// Where each axis of the operand is, with the sum inside or not.
  static Axes axes_of(const Side& side, bool is_turned) {
    Axes order, places(static_cast<size_t>(side.rank()));
    for (int64_t axis = 0; axis < side.rank(); ++axis) {
      if (!is_turned || !contains(side.contract, axis)) order.push_back(axis);
    }
    if (is_turned) order.insert(order.end(), side.contract.begin(), side.contract.end());
    for (size_t i = 0; i < order.size(); ++i) places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return places;
  }

  static bool is_exact_in_f32(const Value* point) {
    const Node* node = before_views(*point);
    if (node == nullptr) return false;
    if (node->op == Op::full_) return std::abs(splat_of_full(*node).integer) <= 255;
    return node->op == Op::cast_ && size_bits(node->operand(0)->type.dtype) <= 16;
  }

  static Value* widened(Builder& builder, const Factor& factor, Value* bytes, const std::vector<Spread>& scales, const Axes& places,
                        DType dtype) {
    const Shape shape = rules::shape_of(bytes);
    Value* value = bytes;
    if (factor.zero_point) {
      // The difference is exact in f32, too, which is one conversion an element and none of wider integers.
      const DType points = is_exact_in_f32(factor.zero_point->value) ? DType::f32 : factor.zero_point->value->type.dtype;
      value = builder.sub(builder.cast(value, points), builder.cast(spread_over(builder, *factor.zero_point, places, shape), points));
    }
    for (const Spread& scale : scales)
      value = builder.mul(builder.cast(value, DType::f32), builder.cast(spread_over(builder, scale, places, shape), DType::f32));
    return builder.cast(value, dtype);
  }
};

}  // namespace

void multiply_narrow(Graph& graph, bool keep_parameters) { NarrowMultiplier(graph, keep_parameters).run(); }

}  // namespace tcc
