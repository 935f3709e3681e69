// Boxes moved from global to shared memory by all threads together, and the pipes that make them asynchronous.
//
// A pipe of S stages is filled by cp.async; a commit closes a group. A wait lets the groups behind the oldest stay in flight: S - 2 of them in the steady
// state, after which the loop's end drains. The barrier of the wait also frees the stage that was read in the iteration before, so an acquire after it
// needs nothing.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <optional>
#include <utility>

#include "codegen/nvptx/emitter.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

namespace {

/// Chunks of a thread whose values may wait in registers for the commit.
constexpr int64_t kMostLate = 16;

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
  shape.vector = copy.vector_bytes * 8 / size_bits(source.dtype);
  if (shape.vector < 1 || copy.box.empty() || copy.box.back()->extent % shape.vector != 0)
    fail("a copy of %" + source.name + " whose rows are no whole vectors");
  // Variables of one value have no digit: the first digit is that of one with several, and nothing carries out of it.
  for (const loop::VarRef& var : copy.box) {
    const bool last = var == copy.box.back();
    const int64_t extent = last ? var->extent / shape.vector : var->extent;
    if (extent == 1 && !last) continue;
    shape.vars.push_back(var);
    shape.extents.push_back(extent);
    shape.chunks *= extent;
  }
  return shape;
}

// The variables of the box for the first element of a chunk.
std::vector<llvm::Value*> NvptxEmitter::chunk_coordinates(const CopyShape& shape, llvm::Value* chunk) {
  std::vector<llvm::Value*> coordinates(shape.vars.size());
  for (size_t i = shape.vars.size(); i-- > 0;) {
    llvm::Value* extent = llvm::ConstantInt::getSigned(index_type_, shape.extents[i]);
    coordinates[i] = i == 0 ? chunk : builder_.CreateURem(chunk, extent);
    if (i > 0) chunk = builder_.CreateUDiv(chunk, extent);
  }
  if (shape.vector > 1)
    coordinates.back() = builder_.CreateNUWMul(coordinates.back(), llvm::ConstantInt::getSigned(index_type_, shape.vector));
  return coordinates;
}

// Threads take chunks that are team_threads_ apart. Where that is a step along one variable, all have the addresses of the first at constant distances.
void NvptxEmitter::emit(const loop::Copy& copy) {
  if (copy.kind == loop::Copy::Kind::tma) return emit_tiles(copy);
  const CopyShape shape = copy_shape(copy);
  const std::vector<llvm::Value*> first_coordinates = chunk_coordinates(shape, thread());
  for (int64_t first = 0; first < shape.chunks; first += team_threads_) {
    std::optional<std::vector<int64_t>> added = digits_added(shape.extents, team_threads_, first);
    const auto move = [&] {
      if (added) {
        added->back() *= shape.vector;
        emit_chunk(copy, shape, first_coordinates, *added);
      } else {
        llvm::Value* chunk = builder_.CreateNUWAdd(thread(), llvm::ConstantInt::getSigned(index_type_, first));
        emit_chunk(copy, shape, chunk_coordinates(shape, chunk), std::vector<int64_t>(shape.vars.size()));
      }
    };
    const bool is_part = first + team_threads_ > shape.chunks;
    stores_late_ = copy.kind == loop::Copy::Kind::plain && pipe_of_buffer_.count(copy.destination->id) != 0 && !is_part &&
                   shape.chunks <= kMostLate * team_threads_;
    if (is_part) {
      llvm::Value* chunk = builder_.CreateNUWAdd(thread(), llvm::ConstantInt::getSigned(index_type_, first));
      emit_if(builder_.CreateICmpULT(chunk, llvm::ConstantInt::getSigned(index_type_, shape.chunks)), move, nullptr);
    } else {
      move();
    }
  }
}

