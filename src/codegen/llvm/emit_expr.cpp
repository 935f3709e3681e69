// Scalar expressions: the pointwise prims, casts and constants, on scalars or lanes.
#include <llvm/IR/Constants.h>

#include <cmath>

#include "codegen/llvm/emitter.h"
#include "codegen/math/math.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

llvm::Value* Emitter::emit_expr(const loop::ExprPtr& expr) {
  switch (expr->kind) {
    case loop::Expr::Kind::constant:
      if (is_float8(expr->dtype)) return builder_.getInt8(f32_to_f8(expr->dtype, static_cast<float>(expr->float_value)));
      if (expr->dtype == DType::bf16 && !has_bf16_conversions())
        return builder_.getInt16(f32_to_bf16(static_cast<float>(expr->float_value)));
      if (is_float(expr->dtype)) return llvm::ConstantFP::get(register_type(expr->dtype), expr->float_value);
      return llvm::ConstantInt::get(register_type(expr->dtype), static_cast<uint64_t>(expr->int_value), is_signed_integer(expr->dtype));
    case loop::Expr::Kind::index: {
      llvm::Value* value = emit_index(expr->index);
      llvm::Type* type = register_type(DType::i64);
      if (varies(value)) type = llvm::VectorType::get(type, llvm::cast<llvm::VectorType>(value->getType()));
      return builder_.CreateSExtOrTrunc(value, type);
    }
    case loop::Expr::Kind::scalar: {
      auto it = scalars_.find(expr->scalar.get());
      if (it == scalars_.end()) fail("scalar %" + expr->scalar->name + " is not defined here");
      return it->second;
    }
    case loop::Expr::Kind::load: return emit_load(*expr);
    case loop::Expr::Kind::op: return emit_op(*expr);
  }
  fail("unknown expression");
}

llvm::Value* Emitter::emit_op(const loop::Expr& expr) {
  if (expr.op == Op::check_index_) return emit_check_index(expr);
  DType operand = expr.args[0]->dtype;
  std::vector<llvm::Value*> args;
  for (const loop::ExprPtr& arg : expr.args) args.push_back(emit_expr(arg));
  switch (expr.op) {
    case Op::cast_: return emit_cast(args[0], operand, expr.dtype);
    case Op::bitcast_: {
      if (operand == DType::boolean || expr.dtype == DType::boolean)  // a bit in a register, a byte to other dtypes
        return operand == expr.dtype ? args[0] : operand == DType::boolean ? to_memory(args[0], operand) : from_memory(args[0], expr.dtype);
      llvm::Type* type = register_type(expr.dtype);
      if (varies(args[0])) type = llvm::VectorType::get(type, llvm::cast<llvm::VectorType>(args[0]->getType()));
      return builder_.CreateBitCast(args[0], type);
    }
    case Op::select_: unify(args); return builder_.CreateSelect(args[0], args[1], args[2]);
    case Op::not_: return builder_.CreateNot(args[0]);
    default: break;
  }
  unify(args);
  if (compute_dtype(operand) != operand) {  // narrower than f32: computed in f32, rounded to the operands' dtype
    for (llvm::Value*& arg : args) arg = emit_cast(arg, operand, DType::f32);
    llvm::Value* result = emit_marked(expr, DType::f32, args);
    return expr.dtype == DType::boolean ? result : emit_cast(result, DType::f32, expr.dtype);
  }
  return emit_marked(expr, operand, args);
}

llvm::Value* Emitter::emit_marked(const loop::Expr& expr, DType dtype, const std::vector<llvm::Value*>& args) {
  llvm::Value* approximate = expr.approximate ? emit_approximate(expr.op, args) : nullptr;
  return approximate ? approximate : emit_arithmetic(expr.op, dtype, args);
}

llvm::Value* Emitter::emit_arithmetic(Op op, DType dtype, const std::vector<llvm::Value*>& args) {
  return is_float(dtype) ? emit_float_arithmetic(op, args) : emit_integer_arithmetic(op, dtype, args);
}

