// Boxes moved from global to shared memory by all threads together, and the pipes that make them asynchronous.
//
// A pipe of S stages is filled by cp.async; a commit closes a group. A wait lets the groups behind the oldest stay in flight: S - 2 of them in the steady
// state, after which the loop's end drains. The barrier of the wait also frees the stage that was read in the iteration before, so an acquire after it
// needs nothing.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <optional>

#include "codegen/nvptx/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

namespace {

/// What `first` adds to the digits of a number below `threads`, where extents are those of the digits, the last the fastest. Nothing where a digit of a sum
/// may carry into the next.
std::optional<std::vector<int64_t>> digits_added(const std::vector<int64_t>& extents, int64_t threads, int64_t first) {
  std::vector<int64_t> added(extents.size());
  int64_t radix = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    const int64_t rest = first / radix, extent = extents[axis];
    added[axis] = axis == 0 ? rest : rest % extent;
    const int64_t most = std::min(extent - 1, (threads - 1) / radix);
    if (axis > 0 && added[axis] > 0 && most + added[axis] >= extent) return std::nullopt;
    radix *= extent;
  }
  return added;
}

}  // namespace

NvptxEmitter::CopyShape NvptxEmitter::copy_shape(const loop::Copy& copy) const {
  const loop::Buffer& source = *copy.source;
  if (copy.destination->space != loop::Space::shared) fail("a copy to %" + copy.destination->name + ", which is not shared");
  CopyShape shape;
  shape.vector = copy.vector_bytes / size_bytes(source.dtype);
  if (shape.vector < 1 || copy.extents.empty() || copy.extents.back() % shape.vector != 0)
    fail("a copy of %" + source.name + " whose rows are no whole vectors");
  // Axes of one element have no digit: the first digit is that of an axis with several, and nothing carries out of it.
  for (size_t axis = 0; axis < copy.extents.size(); ++axis) {
    const bool last = axis + 1 == copy.extents.size();
    const int64_t extent = last ? copy.extents[axis] / shape.vector : copy.extents[axis];
    if (extent == 1 && !last) continue;
    shape.axes.push_back(axis);
    shape.extents.push_back(extent);
    shape.chunks *= extent;
  }
  return shape;
}

// The elements of a chunk, relative to the box: one coordinate for each of the axes.
std::vector<llvm::Value*> NvptxEmitter::chunk_coordinates(const CopyShape& shape, llvm::Value* chunk) {
  std::vector<llvm::Value*> coordinates(shape.axes.size());
  for (size_t i = shape.axes.size(); i-- > 0;) {
    llvm::Value* extent = llvm::ConstantInt::getSigned(index_type_, shape.extents[i]);
    coordinates[i] = i == 0 ? chunk : builder_.CreateURem(chunk, extent);
    if (i > 0) chunk = builder_.CreateUDiv(chunk, extent);
  }
  if (shape.vector > 1)
    coordinates.back() = builder_.CreateNUWMul(coordinates.back(), llvm::ConstantInt::getSigned(index_type_, shape.vector));
  return coordinates;
}

// Threads take chunks that are kernel_.threads apart. Where that is a step along one axis, all have the addresses of the first at constant distances.
void NvptxEmitter::emit(const loop::Copy& copy) {
  const CopyShape shape = copy_shape(copy);
  const std::vector<llvm::Value*> first_coordinates = chunk_coordinates(shape, thread());
  for (int64_t first = 0; first < shape.chunks; first += kernel_.threads) {
    std::optional<std::vector<int64_t>> added = digits_added(shape.extents, kernel_.threads, first);
    const auto move = [&] {
      if (added) {
        added->back() *= shape.vector;
        emit_chunk(copy, shape, first_coordinates, *added);
      } else {
        llvm::Value* chunk = builder_.CreateNUWAdd(thread(), llvm::ConstantInt::getSigned(index_type_, first));
        emit_chunk(copy, shape, chunk_coordinates(shape, chunk), std::vector<int64_t>(shape.axes.size()));
      }
    };
    if (first + kernel_.threads > shape.chunks) {
      llvm::Value* chunk = builder_.CreateNUWAdd(thread(), llvm::ConstantInt::getSigned(index_type_, first));
      emit_if(builder_.CreateICmpULT(chunk, llvm::ConstantInt::getSigned(index_type_, shape.chunks)), move, nullptr);
    } else {
      move();
    }
  }
}

