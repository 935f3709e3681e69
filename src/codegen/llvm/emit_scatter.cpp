// Scatter: updates that may collide, within a thread or across threads, so every one is atomic unless it just assigns.
#include <llvm/IR/Constants.h>

#include "codegen/llvm/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

void Emitter::emit(const loop::Scatter& scatter) {
  const loop::Buffer& buffer = *scatter.buffer;
  if (lane_var_) fail("scatter to %" + buffer.name + " in a vector loop");
  llvm::Value* value = emit_expr(scatter.value);
  auto update = [&] {
    llvm::Value* pointer = lane_pointer(buffer, address_of(buffer, scatter.indices), 0);
    llvm::Align align(static_cast<uint64_t>(size_bytes(buffer.dtype)));
    if (scatter.combiner == Combiner::assign) {
      builder_.CreateAlignedStore(to_memory(value, buffer.dtype), pointer, align);
      return;
    }
    bool whole = size_bytes(buffer.dtype) >= 4;
    if (scatter.combiner == Combiner::sum && whole) {
      auto kind = is_float(buffer.dtype) ? llvm::AtomicRMWInst::FAdd : llvm::AtomicRMWInst::Add;
      builder_.CreateAtomicRMW(kind, pointer, value, align, llvm::AtomicOrdering::Monotonic);
      return;
    }
    // Compare and exchange on the bits: one loop for every combiner and dtype.
    llvm::Type* element = memory_type(buffer.dtype);
    llvm::Type* bits = builder_.getIntNTy(static_cast<unsigned>(size_bytes(buffer.dtype)) * 8);
    llvm::Value* first = builder_.CreateAlignedLoad(bits, pointer, align);
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    auto* retry = llvm::BasicBlock::Create(context_, "update", function_);
    auto* done = llvm::BasicBlock::Create(context_, "update.end", function_);
    builder_.CreateBr(retry);
    builder_.SetInsertPoint(retry);
    llvm::PHINode* seen = builder_.CreatePHI(bits, 2);
    seen->addIncoming(first, before);
    llvm::Value* old = from_memory(builder_.CreateBitCast(seen, element), buffer.dtype);
    DType working = compute_dtype(buffer.dtype);
    std::vector<llvm::Value*> args{emit_cast(old, buffer.dtype, working), emit_cast(value, scatter.value->dtype, working)};
    llvm::Value* sum = emit_arithmetic(pointwise_of(scatter.combiner), working, args);
    llvm::Value* next = builder_.CreateBitCast(to_memory(emit_cast(sum, working, buffer.dtype), buffer.dtype), bits);
    auto* exchange =
        builder_.CreateAtomicCmpXchg(pointer, seen, next, align, llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
    seen->addIncoming(builder_.CreateExtractValue(exchange, 0), builder_.GetInsertBlock());
    builder_.CreateCondBr(builder_.CreateExtractValue(exchange, 1), done, retry);
    builder_.SetInsertPoint(done);
  };
  if (llvm::Value* inside = in_bounds(buffer, scatter.indices)) emit_if(inside, update, nullptr);
  else update();
}

}  // namespace tcc::codegen
