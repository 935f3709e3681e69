// Scalar expressions: the pointwise prims, casts and constants, on scalars or lanes.
#include <llvm/IR/Constants.h>

#include <cmath>

#include "codegen/llvm/emitter.h"
#include "tcc/ops/op.h"
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
  if (size_bits(from) < 8 && is_float(to) && converts_by_bits()) return emit_cast(nibbles_to_float(value, from), DType::f32, to);
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
