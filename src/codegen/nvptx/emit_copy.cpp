// Boxes moved from global to shared memory by all threads together, and the pipes that make them asynchronous.
//
// A pipe of S stages is filled by cp.async; a commit closes a group. A wait lets the groups behind the oldest stay in flight: S - 2 of them in the steady
// state, after which the loop's end drains. The barrier of the wait also frees the stage that was read in the iteration before, so an acquire after it
// needs nothing.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/nvptx/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

void NvptxEmitter::emit(const loop::Copy& copy) {
  const loop::Buffer& source = *copy.source;
  const loop::Buffer& destination = *copy.destination;
  if (destination.space != loop::Space::shared) fail("a copy to %" + destination.name + ", which is not shared");
  int64_t element = size_bytes(source.dtype);
  int64_t vector = copy.vector_bytes / element;
  if (vector < 1 || copy.extents.empty() || copy.extents.back() % vector != 0)
    fail("a copy of %" + source.name + " whose rows are no whole vectors");
  size_t rank = copy.extents.size();
  size_t source_lead = source.extents.size() - rank, destination_lead = destination.extents.size() - rank;
  int64_t chunks = 1;
  for (size_t axis = 0; axis < rank; ++axis) chunks *= axis + 1 == rank ? copy.extents[axis] / vector : copy.extents[axis];
  std::vector<int64_t> source_strides = source.element_strides(), destination_strides = destination.element_strides();
  auto constant = [&](int64_t value) { return llvm::ConstantInt::getSigned(index_type_, value); };
  llvm::Value* source_base = emit_index(flat_index(source, copy.from));
  llvm::Value* destination_base = emit_index(flat_index(destination, copy.to));
  int64_t alignment = copy.vector_bytes;
  for (int64_t first = 0; first < chunks; first += kernel_.threads) {
    llvm::Value* chunk = builder_.CreateNUWAdd(thread(), constant(first));
    auto move = [&] {
      llvm::Value* rest = chunk;
      llvm::Value* from = source_base;
      llvm::Value* to = destination_base;
      llvm::Value* inside = nullptr;
      for (size_t axis = rank; axis-- > 0;) {
        bool last = axis + 1 == rank;
        int64_t extent = last ? copy.extents[axis] / vector : copy.extents[axis];
        llvm::Value* digit = axis == 0 ? rest : builder_.CreateURem(rest, constant(extent));
        if (axis > 0) rest = builder_.CreateUDiv(rest, constant(extent));
        if (last && vector > 1) digit = builder_.CreateNUWMul(digit, constant(vector));
        from = builder_.CreateAdd(from, builder_.CreateMul(digit, constant(source_strides[source_lead + axis])));
        to = builder_.CreateAdd(to, builder_.CreateMul(digit, constant(destination_strides[destination_lead + axis])));
        const loop::Index& origin = copy.from[source_lead + axis];
        auto low = origin.min(), high = origin.max();
        int64_t limit = source.extents[source_lead + axis];
        if (!low || *low < 0 || !high || *high + copy.extents[axis] > limit) {
          llvm::Value* ok = builder_.CreateICmpULT(builder_.CreateAdd(emit_index(origin), digit), constant(limit));
          inside = inside ? builder_.CreateAnd(inside, ok) : ok;
          if (last && limit % vector != 0) fail("a copy of %" + source.name + " whose last axis ends inside a vector");
        }
      }
      if (inside) from = builder_.CreateSelect(inside, from, constant(0));
      llvm::Value* target = shared_pointer(destination, to, true);
      llvm::Value* origin = Emitter::element_pointer(source, from);
      if (copy.kind == loop::Copy::Kind::async) {
        llvm::Intrinsic::ID id = copy.vector_bytes == 16  ? llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                                 : copy.vector_bytes == 8 ? llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                                                          : llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
        llvm::Value* size = builder_.getInt32(static_cast<uint32_t>(copy.vector_bytes));
        if (inside) size = builder_.CreateSelect(inside, size, builder_.getInt32(0));
        builder_.CreateIntrinsic(builder_.getVoidTy(), id, {target, origin, size});
        return;
      }
      llvm::Type* type = memory_type(source.dtype);
      if (vector > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(vector));
      llvm::Value* value = builder_.CreateAlignedLoad(type, origin, llvm::Align(static_cast<uint64_t>(alignment)));
      if (inside) value = builder_.CreateSelect(inside, value, llvm::Constant::getNullValue(type));
      builder_.CreateAlignedStore(value, target, llvm::Align(static_cast<uint64_t>(alignment)));
    };
    if (first + kernel_.threads > chunks) emit_if(builder_.CreateICmpULT(chunk, constant(chunks)), move, nullptr);
    else move();
  }
}

void NvptxEmitter::emit(const loop::PipeDecl& declaration) {
  const loop::Pipe& pipe = *declaration.pipe;
  PipeState state{&pipe, make_alloca(builder_.getInt32Ty(), 1, 4), make_alloca(builder_.getInt32Ty(), 1, 4),
                  make_alloca(builder_.getInt32Ty(), 1, 4)};
  builder_.CreateStore(builder_.getInt32(0), state.produce);
  builder_.CreateStore(builder_.getInt32(0), state.consume);
  builder_.CreateStore(builder_.getInt32(0), state.in_flight);
  pipes_.emplace(pipe.id, state);
  for (const loop::BufferRef& buffer : pipe.buffers) {
    pipe_of_buffer_.emplace(buffer->id, state);
    buffers_[buffer->id] = shared_array_;
  }
}

void NvptxEmitter::emit(const loop::PipeOp& op) {
  const PipeState& state = pipes_.at(op.pipe->id);
  auto advance = [&](llvm::AllocaInst* counter) {
    llvm::Value* next = builder_.CreateAdd(builder_.CreateLoad(builder_.getInt32Ty(), counter), builder_.getInt32(1));
    llvm::Value* wrapped = builder_.CreateICmpEQ(next, builder_.getInt32(static_cast<uint32_t>(op.pipe->stages)));
    builder_.CreateStore(builder_.CreateSelect(wrapped, builder_.getInt32(0), next), counter);
  };
  auto count = [&](int by) {
    llvm::Value* now = builder_.CreateLoad(builder_.getInt32Ty(), state.in_flight);
    builder_.CreateStore(builder_.CreateAdd(now, builder_.getInt32(static_cast<uint32_t>(by))), state.in_flight);
  };
  switch (op.kind) {
    case loop::PipeOp::Kind::acquire: return;  // the barrier of the wait before it has freed the stage
    case loop::PipeOp::Kind::commit:
      builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_cp_async_commit_group, {});
      advance(state.produce);
      count(1);
      return;
    case loop::PipeOp::Kind::wait: {
      auto wait_group = [&](int pending) {
        builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_cp_async_wait_group,
                                 {builder_.getInt32(static_cast<uint32_t>(pending))});
      };
      count(-1);
      int steady = std::max(op.pipe->stages - 2, 0);
      if (steady == 0) {
        wait_group(0);
      } else {  // near the end fewer groups follow: then all must have arrived
        llvm::Value* behind = builder_.CreateLoad(builder_.getInt32Ty(), state.in_flight);
        emit_if(
            builder_.CreateICmpSGE(behind, builder_.getInt32(static_cast<uint32_t>(steady))), [&] { wait_group(steady); },
            [&] { wait_group(0); });
      }
      barrier();
      return;
    }
    case loop::PipeOp::Kind::release: advance(state.consume); return;
  }
}

}  // namespace tcc::codegen