// An index whose variables of the box are coordinates + added; the constant part of an affine one is given apart where `behind` is asked for.
llvm::Value* NvptxEmitter::emit_in_box(const loop::Index& index, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                                       const std::vector<int64_t>& added, int64_t* behind) {
  const auto constant = [&](int64_t value) { return llvm::ConstantInt::getSigned(index_type_, value); };
  loop::Index rest = index;
  bool affine = true;
  for (const loop::VarRef& var : shape.vars) {
    bool inside = false;
    rest = rest - loop::Index(var) * index.coefficient_of(var.get(), &inside);
    affine = affine && !inside;
  }
  if (!affine) {
    for (size_t i = 0; i < shape.vars.size(); ++i) vars_[shape.vars[i].get()] = builder_.CreateNUWAdd(coordinates[i], constant(added[i]));
    return emit_index(index);
  }
  llvm::Value* sum = behind ? emit_terms(rest, behind) : emit_index(rest);
  if (!sum) sum = constant(0);
  for (size_t i = shape.vars.size(); i-- > 0;) {
    const int64_t coefficient = index.coefficient_of(shape.vars[i].get());
    if (coefficient == 0) continue;
    llvm::Value* at = behind ? coordinates[i] : builder_.CreateNUWAdd(coordinates[i], constant(added[i]));
    sum = builder_.CreateAdd(sum, builder_.CreateMul(at, constant(coefficient)));
    if (behind) *behind += added[i] * coefficient;
  }
  return sum;
}

// Whether the first element of a chunk is copied, and so all are; null where it always is.
llvm::Value* NvptxEmitter::is_copied(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                                     const std::vector<int64_t>& added) {
  llvm::Value* inside = nullptr;
  const auto require = [&](llvm::Value* ok) { inside = inside ? builder_.CreateAnd(inside, ok) : ok; };
  for (size_t axis = copy.from.size(); axis-- > 0;) {
    const auto low = copy.from[axis].min(), high = copy.from[axis].max();
    if (low && *low >= 0 && high && *high < copy.source->extents[axis]) continue;
    const loop::UpperBound bound = loop::without_divisions(copy.from[axis], copy.source->extents[axis]);
    llvm::Value* index = emit_in_box(bound.index, shape, coordinates, added, nullptr);
    require(builder_.CreateICmpULT(index, llvm::ConstantInt::getSigned(index_type_, bound.high)));
  }
  if (copy.where) {
    for (size_t i = 0; i < shape.vars.size(); ++i)
      vars_[shape.vars[i].get()] = builder_.CreateNUWAdd(coordinates[i], llvm::ConstantInt::getSigned(index_type_, added[i]));
    require(emit_expr(copy.where));
  }
  return inside;
}

// The chunk at coordinates + added.
void NvptxEmitter::emit_chunk(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                              const std::vector<int64_t>& added) {
  const loop::Buffer& source = *copy.source;
  const loop::Buffer& destination = *copy.destination;
  int64_t from_added = 0, to_added = 0;
  llvm::Value* from = emit_in_box(flat_index(source, copy.from), shape, coordinates, added, &from_added);
  llvm::Value* to = emit_in_box(flat_index(destination, copy.to), shape, coordinates, added, &to_added);
  llvm::Value* inside = is_copied(copy, shape, coordinates, added);
  if (inside) {
    // Else any chunk will do: the one as far behind the first, so that others share the choice.
    const bool is_chunk = from_added >= 0 && from_added + shape.vector <= source.count() && from_added % shape.vector == 0;
    if (!is_chunk) from = builder_.CreateAdd(from, llvm::ConstantInt::getSigned(index_type_, std::exchange(from_added, 0)));
    from = builder_.CreateSelect(inside, from, llvm::ConstantInt::get(index_type_, 0));
  }
  llvm::Value* origin = is_packed(source) ? Emitter::element_pointer(source, builder_.CreateLShr(from, uint64_t{1}), from_added / 2)
                                          : Emitter::element_pointer(source, from, from_added);
  if (copy.value) place_in_box(copy, shape, coordinates, added);
  move_chunk(copy, shape, origin, shared_pointer(destination, to, to_added, true), inside);
}

// The variables of the box for what a copy computes.
void NvptxEmitter::place_in_box(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                                const std::vector<int64_t>& added) {
  for (const loop::VarRef& var : copy.box) vars_[var.get()] = llvm::ConstantInt::get(index_type_, 0);
  for (size_t i = 0; i < shape.vars.size(); ++i)
    vars_[shape.vars[i].get()] = builder_.CreateNUWAdd(coordinates[i], llvm::ConstantInt::getSigned(index_type_, added[i]));
}