llvm::Value* Emitter::emit_float_arithmetic(Op op, const std::vector<llvm::Value*>& args) {
  llvm::Value* a = args[0];
  llvm::Value* b = args.size() > 1 ? args[1] : nullptr;
  Lane x{&builder_, a};
  Lane y{&builder_, b};
  // A product that feeds a sum may become one fma: fewer roundings, as both targets do by default. Nothing else is relaxed.
  llvm::IRBuilderBase::FastMathFlagGuard guard(builder_);
  llvm::FastMathFlags flags;
  auto contracted = [&](auto make) {
    flags.setAllowContract();
    builder_.setFastMathFlags(flags);
    return make();
  };
  switch (op) {
    case Op::neg_: return builder_.CreateFNeg(a);
    case Op::abs_: return fabs(x).value;
    case Op::sign_: return select(x == 0.0, x, select(is_nan(x), x, copysign(x.like(1.0), x))).value;
    case Op::ceil_: return x.call(llvm::Intrinsic::ceil, {a}).value;
    case Op::floor_: return floor(x).value;
    case Op::trunc_: return trunc(x).value;
    case Op::round_even_: return x.call(llvm::Intrinsic::rint, {a}).value;
    case Op::sqrt_: return sqrt(x).value;
    case Op::rsqrt_: return (1.0 / sqrt(x)).value;
    case Op::recip_: return (1.0 / x).value;
    case Op::isnan_: return is_nan(x).value;
    case Op::isinf_: return (fabs(x) == INFINITY).value;
    case Op::isfinite_: return (fabs(x) < INFINITY).value;
    case Op::add_: return contracted([&] { return builder_.CreateFAdd(a, b); });
    case Op::sub_: return contracted([&] { return builder_.CreateFSub(a, b); });
    case Op::mul_: return contracted([&] { return builder_.CreateFMul(a, b); });
    case Op::div_: return builder_.CreateFDiv(a, b);
    case Op::rem_: return emit_fmod(x, y).value;
    case Op::mod_: {  // the remainder moved to the divisor's sign
      Lane r = emit_fmod(x, y);
      Lane differs = (r < 0.0) ^ (y < 0.0);
      return select(r == 0.0, copysign(r, y), select(differs, r + y, r)).value;
    }
    case Op::pow_: return emit_pow(x, y).value;
    case Op::atan2_: return emit_atan2(x, y).value;
    case Op::max_: return emit_extreme(true, a, b);
    case Op::min_: return emit_extreme(false, a, b);
    case Op::clamp_: return emit_extreme(false, emit_extreme(true, a, b), args[2]);
    case Op::fma_: return fma(x, y, Lane{&builder_, args[2]}).value;
    case Op::eq_: return builder_.CreateFCmpOEQ(a, b);
    case Op::ne_: return builder_.CreateFCmpUNE(a, b);
    case Op::lt_: return builder_.CreateFCmpOLT(a, b);
    case Op::le_: return builder_.CreateFCmpOLE(a, b);
    case Op::gt_: return builder_.CreateFCmpOGT(a, b);
    case Op::ge_: return builder_.CreateFCmpOGE(a, b);
    default:
      if (is_transcendental(op)) return emit_unary_math(op, x).value;
      fail("no code for `" + std::string(name_of(op)) + "` on floats");
  }
}

// Square and multiply over the exponent's bits; a negative exponent gives 0, or +-1 for base +-1.
llvm::Value* Emitter::emit_integer_pow(llvm::Value* a, llvm::Value* b, bool is_signed) {
  auto constant = [&](int64_t value) { return llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(value), true); };
  llvm::Value* result = constant(1);
  llvm::Value* base = a;
  llvm::Value* exponent = b;
  for (unsigned bit = 0; bit < 32; ++bit) {
    llvm::Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(exponent, constant(1)), constant(0));
    result = builder_.CreateSelect(odd, builder_.CreateMul(result, base), result);
    base = builder_.CreateMul(base, base);
    exponent = builder_.CreateLShr(exponent, constant(1));
  }
  if (!is_signed) return result;
  llvm::Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(b, constant(1)), constant(0));
  llvm::Value* unit = builder_.CreateSelect(
      builder_.CreateICmpEQ(a, constant(1)), constant(1),
      builder_.CreateSelect(builder_.CreateICmpEQ(a, constant(-1)), builder_.CreateSelect(odd, constant(-1), constant(1)), constant(0)));
  return builder_.CreateSelect(builder_.CreateICmpSLT(b, constant(0)), unit, result);
}

