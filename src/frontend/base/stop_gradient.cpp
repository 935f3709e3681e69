#include "frontend/base/stop_gradient.h"

namespace tcc {

Value* stop_gradient(Builder& b, Value* x) {
  const DType dtype = x->type.dtype;
  const bool is_constant = x->weight != nullptr && !x->weight->from_model;
  if (!is_float(dtype) || is_constant) return x;
  const int bits = size_bits(dtype);
  const DType integer = bits == 64 ? DType::u64 : bits == 32 ? DType::u32 : bits == 16 ? DType::u16 : DType::u8;
  return b.emit(Op::bitcast_, {b.emit(Op::bitcast_, {x}, {{"dtype", integer}})}, {{"dtype", dtype}});
}

}  // namespace tcc
