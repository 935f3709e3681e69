// Math that the kernel marks as approximate, because its result is rounded to f16 or bf16 at once: the special function unit (ex2, rcp, rsqrt: 22 bits)
// instead of polynomials. Errors stay below 2^-20 of the result, far under the 2^-12 of f16.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/math/lanes.h"
#include "codegen/nvptx/emitter.h"

namespace tcc::codegen {
namespace {

// One instruction a lane.
Lane special(Lane x, llvm::Intrinsic::ID id, bool overloaded) {
  llvm::IRBuilder<>& b = *x.builder;
  auto one = [&](llvm::Value* value) {
    return overloaded ? b.CreateIntrinsic(id, {value->getType()}, {value}) : b.CreateIntrinsic(value->getType(), id, {value});
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x.type());
  if (!vector) return x.with(one(x.value));
  llvm::Value* result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    result = b.CreateInsertElement(result, one(b.CreateExtractElement(x.value, lane)), lane);
  }
  return x.with(result);
}

// Results below 2^-126 are 0: without that, each takes three instructions more.
Lane exp2(Lane x) { return special(x, llvm::Intrinsic::nvvm_ex2_approx_ftz, true); }
Lane reciprocal(Lane x) { return special(x, llvm::Intrinsic::nvvm_rcp_approx_ftz_f, false); }
Lane exp(Lane x) { return exp2(x * 0x1.715476p+0); }

// 1 - 2 / (e^2|x| + 1), which cancels near 0; there the first terms of the series.
Lane tanh(Lane x) {
  Lane a = fabs(x);
  Lane big = fma(reciprocal(exp2(a * 0x1.715476p+1) + 1.0), -2.0, 1.0);
  Lane small = fma(x * x * -0x1.555556p-2, x, x);
  return select(a < 0.06, small, copysign(big, x));
}

// Abramowitz and Stegun, Handbook of Mathematical Functions, formula 7.1.26 (absolute error 1.5e-7); near 0 the first terms of the series.
Lane erf(Lane x) {
  Lane a = fabs(x);
  Lane t = reciprocal(fma(a, 0.3275911, 1.0));
  Lane p = polynomial(t, {0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429}) * t;
  Lane big = fma(-p, exp2(a * a * -0x1.715476p+0), 1.0);
  Lane small = fma(x * x * -0.376126389, x, x * 1.128379167);
  return select(a < 0.03, small, copysign(big, x));
}

}  // namespace

llvm::Value* NvptxEmitter::emit_approximate(Op op, const std::vector<llvm::Value*>& args) {
  Lane x{&builder_, args[0]};
  switch (op) {
    case Op::exp_: return exp(x).value;
    case Op::exp2_: return exp2(x).value;
    case Op::tanh_: return tanh(x).value;
    case Op::erf_: return erf(x).value;
    case Op::rsqrt_: return special(x, llvm::Intrinsic::nvvm_rsqrt_approx_f, false).value;
    default: return nullptr;  // divisions too: the approximate reciprocal of a large f32 is 0
  }
}

}  // namespace tcc::codegen
