// Statements and loops.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/MDBuilder.h>

#include "codegen/llvm/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::Bind;
using loop::Dim;

namespace {

bool is_parallel(Bind bind) {
  return bind == Bind::block || bind == Bind::parallel || bind == Bind::thread || bind == Bind::warp || bind == Bind::lane;
}

}  // namespace

Emitter::Emitter(llvm::Module& module, const loop::Kernel& kernel, unsigned index_bits)
    : module_(module),
      context_(module.getContext()),
      builder_(module.getContext()),
      kernel_(kernel),
      digits_(loop::digits_of(kernel.body)),
      index_type_(llvm::Type::getIntNTy(module.getContext(), index_bits)) {}

void Emitter::fail(const std::string& message) const { internal_error("code generation for " + kernel_.target + ": " + message); }

// --------------------------------------------------------------------------------------------------------------- types

llvm::Type* Emitter::register_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return builder_.getFloatTy();
    case DType::f64: return builder_.getDoubleTy();
    case DType::f16: return builder_.getHalfTy();
    case DType::bf16:  // without instructions for it, LLVM would round through a library that isn't there whatever is merely moved
      if (!has_bf16_conversions()) return builder_.getInt16Ty();
      return builder_.getBFloatTy();
    case DType::boolean: return builder_.getInt1Ty();
    default: return builder_.getIntNTy(static_cast<unsigned>(size_bits(dtype)));  // of 8-bit floats the bits
  }
}

llvm::Type* Emitter::memory_type(DType dtype) {
  return dtype == DType::boolean || size_bits(dtype) < 8 ? builder_.getInt8Ty() : register_type(dtype);
}

llvm::Value* Emitter::from_memory(llvm::Value* value, DType dtype) {
  if (dtype == DType::boolean) return builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  if (size_bits(dtype) >= 8) return value;
  llvm::Type* type = register_type(dtype);
  return builder_.CreateTrunc(value, varies(value) ? llvm::VectorType::get(type, llvm::cast<llvm::VectorType>(value->getType())) : type);
}

llvm::Value* Emitter::to_memory(llvm::Value* value, DType dtype) {
  if (dtype != DType::boolean && size_bits(dtype) >= 8) return value;
  llvm::Type* type = builder_.getInt8Ty();
  return builder_.CreateZExt(value, varies(value) ? llvm::VectorType::get(type, llvm::cast<llvm::VectorType>(value->getType())) : type);
}

llvm::Value* Emitter::splat(llvm::Value* value, llvm::ElementCount lanes) { return builder_.CreateVectorSplat(lanes, value); }

llvm::Value* Emitter::widen(llvm::Value* value) {
  return lane_var_ && !varies(value) ? splat(value, llvm::ElementCount::getFixed(lanes_)) : value;
}

void Emitter::unify(std::vector<llvm::Value*>& values) {
  for (llvm::Value* v : values) {
    if (!varies(v)) continue;
    llvm::ElementCount lanes = llvm::cast<llvm::VectorType>(v->getType())->getElementCount();
    for (llvm::Value*& w : values) {
      if (!varies(w)) w = splat(w, lanes);
    }
    return;
  }
}

// In the entry block, so that promotion to registers always sees it.
llvm::AllocaInst* Emitter::make_alloca(llvm::Type* type, int64_t count, unsigned alignment) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  auto* alloca = at.CreateAlloca(llvm::ArrayType::get(type, static_cast<uint64_t>(std::max<int64_t>(count, 1))));
  alloca->setAlignment(llvm::Align(alignment));
  return alloca;
}

llvm::Value* Emitter::tile_slot(const loop::Buffer& buffer, const std::vector<loop::Index>&) {
  fail("register tile %" + buffer.name + " on a target without tiles");
}

// ---------------------------------------------------------------------------------------------------------- statements

void Emitter::emit_block(const loop::Block& block) {
  for (const loop::Stmt& stmt : block) emit_stmt(stmt);
}

void Emitter::emit_stmt(const loop::Stmt& stmt) {
  std::visit([&](const auto& node) { emit(node); }, stmt.node);
}

void Emitter::emit(const loop::Let& let) { scalars_[let.scalar.get()] = emit_expr(let.value); }