// A shift by the width or more leaves nothing (or the sign).
llvm::Value* Emitter::emit_shift(bool left, llvm::Value* a, llvm::Value* b, bool is_signed) {
  auto constant = [&](int64_t value) { return llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(value), true); };
  llvm::Value* width = constant(a->getType()->getScalarSizeInBits());
  llvm::Value* fits = builder_.CreateICmpULT(b, width);
  llvm::Value* amount = builder_.CreateSelect(fits, b, constant(a->getType()->getScalarSizeInBits() - 1));
  if (!left && is_signed) return builder_.CreateAShr(a, amount);
  llvm::Value* moved = left ? builder_.CreateShl(a, amount) : builder_.CreateLShr(a, amount);
  return builder_.CreateSelect(fits, moved, constant(0));
}

llvm::Value* Emitter::emit_division(bool remainder, bool is_signed, llvm::Value* a, llvm::Value* b) {
  using Binary = llvm::Instruction::BinaryOps;
  const Binary operation = remainder ? (is_signed ? Binary::SRem : Binary::URem) : (is_signed ? Binary::SDiv : Binary::UDiv);
  auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  if (!lanes || lanes->getScalarSizeInBits() > 16 || divides_narrow_vectors()) return builder_.CreateBinOp(operation, a, b);
  llvm::Value* result = llvm::PoisonValue::get(lanes);
  for (unsigned lane = 0; lane < lanes->getNumElements(); ++lane) {
    llvm::Value* one = builder_.CreateBinOp(operation, builder_.CreateExtractElement(a, lane), builder_.CreateExtractElement(b, lane));
    result = builder_.CreateInsertElement(result, one, lane);
  }
  return result;
}

