// Values of LLVM IR with the operators of C, so that a math function reads as its formula. A Lane holds a scalar or a vector; constants
// splat. No fast-math flag is ever set here: the functions depend on exact rounding (fma is explicit).
#pragma once

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <cstdint>

namespace tcc::codegen {

struct Lane {
  llvm::IRBuilder<>* builder = nullptr;
  llvm::Value* value = nullptr;

  llvm::Type* type() const { return value->getType(); }
  Lane with(llvm::Value* v) const { return {builder, v}; }
  Lane like(double constant) const { return with(llvm::ConstantFP::get(type(), constant)); }
  Lane like_int(int64_t constant) const { return with(llvm::ConstantInt::getSigned(type(), constant)); }
  /// The type `element` with this value's number of lanes.
  llvm::Type* widened(llvm::Type* element) const {
    auto* vector = llvm::dyn_cast<llvm::VectorType>(type());
    return vector ? llvm::VectorType::get(element, vector->getElementCount()) : element;
  }
  Lane call(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> args) const { return with(builder->CreateIntrinsic(type(), id, args)); }

  // Bits and conversions; widths are those of the element type (32 or 64).
  Lane as_int() const { return with(builder->CreateBitCast(value, widened(builder->getIntNTy(type()->getScalarSizeInBits())))); }
  Lane as_float() const {
    return with(
        builder->CreateBitCast(value, widened(type()->getScalarSizeInBits() == 32 ? builder->getFloatTy() : builder->getDoubleTy())));
  }
  Lane to_int() const { return with(builder->CreateFPToSI(value, widened(builder->getIntNTy(type()->getScalarSizeInBits())))); }
  Lane to_float() const {
    return with(
        builder->CreateSIToFP(value, widened(type()->getScalarSizeInBits() == 32 ? builder->getFloatTy() : builder->getDoubleTy())));
  }
};

#define TCC_LANE_FLOAT_OP(symbol, create)                                                             \
  inline Lane operator symbol(Lane a, Lane b) { return a.with(a.builder->create(a.value, b.value)); } \
  inline Lane operator symbol(Lane a, double b) { return a symbol a.like(b); }                        \
  inline Lane operator symbol(double a, Lane b) { return b.like(a) symbol b; }
TCC_LANE_FLOAT_OP(+, CreateFAdd)
TCC_LANE_FLOAT_OP(-, CreateFSub)
TCC_LANE_FLOAT_OP(*, CreateFMul)
TCC_LANE_FLOAT_OP(/, CreateFDiv)
TCC_LANE_FLOAT_OP(<, CreateFCmpOLT)
TCC_LANE_FLOAT_OP(>, CreateFCmpOGT)
TCC_LANE_FLOAT_OP(<=, CreateFCmpOLE)
TCC_LANE_FLOAT_OP(>=, CreateFCmpOGE)
TCC_LANE_FLOAT_OP(==, CreateFCmpOEQ)
#undef TCC_LANE_FLOAT_OP
inline Lane operator-(Lane a) { return a.with(a.builder->CreateFNeg(a.value)); }
inline Lane operator&(Lane a, Lane b) { return a.with(a.builder->CreateAnd(a.value, b.value)); }
inline Lane operator|(Lane a, Lane b) { return a.with(a.builder->CreateOr(a.value, b.value)); }
inline Lane operator^(Lane a, Lane b) { return a.with(a.builder->CreateXor(a.value, b.value)); }
inline Lane operator!(Lane a) { return a.with(a.builder->CreateNot(a.value)); }

inline Lane select(Lane condition, Lane a, Lane b) { return a.with(a.builder->CreateSelect(condition.value, a.value, b.value)); }
inline Lane select(Lane condition, double a, Lane b) { return select(condition, b.like(a), b); }
inline Lane select(Lane condition, Lane a, double b) { return select(condition, a, a.like(b)); }
inline Lane fma(Lane a, Lane b, Lane c) { return a.call(llvm::Intrinsic::fma, {a.value, b.value, c.value}); }
inline Lane fma(Lane a, double b, Lane c) { return fma(a, a.like(b), c); }
inline Lane fma(Lane a, Lane b, double c) { return fma(a, b, a.like(c)); }
inline Lane fma(Lane a, double b, double c) { return fma(a, a.like(b), a.like(c)); }
inline Lane fabs(Lane a) { return a.call(llvm::Intrinsic::fabs, {a.value}); }
inline Lane copysign(Lane magnitude, Lane sign) { return magnitude.call(llvm::Intrinsic::copysign, {magnitude.value, sign.value}); }
inline Lane sqrt(Lane a) { return a.call(llvm::Intrinsic::sqrt, {a.value}); }
inline Lane floor(Lane a) { return a.call(llvm::Intrinsic::floor, {a.value}); }
inline Lane trunc(Lane a) { return a.call(llvm::Intrinsic::trunc, {a.value}); }
inline Lane is_nan(Lane a) { return a.with(a.builder->CreateFCmpUNO(a.value, a.value)); }

// Integer lanes: named functions, because the symbols above mean floats.
inline Lane iadd(Lane a, Lane b) { return a.with(a.builder->CreateAdd(a.value, b.value)); }
inline Lane iadd(Lane a, int64_t b) { return iadd(a, a.like_int(b)); }
inline Lane isub(Lane a, Lane b) { return a.with(a.builder->CreateSub(a.value, b.value)); }
inline Lane isub(Lane a, int64_t b) { return isub(a, a.like_int(b)); }
inline Lane imul(Lane a, Lane b) { return a.with(a.builder->CreateMul(a.value, b.value)); }
inline Lane iand(Lane a, int64_t b) { return a & a.like_int(b); }
inline Lane shl(Lane a, int bits) { return a.with(a.builder->CreateShl(a.value, a.like_int(bits).value)); }
inline Lane ashr(Lane a, int bits) { return a.with(a.builder->CreateAShr(a.value, a.like_int(bits).value)); }
inline Lane lshr(Lane a, int bits) { return a.with(a.builder->CreateLShr(a.value, a.like_int(bits).value)); }
inline Lane ieq(Lane a, int64_t b) { return a.with(a.builder->CreateICmpEQ(a.value, a.like_int(b).value)); }
inline Lane igt(Lane a, int64_t b) { return a.with(a.builder->CreateICmpSGT(a.value, a.like_int(b).value)); }
inline Lane iselect(Lane condition, Lane a, Lane b) { return select(condition, a, b); }

/// a0 + x * (a1 + x * (...)), by fma from the highest power down.
inline Lane polynomial(Lane x, std::initializer_list<double> coefficients) {
  auto it = coefficients.end();
  Lane sum = x.like(*--it);
  while (it != coefficients.begin()) sum = fma(sum, x, x.like(*--it));
  return sum;
}

}  // namespace tcc::codegen
