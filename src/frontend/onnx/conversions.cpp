// The cast of the graph saturates to the 8-bit floats; where it should not, the bits of the result are replaced. Types that the graph does not have
// (narrow_types.h) are reached by arithmetic: x is rounded to a number of the type, and that number is exact in the dtype that carries it.
#include "frontend/onnx/conversions.h"

#include <cmath>

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

class Converter {
 public:
  explicit Converter(NodeContext& node) : node_(node), m_(node) {}

  /// x in a float of at least 32 bits.
  Value* wide(Value* x) { return is_float(x->type.dtype) && size_bits(x->type.dtype) >= 32 ? x : m_.cast(x, DType::f32); }

  Value* without_saturation(Value* x, DType to) {
    const Overflow overflow = overflow_of(to);
    x = wide(x);
    Value* size = node_.emit(Op::abs_, {x});
    Value* beyond = node_.emit(overflow.at_midpoint ? Op::ge_ : Op::gt_, {size, node_.scalar(x->type.dtype, overflow.from)});
    Value* bits = bitcast(m_.cast(x, to), DType::u8);
    Value* code = integer(DType::u8, overflow.code);
    if (overflow.has_sign) code = node_.emit(Op::or_, {sign_of(bits), code});
    return bitcast(m_.select(beyond, code, bits), to);
  }

  /// To a float of 4 or 6 bits, which has neither infinity nor NaN: what is too large becomes the largest number, NaN becomes 0.
  Value* to_small_float(Value* x, const NarrowType& type) {
    x = wide(x);
    const DType dtype = x->type.dtype;
    Value* size = node_.emit(Op::min_, {node_.emit(Op::abs_, {x}), m_.number(dtype, type.largest)});
    // The distance of neighbours doubles with each power of two from the smallest normal number on.
    double power = std::ldexp(2.0, 1 - type.bias), distance = std::ldexp(1.0, 1 - type.bias - type.mantissa_bits);
    Value* step = m_.number(dtype, distance);
    for (; power <= type.largest; power *= 2) {
      distance *= 2;
      step = m_.select(node_.emit(Op::ge_, {size, m_.number(dtype, power)}), m_.number(dtype, distance), step);
    }
    Value* rounded = m_.mul(node_.emit(Op::round_even_, {m_.div(size, step)}), step);
    rounded = m_.select(node_.emit(Op::isnan_, {x}), m_.number(dtype, 0), rounded);
    Value* code = bitcast(m_.cast(rounded, type.carrier), DType::u8);
    return bitcast(node_.emit(Op::or_, {code, sign_of(bitcast(m_.cast(x, type.carrier), DType::u8))}), type.carrier);
  }

  /// To a power of two. The sign is dropped; ONNX leaves negative numbers open.
  Value* to_power_of_two(Value* x, const Rounding& rounding) {
    Value* bits = node_.emit(Op::and_, {bitcast(m_.cast(x, DType::f32), DType::i32), integer(DType::i32, 0x7fffffff)});
    Value* exponent = m_.select(lt(bits, kSmallestNormal), exponent_of_subnormal(bits, rounding.mode), exponent_of(bits, rounding.mode));
    Value* beyond = node_.emit(Op::gt_, {bits, integer(DType::i32, kInfinity)});  // NaN
    if (rounding.saturate) {
      exponent = node_.emit(Op::min_, {exponent, integer(DType::i32, 254)});
    } else {
      beyond = node_.emit(Op::or_, {beyond, node_.emit(Op::or_, {lt(bits, kSmallestPower), lt(integer(DType::i32, 254), exponent)})});
    }
    return power_of_code(m_.select(beyond, integer(DType::i32, 255), exponent));
  }

  /// The low bits of an integer, as those of the 2-bit type.
  Value* to_two_bits(Value* x, const NarrowType& type) {
    Value* low = node_.emit(Op::and_, {m_.cast(x, DType::i32), integer(DType::i32, 3)});
    if (is_signed_integer(type.carrier)) low = m_.sub(node_.emit(Op::xor_, {low, integer(DType::i32, 2)}), integer(DType::i32, 2));
    return m_.cast(low, type.carrier);
  }

