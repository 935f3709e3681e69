// ptxas 13.0 fuses min(min(a, b), c) of 32-bit integers to one instruction on sm_90 and sm_100 (VIMNMX3), and where b is a negation it drops the
// sign: max(max(-a, -b), -c) computes max(max(-a, b), -c). A negation that is written as ~b + 1 is no such operand.
//
//   %n = sub i32 0, %b;  %m = call i32 @llvm.smax.i32(i32 %a, i32 %n)
//   becomes
//   %n = call i32 asm "xor.b32 $0, $1, -1; add.s32 $0, $0, 1;"(i32 %b);  ...
//
// After all other passes, which would make a `sub` of it again. Left alone: negations that no minimum or maximum reads.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <set>
#include <vector>

#include "codegen/nvptx/emitter.h"

namespace tcc::codegen {

namespace {

/// Whether an extreme reads the value, as it is or through copies.
bool is_read_by_extreme(llvm::Value* value) {
  std::vector<llvm::Value*> open{value};
  std::set<llvm::Value*> seen;
  while (!open.empty()) {
    llvm::Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    for (llvm::User* user : next->users()) {
      if (llvm::isa<llvm::MinMaxIntrinsic>(user)) return true;
      if (llvm::isa<llvm::PHINode, llvm::SelectInst, llvm::FreezeInst>(user)) open.push_back(user);
    }
  }
  return false;
}

}  // namespace

void guard_negations(llvm::Module& module) {
  using namespace llvm::PatternMatch;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      llvm::Value* operand = nullptr;
      llvm::Type* type = instruction.getType();
      const bool is_narrow = type->isIntegerTy(16);
      if (!match(&instruction, m_Neg(m_Value(operand))) || !(type->isIntegerTy(32) || is_narrow) || !is_read_by_extreme(&instruction))
        continue;
      llvm::InlineAsm* negation =
          llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false),
                               is_narrow ? "xor.b16 $0, $1, -1; add.s16 $0, $0, 1;" : "xor.b32 $0, $1, -1; add.s32 $0, $0, 1;",
                               is_narrow ? "=&h,h" : "=&r,r", false);
      llvm::IRBuilder<> builder(&instruction);
      instruction.replaceAllUsesWith(builder.CreateCall(negation, {operand}));
      instruction.eraseFromParent();
    }
  }
}

}  // namespace tcc::codegen