// The chunk at coordinates + added.
void NvptxEmitter::emit_chunk(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                              const std::vector<int64_t>& added) {
  const loop::Buffer& source = *copy.source;
  const loop::Buffer& destination = *copy.destination;
  const auto constant = [&](int64_t value) { return llvm::ConstantInt::getSigned(index_type_, value); };
  const size_t source_lead = source.extents.size() - copy.extents.size(),
               destination_lead = destination.extents.size() - copy.extents.size();
  const std::vector<int64_t> source_strides = source.element_strides(), destination_strides = destination.element_strides();
  llvm::Value* from = emit_index(flat_index(source, copy.from));
  llvm::Value* to = emit_index(flat_index(destination, copy.to));
  int64_t from_added = 0, to_added = 0;
  llvm::Value* inside = nullptr;
  std::vector<llvm::Value*> digits(copy.extents.size(), constant(0));
  for (size_t i = shape.axes.size(); i-- > 0;) {
    const size_t axis = shape.axes[i];
    const int64_t source_stride = source_strides[source_lead + axis], destination_stride = destination_strides[destination_lead + axis];
    from = builder_.CreateAdd(from, builder_.CreateMul(coordinates[i], constant(source_stride)));
    to = builder_.CreateAdd(to, builder_.CreateMul(coordinates[i], constant(destination_stride)));
    from_added += added[i] * source_stride;
    to_added += added[i] * destination_stride;
    digits[axis] = builder_.CreateNUWAdd(coordinates[i], constant(added[i]));
  }
  for (size_t axis = copy.extents.size(); axis-- > 0;) {
    const loop::Index& origin = copy.from[source_lead + axis];
    const auto low = origin.min(), high = origin.max();
    const int64_t limit = source.extents[source_lead + axis];
    if (low && *low >= 0 && high && *high + copy.extents[axis] <= limit) continue;
    llvm::Value* ok = builder_.CreateICmpULT(builder_.CreateAdd(emit_index(origin), digits[axis]), constant(limit));
    inside = inside ? builder_.CreateAnd(inside, ok) : ok;
    if (axis + 1 == copy.extents.size() && limit % shape.vector != 0)
      fail("a copy of %" + source.name + " whose last axis ends inside a vector");
  }
  llvm::Type* element = memory_type(source.dtype);
  llvm::Value* origin;
  if (inside) {
    origin = Emitter::element_pointer(source, builder_.CreateSelect(inside, builder_.CreateAdd(from, constant(from_added)), constant(0)));
  } else {
    origin = builder_.CreateConstInBoundsGEP1_64(element, Emitter::element_pointer(source, from), static_cast<uint64_t>(from_added));
  }
  move_chunk(copy, shape, origin, shared_pointer(destination, to, to_added, true), inside);
}

void NvptxEmitter::move_chunk(const loop::Copy& copy, const CopyShape& shape, llvm::Value* origin, llvm::Value* target,
                              llvm::Value* inside) {
  if (copy.kind == loop::Copy::Kind::async) {
    llvm::Intrinsic::ID id = copy.vector_bytes == 16  ? llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                             : copy.vector_bytes == 8 ? llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                                                      : llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
    llvm::Value* size = builder_.getInt32(static_cast<uint32_t>(copy.vector_bytes));
    if (inside) size = builder_.CreateSelect(inside, size, builder_.getInt32(0));
    builder_.CreateIntrinsic(builder_.getVoidTy(), id, {target, origin, size});
    return;
  }
  llvm::Type* type = memory_type(copy.source->dtype);
  if (shape.vector > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(shape.vector));
  const llvm::Align alignment(static_cast<uint64_t>(copy.vector_bytes));
  llvm::Value* value = builder_.CreateAlignedLoad(type, origin, alignment);
  if (inside) value = builder_.CreateSelect(inside, value, llvm::Constant::getNullValue(type));
  builder_.CreateAlignedStore(value, target, alignment);
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
