// The small vocabulary in which handlers write formulas: sizes as values, element-wise arithmetic in the order it is read.
#pragma once

#include "frontend/onnx/context.h"

namespace tcc::onnx {

class Arithmetic {
 public:
  explicit Arithmetic(NodeContext& node) : node_(node) {}

  Value* number(DType dtype, double value) { return node_.scalar(dtype, value); }
  Value* add(Value* a, Value* b) { return node_.emit(Op::add_, {a, b}); }
  Value* sub(Value* a, Value* b) { return node_.emit(Op::sub_, {a, b}); }
  Value* mul(Value* a, Value* b) { return node_.emit(Op::mul_, {a, b}); }
  Value* div(Value* a, Value* b) { return node_.emit(Op::div_, {a, b}); }
  Value* select(Value* condition, Value* a, Value* b) { return node_.emit(Op::select_, {condition, a, b}); }
  Value* cast(Value* x, DType dtype) { return node_.build().cast(x, dtype); }
  Value* scale(double factor, Value* x) { return mul(number(x->type.dtype, factor), x); }
  Value* sqrt(Value* x) { return node_.emit(Op::sqrt_, {x}); }

  /// The size of an axis (not negative) as i64[1].
  Value* size(Value* x, int64_t axis) { return node_.emit(Op::shape_of_, {x}, {{"start", axis}, {"end", axis + 1}}); }
  Value* shape(Value* x) { return node_.emit(Op::shape_of_, {x}, {{"start", int64_t{0}}}); }
  /// A one-element value as rank 0.
  Value* scalar(Value* x) { return node_.emit(Op::dynamic_squeeze_, {x, node_.ints({0}, "first_axis")}); }
  Value* join(std::vector<Value*> values, int64_t axis) { return node_.emit(Op::concat_, std::move(values), {{"axis", axis}}); }
  /// 0, 1, ... below a rank-0 integer.
  Value* count_to(Value* end) {
    const DType dtype = end->type.dtype;
    return node_.emit(Op::range_, {node_.build().full_int(dtype, {}, 0), end, node_.build().full_int(dtype, {}, 1)});
  }
  Value* unsqueeze(Value* x, std::vector<int64_t> axes) {
    std::string name = "axes";
    for (const int64_t axis : axes) name += "_" + std::to_string(axis);
    return node_.emit(Op::dynamic_unsqueeze_, {x, node_.ints(std::move(axes), name)});
  }
  Value* reshape(Value* x, Value* shape) { return node_.emit(Op::dynamic_reshape_, {x, shape}, {{"allowzero", false}}); }
  Value* transpose(Value* x, std::vector<int64_t> permutation) {
    return node_.emit(Op::transpose_, {x}, {{"permutation", std::move(permutation)}});
  }

 private:
  NodeContext& node_;
};

}  // namespace tcc::onnx