llvm::Value* Emitter::emit_integer_arithmetic(Op op, DType dtype, const std::vector<llvm::Value*>& args) {
  llvm::Value* a = args[0];
  llvm::Value* b = args.size() > 1 ? args[1] : nullptr;
  bool is_signed = is_signed_integer(dtype);
  auto* type = a->getType();
  auto constant = [&](int64_t value) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(value), true); };
  auto compare = [&](llvm::CmpInst::Predicate s, llvm::CmpInst::Predicate u) { return builder_.CreateICmp(is_signed ? s : u, a, b); };
  auto less = [&](llvm::Value* p, llvm::Value* q) { return is_signed ? builder_.CreateICmpSLT(p, q) : builder_.CreateICmpULT(p, q); };
  // Division never traps: by zero gives 0; the smallest value by -1 wraps.
  auto divide = [&](bool remainder) {
    llvm::Value* zero = builder_.CreateICmpEQ(b, constant(0));
    llvm::Value* unsafe = is_signed ? builder_.CreateOr(zero, builder_.CreateICmpEQ(b, constant(-1))) : zero;
    llvm::Value* divisor = builder_.CreateSelect(unsafe, constant(1), b);
    llvm::Value* regular = emit_division(remainder, is_signed, a, divisor);
    if (remainder) return regular;  // by 0 and by -1: the remainder by 1, which is 0
    llvm::Value* result =
        is_signed ? builder_.CreateSelect(builder_.CreateICmpEQ(b, constant(-1)), builder_.CreateNeg(a), regular) : regular;
    return builder_.CreateSelect(zero, constant(0), result);
  };
  switch (op) {
    case Op::neg_: return builder_.CreateNeg(a);
    case Op::abs_: return is_signed ? builder_.CreateSelect(builder_.CreateICmpSLT(a, constant(0)), builder_.CreateNeg(a), a) : a;
    case Op::sign_: {
      llvm::Value* positive =
          builder_.CreateZExt(is_signed ? builder_.CreateICmpSGT(a, constant(0)) : builder_.CreateICmpNE(a, constant(0)), type);
      return is_signed ? builder_.CreateOr(positive, builder_.CreateAShr(a, constant(type->getScalarSizeInBits() - 1))) : positive;
    }
    case Op::add_: return dtype == DType::boolean ? builder_.CreateOr(a, b) : builder_.CreateAdd(a, b);
    case Op::sub_: return builder_.CreateSub(a, b);
    case Op::mul_: return dtype == DType::boolean ? builder_.CreateAnd(a, b) : builder_.CreateMul(a, b);
    case Op::div_: return divide(false);
    case Op::rem_: return divide(true);
    case Op::mod_: {
      llvm::Value* r = divide(true);
      if (!is_signed) return r;
      llvm::Value* differs = builder_.CreateICmpSLT(builder_.CreateXor(r, b), constant(0));
      llvm::Value* nonzero = builder_.CreateICmpNE(r, constant(0));
      return builder_.CreateSelect(builder_.CreateAnd(differs, nonzero), builder_.CreateAdd(r, b), r);
    }
    case Op::pow_: return emit_integer_pow(a, b, is_signed);
    case Op::max_: return builder_.CreateSelect(less(a, b), b, a);
    case Op::min_: return builder_.CreateSelect(less(b, a), b, a);
    case Op::clamp_: {
      llvm::Value* raised = builder_.CreateSelect(less(a, b), b, a);
      return builder_.CreateSelect(less(args[2], raised), args[2], raised);
    }
    case Op::fma_: return builder_.CreateAdd(builder_.CreateMul(a, b), args[2]);
    case Op::and_: return builder_.CreateAnd(a, b);
    case Op::or_: return builder_.CreateOr(a, b);
    case Op::xor_: return builder_.CreateXor(a, b);
    case Op::shl_:
    case Op::shr_: return emit_shift(op == Op::shl_, a, b, is_signed);
    case Op::eq_: return builder_.CreateICmpEQ(a, b);
    case Op::ne_: return builder_.CreateICmpNE(a, b);
    case Op::lt_: return compare(llvm::CmpInst::ICMP_SLT, llvm::CmpInst::ICMP_ULT);
    case Op::le_: return compare(llvm::CmpInst::ICMP_SLE, llvm::CmpInst::ICMP_ULE);
    case Op::gt_: return compare(llvm::CmpInst::ICMP_SGT, llvm::CmpInst::ICMP_UGT);
    case Op::ge_: return compare(llvm::CmpInst::ICMP_SGE, llvm::CmpInst::ICMP_UGE);
    case Op::isnan_:
    case Op::isinf_:
    case Op::isfinite_: {
      llvm::Type* flag = builder_.getInt1Ty();
      if (type->isVectorTy()) flag = llvm::VectorType::get(flag, llvm::cast<llvm::VectorType>(type));
      return op == Op::isfinite_ ? llvm::Constant::getAllOnesValue(flag) : llvm::Constant::getNullValue(flag);
    }
    case Op::ceil_:
    case Op::floor_:
    case Op::trunc_:
    case Op::round_even_: return a;
    default: fail("no code for `" + std::string(name_of(op)) + "` on integers");
  }
}