  /// The bits of an element, as an i32 that is not negative.
  Value* bits_of(Value* x, const NarrowType& type) {
    if (!type.is_small_float() && !type.is_power_of_two()) return node_.emit(Op::and_, {m_.cast(x, DType::i32), integer(DType::i32, 3)});
    if (type.is_power_of_two()) {  // bf16 has eight bits of exponent; 2^-127 is subnormal
      Value* bits = m_.cast(bitcast(x, DType::u16), DType::i32);
      Value* code = node_.emit(Op::and_, {node_.emit(Op::shr_, {bits, integer(DType::i32, 7)}), integer(DType::i32, 255)});
      return m_.select(node_.emit(Op::isnan_, {x}), integer(DType::i32, 255), code);
    }
    Value* bits = m_.cast(bitcast(x, DType::u8), DType::i32);  // 1 + 4 + 3 bits; f4e2m1 is 1 + 2 + 1
    Value* size = node_.emit(Op::and_, {bits, integer(DType::i32, 0x7f)});
    Value* normal = m_.sub(node_.emit(Op::shr_, {size, integer(DType::i32, 2)}), integer(DType::i32, kExponentsBetween));
    Value* code =
        m_.select(lt(size, kHalfInE4m3), integer(DType::i32, 0), m_.select(lt(size, kHalfInE4m3 + 1), integer(DType::i32, 1), normal));
    Value* sign = node_.emit(Op::shr_, {node_.emit(Op::and_, {bits, integer(DType::i32, 0x80)}), integer(DType::i32, 4)});
    return node_.emit(Op::or_, {code, sign});
  }

  /// The element with these bits, an i32.
  Value* element_with(Value* bits, const NarrowType& type) {
    if (type.is_power_of_two()) return power_of_code(node_.emit(Op::and_, {bits, integer(DType::i32, 255)}));
    if (!type.is_small_float()) return to_two_bits(bits, type);
    Value* size = node_.emit(Op::and_, {bits, integer(DType::i32, 7)});
    Value* normal = node_.emit(Op::shl_, {m_.add(size, integer(DType::i32, kExponentsBetween)), integer(DType::i32, 2)});
    Value* code = m_.select(lt(size, 1), integer(DType::i32, 0), m_.select(lt(size, 2), integer(DType::i32, kHalfInE4m3), normal));
    Value* sign = node_.emit(Op::shl_, {node_.emit(Op::and_, {bits, integer(DType::i32, 8)}), integer(DType::i32, 4)});
    return bitcast(m_.cast(node_.emit(Op::or_, {code, sign}), DType::u8), type.carrier);
  }

  Value* bitcast(Value* x, DType dtype) { return x->type.dtype == dtype ? x : node_.emit(Op::bitcast_, {x}, {{"dtype", dtype}}); }

 private:
  // Bits of numbers of f32: 2^-126, 2^-127 and infinity.
  static constexpr int64_t kSmallestNormal = 0x800000, kSmallestPower = 0x400000, kInfinity = 0x7f800000;
  static constexpr int64_t kHalfInE4m3 = 0x30;      ///< the bits of 0.5, which is subnormal in f4e2m1
  static constexpr int64_t kExponentsBetween = 12;  ///< the difference of the biases, above one bit of mantissa

  Value* integer(DType dtype, int64_t value) { return node_.build().full_int(dtype, {}, value); }
  Value* lt(Value* a, int64_t b) { return lt(a, integer(a->type.dtype, b)); }
  Value* lt(Value* a, Value* b) { return node_.emit(Op::lt_, {a, b}); }
  Value* sign_of(Value* bits) { return node_.emit(Op::and_, {bits, integer(DType::u8, 0x80)}); }

  /// The exponent of the power of two near a positive f32, biased by 127; what is added carries into it where the power above is taken.
  Value* exponent_of(Value* bits, const std::string& mode) {
    const int64_t carry = mode == "up" ? 0x7fffff : mode == "nearest" ? 0x400000 : 0;
    // The sum of infinity and the carry still fits.
    return node_.emit(Op::shr_, {m_.add(bits, integer(DType::i32, carry)), integer(DType::i32, 23)});
  }

