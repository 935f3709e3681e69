// The small vocabulary in which handlers write formulas: sizes as values, element-wise arithmetic in the order it is read.
#pragma once

#include <algorithm>

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
    if (axes.size() == 1 && axes[0] >= 0 && x->type.is_static() && axes[0] <= x->type.rank()) {
      Shape extended = x->type.shape();
      extended.insert(extended.begin() + static_cast<std::ptrdiff_t>(axes[0]), 1);
      return node_.build().reshape(x, extended);
    }
    std::string name = "axes";
    for (const int64_t axis : axes) name += "_" + std::to_string(axis);
    return node_.emit(Op::dynamic_unsqueeze_, {x, node_.ints(std::move(axes), name)});
  }
  /// The elements [start, end) of an axis (not negative).
  Value* part(Value* x, int64_t start, int64_t end, int64_t axis) {
    if (x->type.is_static() && axis < x->type.rank()) {
      Shape starts(static_cast<size_t>(x->type.rank()), 0), limits = x->type.shape();
      starts[static_cast<size_t>(axis)] = std::min(start, limits[static_cast<size_t>(axis)]);
      limits[static_cast<size_t>(axis)] = std::min(end, limits[static_cast<size_t>(axis)]);
      return node_.build().slice(x, starts, limits);
    }
    return node_.emit(Op::dynamic_slice_, {x, node_.ints({start}, "start"), node_.ints({end}, "end"), node_.ints({axis}, "axis")});
  }
  /// Element i of an axis (not negative), which leaves the shape.
  Value* element(Value* x, int64_t i, int64_t axis) {
    Value* one = part(x, i, i + 1, axis);
    if (!one->type.is_static()) return node_.emit(Op::dynamic_squeeze_, {one, node_.ints({axis}, "axis")});
    Shape shape = one->type.shape();
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    return node_.build().reshape(one, shape);
  }
  /// Values of one shape along a new axis.
  Value* stacked(std::vector<Value*> values, int64_t axis) {
    for (Value*& value : values) value = unsqueeze(value, {axis});
    return values.size() == 1 ? values[0] : join(std::move(values), axis);
  }
  /// Zeros of the type of x.
  Value* zeros_of(Value* x) {
    const DType dtype = x->type.dtype;
    if (x->type.is_static()) return node_.build().full(dtype, x->type.shape(), 0);
    return node_.emit(Op::dynamic_expand_, {number(dtype, 0), shape(x)});
  }
  /// In a shape that is known.
  Value* reshaped(Value* x, const Shape& known) {
    if (x->type.is_static()) return node_.build().reshape(x, known);
    return node_.emit(Op::dynamic_reshape_, {x, node_.ints(known, "shape")}, {{"allowzero", true}});
  }
  Value* reshape(Value* x, Value* shape) { return node_.emit(Op::dynamic_reshape_, {x, shape}, {{"allowzero", false}}); }
  Value* transpose(Value* x, std::vector<int64_t> permutation) {
    return node_.emit(Op::transpose_, {x}, {{"permutation", std::move(permutation)}});
  }

 private:
  NodeContext& node_;
};

}  // namespace tcc::onnx