// Float to integer saturates and takes NaN to 0; wider to narrower integers wrap; to bool: not zero.
llvm::Value* Emitter::emit_cast(llvm::Value* value, DType from, DType to) {
  if (from == to) return value;
  auto lanes_of = [&](llvm::Type* element) -> llvm::Type* {
    return varies(value) ? llvm::VectorType::get(element, llvm::cast<llvm::VectorType>(value->getType())) : element;
  };
  if (is_float8(from)) return emit_cast(float8_to_float(value, from), DType::f32, to);
  if (is_float8(to)) return float_to_float8(emit_cast(value, from, DType::f32), to);
  if (from == DType::bf16 && !has_bf16_conversions()) {  // the upper half of an f32
    llvm::Type* i32 = lanes_of(builder_.getInt32Ty());
    llvm::Value* bits = builder_.CreateZExt(value, i32);
    llvm::Value* single =
        builder_.CreateBitCast(builder_.CreateShl(bits, llvm::ConstantInt::get(i32, 16)), lanes_of(builder_.getFloatTy()));
    return emit_cast(single, DType::f32, to);
  }
  if (to == DType::bf16 && !has_bf16_conversions()) {  // to nearest even: add half of the last place, less one when it is even
    llvm::Value* single = emit_cast(value, from, DType::f32);
    llvm::Type* i32 = lanes_of(builder_.getInt32Ty());
    auto constant = [&](uint64_t v) { return llvm::ConstantInt::get(i32, v); };
    llvm::Value* bits = builder_.CreateBitCast(single, i32);
    llvm::Value* odd = builder_.CreateAnd(builder_.CreateLShr(bits, constant(16)), constant(1));
    llvm::Value* rounded = builder_.CreateAdd(bits, builder_.CreateAdd(odd, constant(0x7fff)));
    llvm::Value* quiet = builder_.CreateOr(bits, constant(0x400000));
    llvm::Value* chosen = builder_.CreateSelect(builder_.CreateFCmpUNO(single, single), quiet, rounded);
    return builder_.CreateTrunc(builder_.CreateLShr(chosen, constant(16)), lanes_of(builder_.getInt16Ty()));
  }
  if (auto* pairs = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
      pairs && from == DType::bf16 && to == DType::f32 && pairs->getNumElements() % 2 == 0) {
    // Two of a 32-bit word each: the lower moves up, of the upper the lower half is cleared.
    unsigned half = pairs->getNumElements() / 2;
    auto* words = llvm::FixedVectorType::get(builder_.getInt32Ty(), half);
    llvm::Value* word = builder_.CreateBitCast(value, words);
    llvm::Value* low = builder_.CreateShl(word, llvm::ConstantInt::get(words, 16));
    llvm::Value* high = builder_.CreateAnd(word, llvm::ConstantInt::get(words, 0xffff0000));
    llvm::SmallVector<int, 16> order;
    for (unsigned i = 0; i < half; ++i) order.append({static_cast<int>(i), static_cast<int>(half + i)});
    return builder_.CreateBitCast(builder_.CreateShuffleVector(low, high, order), lanes_of(builder_.getFloatTy()));
  }
  llvm::Type* type = lanes_of(register_type(to));
  bool from_unsigned = is_unsigned_integer(from) || from == DType::boolean;
  if (to == DType::boolean) {
    if (is_float(from)) return builder_.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
    return builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  }
  if (is_float(from) && is_float(to)) {
    if (from == DType::f64 && size_bits(to) == 16)
      value = builder_.CreateFPTrunc(value, lanes_of(builder_.getFloatTy()));  // through f32, as Tensor::cast_to
    if (size_bits(from) == 16 && size_bits(to) == 16) {
      value = builder_.CreateFPExt(value, lanes_of(builder_.getFloatTy()));
      return builder_.CreateFPTrunc(value, type);
    }
    return size_bits(from) < size_bits(to) ? builder_.CreateFPExt(value, type) : builder_.CreateFPTrunc(value, type);
  }
  if (is_float(from)) {
    if (size_bits(from) == 16) value = builder_.CreateFPExt(value, lanes_of(builder_.getFloatTy()));
    auto id = is_unsigned_integer(to) ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
    return builder_.CreateIntrinsic(id, {type, value->getType()}, {value});
  }
  if (is_float(to)) {
    if (size_bits(to) == 16) {  // through f32: integers that f32 cannot hold round twice, as everywhere in tcc
      llvm::Type* single = lanes_of(builder_.getFloatTy());
      llvm::Value* wide = from_unsigned ? builder_.CreateUIToFP(value, single) : builder_.CreateSIToFP(value, single);
      return builder_.CreateFPTrunc(wide, type);
    }
    return from_unsigned ? builder_.CreateUIToFP(value, type) : builder_.CreateSIToFP(value, type);
  }
  return from_unsigned ? builder_.CreateZExtOrTrunc(value, type) : builder_.CreateSExtOrTrunc(value, type);
}

}  // namespace tcc::codegen