// The elements of a chunk are the lanes of a vector: its variable is that of the box in steps of so many.
llvm::Value* NvptxEmitter::compute_chunk(const loop::Copy& copy, const CopyShape& shape, llvm::Value* loaded, llvm::Value* inside) {
  const loop::VarRef& row = copy.box.back();
  const loop::VarRef chunk = loop::make_var(row->name + ".chunk", row->extent / shape.vector),
                     lane = loop::make_var(row->name + ".lane", shape.vector);
  vars_[chunk.get()] = builder_.CreateUDiv(vars_.at(row.get()), llvm::ConstantInt::getSigned(index_type_, shape.vector));
  vars_[lane.get()] = llvm::ConstantInt::get(index_type_, 0);
  const loop::ScalarRef element = loop::make_scalar(copy.source->name + ".element", copy.source->dtype);
  scalars_[element.get()] = loaded;
  loop::ExprPtr value = loop::rewrite_expr(copy.value, [&](const loop::ExprPtr& expr) {
    return expr->kind == loop::Expr::Kind::load && expr->buffer == copy.source ? loop::scalar_value(element) : expr;
  });
  value = loop::substitute_var(value, row, loop::Index(chunk) * shape.vector + loop::Index(lane));
  const unsigned lanes = std::exchange(lanes_, static_cast<unsigned>(shape.vector));
  const loop::Var* const outer = std::exchange(lane_var_, shape.vector > 1 ? lane.get() : nullptr);
  llvm::Value* const outer_mask = std::exchange(mask_, inside);
  llvm::Value* result = widen(emit_expr(value));
  mask_ = outer_mask;
  lane_var_ = outer;
  lanes_ = lanes;
  return result;
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
  const DType from = copy.source->dtype, to = copy.destination->dtype;
  const llvm::Align alignment(static_cast<uint64_t>(copy.vector_bytes));
  llvm::Value* value = nullptr;
  if (is_packed(*copy.source)) {
    const unsigned word = static_cast<unsigned>(std::min(copy.vector_bytes, 4));
    auto* words = llvm::FixedVectorType::get(builder_.getIntNTy(8 * word), static_cast<unsigned>(copy.vector_bytes) / word);
    value = unpack_words(builder_.CreateAlignedLoad(words, origin, alignment), static_cast<unsigned>(shape.vector), from);
  } else {
    llvm::Type* type = memory_type(from);
    if (shape.vector > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(shape.vector));
    value = from_memory(builder_.CreateAlignedLoad(type, origin, alignment), from);
  }
  if (copy.value) value = compute_chunk(copy, shape, value, inside);
  if (inside) value = builder_.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType()));
  value = copy.value ? to_memory(value, to) : to_memory(emit_cast(value, from, to), to);
  const llvm::Align whole(static_cast<uint64_t>(shape.vector * size_bytes(to)));
  if (stores_late_) late_stores_.push_back({value, target, whole});
  else builder_.CreateAlignedStore(value, target, whole);
}

void NvptxEmitter::emit(const loop::PipeDecl& declaration) {
  const loop::Pipe& pipe = *declaration.pipe;
  const auto counter = [&] {
    llvm::AllocaInst* made = make_alloca(builder_.getInt32Ty(), 1, 4);
    builder_.CreateStore(builder_.getInt32(0), made);
    return made;
  };
  PipeState state{};
  state.pipe = &pipe;
  state.consume = counter();
  if (pipe.kind == loop::Pipe::Kind::mbarrier) {
    for (RingCursor* cursor : {&state.fill, &state.wait, &state.free}) *cursor = {counter(), counter()};
    state.produce = state.fill.stage;
    declare_barriers(state);
  } else {
    state.produce = counter();
    state.in_flight = counter();
  }
  pipes_.emplace(pipe.id, state);
  for (const loop::BufferRef& buffer : pipe.buffers) {
    pipe_of_buffer_.emplace(buffer->id, pipe.id);
    buffers_[buffer->id] = shared_array_;
  }
}

void NvptxEmitter::emit(const loop::PipeOp& op) {
  PipeState& state = pipes_.at(op.pipe->id);
  if (op.pipe->kind == loop::Pipe::Kind::mbarrier) return emit_barrier_op(state, op.kind);
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
      for (const LateStore& store : late_stores_) builder_.CreateAlignedStore(store.value, store.target, store.alignment);
      late_stores_.clear();
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