void Emitter::emit(const loop::If& branch) {
  llvm::Value* condition = emit_expr(branch.condition);
  if (!varies(condition)) {
    emit_if(condition, [&] { emit_block(branch.then); }, branch.otherwise.empty() ? Body() : [&] { emit_block(branch.otherwise); });
    return;
  }
  emit_masked(condition, branch.condition, [&] { emit_block(branch.then); });
  if (!branch.otherwise.empty()) emit_masked(builder_.CreateNot(condition), nullptr, [&] { emit_block(branch.otherwise); });
}

void Emitter::emit_masked(llvm::Value* condition, const loop::ExprPtr& expr, const Body& body) {
  llvm::Value* outer = mask_;
  mask_ = outer ? builder_.CreateAnd(widen(outer), condition) : condition;
  mask_conditions_.push_back(expr);
  body();
  mask_conditions_.pop_back();
  mask_ = outer;
}

void Emitter::emit(const loop::Alloc& alloc) {
  const loop::Buffer& buffer = *alloc.buffer;
  if (buffer.space != loop::Space::registers) {
    buffers_[buffer.id] = allocate(buffer);
    return;
  }
  int64_t count = buffer.tile ? loop::registers_of(*buffer.tile) : buffer.count();
  if (!buffer.tile) {
    for (int axis : buffer.distributed) count /= buffer.extents[static_cast<size_t>(axis)];
  }
  buffers_[buffer.id] = make_alloca(memory_type(buffer.dtype), count, 64);
}

void Emitter::emit_if(llvm::Value* condition, const Body& then, const Body& otherwise, bool rare) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (constant->isOne()) then();
    else if (otherwise) otherwise();
    return;
  }
  auto* then_block = llvm::BasicBlock::Create(context_, "then", function_);
  auto* end = llvm::BasicBlock::Create(context_, "end", function_);
  auto* else_block = otherwise ? llvm::BasicBlock::Create(context_, "else", function_) : end;
  llvm::MDNode* weights = rare ? llvm::MDBuilder(context_).createUnlikelyBranchWeights() : nullptr;
  builder_.CreateCondBr(condition, then_block, else_block, weights);
  builder_.SetInsertPoint(then_block);
  then();
  builder_.CreateBr(end);
  if (otherwise) {
    builder_.SetInsertPoint(else_block);
    otherwise();
    builder_.CreateBr(end);
  }
  builder_.SetInsertPoint(end);
}

void Emitter::emit_counted_loop(int64_t extent, const std::function<void(llvm::Value*)>& body) {
  auto* zero = llvm::ConstantInt::get(index_type_, 0);
  if (extent <= 0) return;
  if (extent == 1) {
    body(zero);
    return;
  }
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* header = llvm::BasicBlock::Create(context_, "loop", function_);
  auto* after = llvm::BasicBlock::Create(context_, "loop.end", function_);
  builder_.CreateBr(header);
  builder_.SetInsertPoint(header);
  llvm::PHINode* i = builder_.CreatePHI(index_type_, 2);
  i->addIncoming(zero, before);
  ++loop_depth_;
  body(i);
  --loop_depth_;
  llvm::Value* next = builder_.CreateAdd(i, llvm::ConstantInt::get(index_type_, 1), "", /*HasNUW=*/true, /*HasNSW=*/true);
  i->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpULT(next, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(extent))), header, after);
  builder_.SetInsertPoint(after);
}

void Emitter::emit_dims(const std::vector<Dim>& dims, size_t first, const Body& body) {
  if (first == dims.size()) {
    body();
    return;
  }
  const Dim& dim = dims[first];
  const loop::Var* var = dim.var.get();
  if (var->extent == 1 && dim.bind != Bind::tile) {
    vars_[var] = llvm::ConstantInt::get(index_type_, 0);
    emit_dims(dims, first + 1, body);
    return;
  }
  switch (dim.bind) {
    case Bind::none:
    case Bind::serial:
      emit_counted_loop(var->extent, [&](llvm::Value* i) {
        vars_[var] = i;
        emit_dims(dims, first + 1, body);
      });
      return;
    case Bind::unroll:
      for (int64_t i = 0; i < var->extent; ++i) {
        vars_[var] = llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(i));
        multiples_[var] = i;
        emit_dims(dims, first + 1, body);
      }
      return;
    case Bind::vector: {
      if (lane_var_) fail("loop %" + var->name + " is a vector inside a vector");
      lane_var_ = var;
      lanes_ = static_cast<unsigned>(var->extent);
      emit_dims(dims, first + 1, body);
      lane_var_ = nullptr;
      lanes_ = 1;
      return;
    }
    default: fail("loop %" + var->name + " is bound to `" + std::string(name_of(dim.bind)) + "` after a serial loop");
  }
}

