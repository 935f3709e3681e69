// The larger or smaller of two floats: NaN when either is, -0 less than +0 (`larger`, `smaller` of tcc/support/extremes.h).
//
// One instruction where the target has it. Elsewhere from two comparisons, which are the target's own max and min (`a > b ? a : b` is the second operand for
// NaN and for equal ones) in both orders:
//   smaller   min(a, b) | min(b, a)                      equal ones are the same bits, but for the zeros: or gives -0; a NaN in either stays one
//   larger    max(a, b) & max(b, a) | unordered(a, b)    and gives +0, but could make a number of two NaNs
// A constant that is neither NaN nor a zero that the other operand could be equal to takes one comparison.
#include <llvm/IR/Constants.h>

#include "codegen/llvm/emitter.h"

namespace tcc::codegen {
namespace {

/// The value of a constant that is the same in all lanes.
const llvm::APFloat* splat_value(llvm::Value* value) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  if (constant != nullptr && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* single = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return single != nullptr ? &single->getValueAPF() : nullptr;
}

}  // namespace

llvm::Value* Emitter::emit_extreme(bool largest, llvm::Value* a, llvm::Value* b) {
  llvm::Type* type = a->getType();
  if (has_nan_extremes() && !type->getScalarType()->isDoubleTy())
    return builder_.CreateBinaryIntrinsic(largest ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  if (splat_value(a) != nullptr) std::swap(a, b);
  auto better = [&](llvm::Value* p, llvm::Value* q) { return largest ? builder_.CreateFCmpOGT(p, q) : builder_.CreateFCmpOLT(p, q); };
  if (const llvm::APFloat* bound = splat_value(b)) {
    if (bound->isNaN()) return b;
    // The zero that wins over the other one has to be taken where they are equal; comparisons with NaN are false, and keep it.
    const bool wins_ties = bound->isZero() && bound->isNegative() != largest;
    llvm::Value* take = !wins_ties ? better(b, a) : largest ? builder_.CreateFCmpOLE(a, b) : builder_.CreateFCmpOGE(a, b);
    return builder_.CreateSelect(take, b, a);
  }
  llvm::Type* bits = builder_.getIntNTy(type->getScalarSizeInBits());
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(type)) bits = llvm::VectorType::get(bits, vector);
  llvm::Value* first = builder_.CreateBitCast(builder_.CreateSelect(better(a, b), a, b), bits);
  llvm::Value* second = builder_.CreateBitCast(builder_.CreateSelect(better(b, a), b, a), bits);
  llvm::Value* both = largest
                          ? builder_.CreateOr(builder_.CreateAnd(first, second), builder_.CreateSExt(builder_.CreateFCmpUNO(a, b), bits))
                          : builder_.CreateOr(first, second);
  return builder_.CreateBitCast(both, type);
}

}  // namespace tcc::codegen
