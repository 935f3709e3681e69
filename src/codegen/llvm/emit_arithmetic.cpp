// The code of each pointwise prim, on scalars or lanes. A prim that is added to ops.def is missing in the switches below, which the compiler reports.
#include <llvm/IR/Constants.h>

#include <cmath>

#include "codegen/llvm/emitter.h"
#include "codegen/math/math.h"
#include "tcc/ops/pointwise.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

llvm::Value* Emitter::emit_arithmetic(Op op, DType dtype, const std::vector<llvm::Value*>& args) {
  const bool known = is_float(dtype) ? float_op(op).has_value() : integer_op(op).has_value();
  if (!known) fail("no code for `" + std::string(name_of(op)) + "` of " + std::string(name_of(dtype)));
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
  switch (*float_op(op)) {
    case FloatOp::neg_: return builder_.CreateFNeg(a);
    case FloatOp::abs_: return fabs(x).value;
    case FloatOp::sign_: return select(x == 0.0, x, select(is_nan(x), x, copysign(x.like(1.0), x))).value;
    case FloatOp::ceil_: return x.call(llvm::Intrinsic::ceil, {a}).value;
    case FloatOp::floor_: return floor(x).value;
    case FloatOp::trunc_: return trunc(x).value;
    case FloatOp::round_even_: return x.call(llvm::Intrinsic::rint, {a}).value;
    case FloatOp::sqrt_: return sqrt(x).value;
    case FloatOp::rsqrt_: return (1.0 / sqrt(x)).value;
    case FloatOp::recip_: return (1.0 / x).value;
    case FloatOp::isnan_: return is_nan(x).value;
    case FloatOp::isinf_: return (fabs(x) == INFINITY).value;
    case FloatOp::isfinite_: return (fabs(x) < INFINITY).value;
    case FloatOp::add_: return contracted([&] { return builder_.CreateFAdd(a, b); });
    case FloatOp::sub_: return contracted([&] { return builder_.CreateFSub(a, b); });
    case FloatOp::mul_: return contracted([&] { return builder_.CreateFMul(a, b); });
    case FloatOp::div_: return builder_.CreateFDiv(a, b);
    case FloatOp::rem_: return math::fmod(x, y).value;
    case FloatOp::mod_: {  // the remainder moved to the divisor's sign
      Lane r = math::fmod(x, y);
      Lane differs = (r < 0.0) ^ (y < 0.0);
      return select(r == 0.0, copysign(r, y), select(differs, r + y, r)).value;
    }
    case FloatOp::pow_: return math::pow(x, y).value;
    case FloatOp::atan2_: return math::atan2(x, y).value;
    case FloatOp::max_: return emit_extreme(true, a, b);
    case FloatOp::min_: return emit_extreme(false, a, b);
    case FloatOp::clamp_: return emit_extreme(false, emit_extreme(true, a, b), args[2]);
    case FloatOp::fma_: return fma(x, y, Lane{&builder_, args[2]}).value;
    case FloatOp::eq_: return builder_.CreateFCmpOEQ(a, b);
    case FloatOp::ne_: return builder_.CreateFCmpUNE(a, b);
    case FloatOp::lt_: return builder_.CreateFCmpOLT(a, b);
    case FloatOp::le_: return builder_.CreateFCmpOLE(a, b);
    case FloatOp::gt_: return builder_.CreateFCmpOGT(a, b);
    case FloatOp::ge_: return builder_.CreateFCmpOGE(a, b);
    case FloatOp::exp_: return math::exp(x).value;
    case FloatOp::exp2_: return math::exp2(x).value;
    case FloatOp::expm1_: return math::expm1(x).value;
    case FloatOp::log_: return math::log(x).value;
    case FloatOp::log2_: return math::log2(x).value;
    case FloatOp::log1p_: return math::log1p(x).value;
    case FloatOp::sin_: return math::sin(x).value;
    case FloatOp::cos_: return math::cos(x).value;
    case FloatOp::tan_: return math::tan(x).value;
    case FloatOp::asin_: return math::asin(x).value;
    case FloatOp::acos_: return math::acos(x).value;
    case FloatOp::atan_: return math::atan(x).value;
    case FloatOp::sinh_: return math::sinh(x).value;
    case FloatOp::cosh_: return math::cosh(x).value;
    case FloatOp::tanh_: return math::tanh(x).value;
    case FloatOp::asinh_: return math::asinh(x).value;
    case FloatOp::acosh_: return math::acosh(x).value;
    case FloatOp::atanh_: return math::atanh(x).value;
    case FloatOp::erf_: return math::erf(x).value;
  }
  fail("no code for `" + std::string(name_of(op)) + "` on floats");
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
  switch (*integer_op(op)) {
    case IntegerOp::neg_: return builder_.CreateNeg(a);
    case IntegerOp::abs_: return is_signed ? builder_.CreateSelect(builder_.CreateICmpSLT(a, constant(0)), builder_.CreateNeg(a), a) : a;
    case IntegerOp::sign_: {
      llvm::Value* positive =
          builder_.CreateZExt(is_signed ? builder_.CreateICmpSGT(a, constant(0)) : builder_.CreateICmpNE(a, constant(0)), type);
      return is_signed ? builder_.CreateOr(positive, builder_.CreateAShr(a, constant(type->getScalarSizeInBits() - 1))) : positive;
    }
    case IntegerOp::add_: return dtype == DType::boolean ? builder_.CreateOr(a, b) : builder_.CreateAdd(a, b);
    case IntegerOp::sub_: return builder_.CreateSub(a, b);
    case IntegerOp::mul_: return dtype == DType::boolean ? builder_.CreateAnd(a, b) : builder_.CreateMul(a, b);
    case IntegerOp::div_: return divide(false);
    case IntegerOp::rem_: return divide(true);
    case IntegerOp::mod_: {
      llvm::Value* r = divide(true);
      if (!is_signed) return r;
      llvm::Value* differs = builder_.CreateICmpSLT(builder_.CreateXor(r, b), constant(0));
      llvm::Value* nonzero = builder_.CreateICmpNE(r, constant(0));
      return builder_.CreateSelect(builder_.CreateAnd(differs, nonzero), builder_.CreateAdd(r, b), r);
    }
    case IntegerOp::pow_: return emit_integer_pow(a, b, is_signed);
    case IntegerOp::max_: return builder_.CreateSelect(less(a, b), b, a);
    case IntegerOp::min_: return builder_.CreateSelect(less(b, a), b, a);
    case IntegerOp::clamp_: {
      llvm::Value* raised = builder_.CreateSelect(less(a, b), b, a);
      return builder_.CreateSelect(less(args[2], raised), args[2], raised);
    }
    case IntegerOp::fma_: return builder_.CreateAdd(builder_.CreateMul(a, b), args[2]);
    case IntegerOp::and_: return builder_.CreateAnd(a, b);
    case IntegerOp::or_: return builder_.CreateOr(a, b);
    case IntegerOp::xor_: return builder_.CreateXor(a, b);
    case IntegerOp::shl_:
    case IntegerOp::shr_: return emit_shift(op == Op::shl_, a, b, is_signed);
    case IntegerOp::eq_: return builder_.CreateICmpEQ(a, b);
    case IntegerOp::ne_: return builder_.CreateICmpNE(a, b);
    case IntegerOp::lt_: return compare(llvm::CmpInst::ICMP_SLT, llvm::CmpInst::ICMP_ULT);
    case IntegerOp::le_: return compare(llvm::CmpInst::ICMP_SLE, llvm::CmpInst::ICMP_ULE);
    case IntegerOp::gt_: return compare(llvm::CmpInst::ICMP_SGT, llvm::CmpInst::ICMP_UGT);
    case IntegerOp::ge_: return compare(llvm::CmpInst::ICMP_SGE, llvm::CmpInst::ICMP_UGE);
    case IntegerOp::isnan_:
    case IntegerOp::isinf_:
    case IntegerOp::isfinite_: {
      llvm::Type* flag = builder_.getInt1Ty();
      if (type->isVectorTy()) flag = llvm::VectorType::get(flag, llvm::cast<llvm::VectorType>(type));
      return op == Op::isfinite_ ? llvm::Constant::getAllOnesValue(flag) : llvm::Constant::getNullValue(flag);
    }
    case IntegerOp::not_: return builder_.CreateNot(a);
  }
  fail("no code for `" + std::string(name_of(op)) + "` on integers");
}

}  // namespace tcc::codegen
