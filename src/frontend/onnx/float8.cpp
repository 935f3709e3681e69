// The cast of the graph saturates; where it should not, the bits of the result are replaced.
#include "frontend/onnx/float8.h"

#include "frontend/onnx/arithmetic.h"

namespace tcc::onnx {
namespace {

struct Overflow {
  double from;       ///< the midpoint between the largest number and the one that would follow
  bool at_midpoint;  ///< the largest is odd, so the midpoint rounds up
  int64_t code;      ///< without the sign where there is one
  bool has_sign;
};

Overflow overflow_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn: return {464, false, 0x7f, true};
    case DType::f8e4m3fnuz: return {248, true, 0x80, false};
    case DType::f8e5m2: return {61440, true, 0x7c, true};
    default: return {61440, true, 0x80, false};
  }
}

}  // namespace

Value* cast_without_saturation(NodeContext& node, Value* x, DType to) {
  Arithmetic m(node);
  Builder& b = node.build();
  const Overflow overflow = overflow_of(to);
  if (!is_float(x->type.dtype) || size_bits(x->type.dtype) < 32) x = m.cast(x, DType::f32);
  Value* size = node.emit(Op::abs_, {x});
  Value* beyond = node.emit(overflow.at_midpoint ? Op::ge_ : Op::gt_, {size, node.scalar(x->type.dtype, overflow.from)});
  Value* bits = node.emit(Op::bitcast_, {m.cast(x, to)}, {{"dtype", DType::u8}});
  Value* code = b.full_int(DType::u8, {}, overflow.code);
  if (overflow.has_sign) code = node.emit(Op::or_, {node.emit(Op::and_, {bits, b.full_int(DType::u8, {}, 0x80)}), code});
  return node.emit(Op::bitcast_, {m.select(beyond, code, bits)}, {{"dtype", to}});
}

}  // namespace tcc::onnx