  /// Below 2^-126 there is only 2^-127, with exponent 0.
  Value* exponent_of_subnormal(Value* bits, const std::string& mode) {
    if (mode == "down") return integer(DType::i32, 0);
    const int64_t last = mode == "up" ? kSmallestPower + 1 : kSmallestPower + kSmallestPower / 2;  // the first that goes up
    return m_.select(lt(bits, last), integer(DType::i32, 0), integer(DType::i32, 1));
  }

  Value* power_of_code(Value* code) {
    Value* subnormal_or_nan = node_.emit(Op::or_, {lt(code, 1), lt(integer(DType::i32, 254), code)});
    Value* bits = node_.emit(Op::shl_, {code, integer(DType::i32, 7)});
    bits = node_.emit(Op::or_, {bits, m_.select(subnormal_or_nan, integer(DType::i32, 0x40), integer(DType::i32, 0))});
    return bitcast(m_.cast(bits, DType::u16), DType::bf16);
  }

  NodeContext& node_;
  Arithmetic m_;
};

bool is_float8(DType dtype) { return is_float(dtype) && size_bits(dtype) == 8; }

}  // namespace

Value* converted(NodeContext& node, Value* x, ElementType to, const Rounding& rounding) {
  Converter converter(node);
  Builder& b = node.build();
  if (to.narrow != nullptr) {
    if (to.narrow->is_power_of_two()) return converter.to_power_of_two(x, rounding);
    if (to.narrow->is_small_float()) return converter.to_small_float(x, *to.narrow);
    return converter.to_two_bits(x, *to.narrow);
  }
  if (is_float8(to.dtype) && !rounding.saturate) return converter.without_saturation(x, to.dtype);
  // To its own type nothing would be rounded, and infinity be kept.
  if (to.dtype == DType::f8e5m2 && x->type.dtype == to.dtype) x = b.cast(x, DType::f32);
  // ONNX leaves floats beyond the range of an integer open. The 4-bit types take the low bits, as its reference does.
  if (size_bits(to.dtype) == 4 && is_float(x->type.dtype)) x = b.cast(x, DType::i32);
  return node.emit(Op::cast_, {x}, {{"dtype", to.dtype}});
}

Value* with_same_bits(NodeContext& node, Value* x, ElementType from, ElementType to) {
  Converter converter(node);
  if (from.narrow == nullptr && to.narrow == nullptr && to.dtype != DType::boolean)
    return node.emit(Op::bitcast_, {x}, {{"dtype", to.dtype}});
  Builder& b = node.build();
  // As an integer without sign of the width, whatever both are.
  Value* bits = x;
  if (from.narrow != nullptr) bits = converter.bits_of(x, *from.narrow);
  else bits = b.cast(converter.bitcast(x, size_bits(from.dtype) == 4 ? DType::u4 : DType::u8), DType::i32);
  if (to.narrow != nullptr) return converter.element_with(bits, *to.narrow);
  // A bool is 0 or 1: any bit makes it true.
  if (to.dtype == DType::boolean) return node.emit(Op::ne_, {bits, b.full_int(DType::i32, {}, 0)});
  return converter.bitcast(b.cast(bits, size_bits(to.dtype) == 4 ? DType::u4 : DType::u8), to.dtype);
}

Value* clamped_to(NodeContext& node, Value* x, const NarrowType& type) {
  Arithmetic m(node);
  const auto largest = static_cast<int64_t>(type.largest), least = is_signed_integer(type.carrier) ? -largest - 1 : 0;
  Builder& b = node.build();
  Value* wide = m.cast(x, DType::i32);
  wide = node.emit(Op::max_, {node.emit(Op::min_, {wide, b.full_int(DType::i32, {}, largest)}), b.full_int(DType::i32, {}, least)});
  return m.cast(wide, type.carrier);
}

int width_of(ElementType type) { return type.narrow != nullptr ? type.narrow->bits : size_bits(type.dtype); }

std::string name_of(ElementType type) { return std::string(type.narrow != nullptr ? type.narrow->name : tcc::name_of(type.dtype)); }

}  // namespace tcc::onnx