// value = (number mod radix) / stride, for several neighbours at once: the last is the fastest.
llvm::Value* Emitter::bind_digits(const std::vector<Dim>& dims, llvm::Value* number, int64_t available) {
  if (dims.empty()) return nullptr;
  auto constant = [&](int64_t value) { return llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(value)); };
  const int64_t radix = digits_.at(dims.front().var.get()).radix, stride = digits_.at(dims.back().var.get()).stride;
  if (radix != 0) number = builder_.CreateURem(number, constant(radix));
  if (stride != 1) number = builder_.CreateUDiv(number, constant(stride));
  const int64_t different = ((radix != 0 ? radix : available) + stride - 1) / stride;
  int64_t needed = 1;
  for (const Dim& dim : dims) needed *= dim.var->extent;
  llvm::Value* active = needed < different ? builder_.CreateICmpULT(number, constant(needed)) : nullptr;
  for (size_t i = dims.size(); i-- > 0;) {
    llvm::Value* extent = constant(std::max<int64_t>(dims[i].var->extent, 1));
    vars_[dims[i].var.get()] = i == 0 ? number : builder_.CreateURem(number, extent);
    if (i > 0) number = builder_.CreateUDiv(number, extent);
  }
  return active;
}

void Emitter::emit_where(const loop::ExprPtr& where, const Body& body) {
  if (!where) {
    body();
    return;
  }
  llvm::Value* condition = emit_expr(where);
  if (!varies(condition)) {
    emit_if(condition, body, nullptr);
    return;
  }
  emit_masked(condition, where, body);
}

void Emitter::emit(const loop::Loop& loop) {
  if (loop.tile) {
    emit_tile_loop(loop);
    return;
  }
  // Parallel dims may stand anywhere in a perfect nest: they cost nothing, so they come first.
  std::vector<Dim> parallel, rest;
  for (const Dim& dim : loop.dims) (is_parallel(dim.bind) ? parallel : rest).push_back(dim);
  auto inner = [&] { emit_dims(rest, 0, [&] { emit_where(loop.where, [&] { emit_block(loop.body); }); }); };
  if (parallel.empty()) inner();
  else emit_parallel_dims(parallel, inner);
}

void Emitter::emit(const loop::Store& store) {
  const loop::Buffer& buffer = *store.buffer;
  llvm::Value* value = to_memory(emit_expr(store.value), buffer.dtype);
  auto align = static_cast<uint64_t>(size_bytes(buffer.dtype));
  Address address = address_of(buffer, store.indices);
  if (is_packed(buffer)) {
    store_packed(buffer, address, value);
    return;
  }
  if (!address.offsets && address.lane_stride == 0) {  // one element; under a varying mask, of any active lane
    if (varies(value)) fail("lanes store different values to one element of %" + buffer.name);
    auto put = [&] { builder_.CreateAlignedStore(value, lane_pointer(buffer, address, 0), alignment_at(buffer, address)); };
    if (mask_ && varies(mask_)) emit_if(builder_.CreateOrReduce(mask_), put, nullptr);
    else put();
    return;
  }
  value = widen(value);
  if (address.lane_stride == 1) {
    const llvm::Align wide = alignment_at(buffer, address);
    if (!mask_ || !varies(mask_)) {
      builder_.CreateAlignedStore(value, lane_pointer(buffer, address, 0), wide);
      return;
    }
    if (is_piece_of_row(buffer, address) && masks_padding_alone(buffer, store.indices)) {
      emit_if(
          builder_.CreateExtractElement(mask_, uint64_t{0}),
          [&] { builder_.CreateAlignedStore(value, lane_pointer(buffer, address, 0), wide); }, nullptr);
      return;
    }
    if (has_masked_memory() && align >= 4) {
      builder_.CreateMaskedStore(value, lane_pointer(buffer, address, 0), wide, mask_);
      return;
    }
  }
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    auto put = [&] {
      builder_.CreateAlignedStore(builder_.CreateExtractElement(value, lane), lane_pointer(buffer, address, lane), llvm::Align(align));
    };
    if (mask_ && varies(mask_)) emit_if(builder_.CreateExtractElement(mask_, lane), put, nullptr);
    else put();
  }
}

}  // namespace tcc::codegen
