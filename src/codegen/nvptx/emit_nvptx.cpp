// Kernels, threads and reductions across them.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "codegen/llvm/module_passes.h"
#include "codegen/nvptx/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::Bind;

namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";
constexpr unsigned kGlobal = 1, kShared = 3;
constexpr uint64_t kTensorMapBytes = 128;

// 32-bit indices suffice when no buffer has 2^31 elements or more, and no loop as many iterations.
unsigned index_bits(const loop::Kernel& kernel) {
  constexpr int64_t kMost = (int64_t{1} << 31) - (int64_t{1} << 16);
  bool wide = false;
  for (const loop::Param& param : kernel.params) wide |= param.buffer->count() >= kMost;
  loop::walk(kernel.body, [&](const loop::Stmt& stmt) {
    const auto* dims = loop::dims_of(stmt);
    for (size_t i = 0; dims && i < dims->size(); ++i) wide |= (*dims)[i].var->extent >= kMost;
  });
  return wide ? 64 : 32;
}

}  // namespace

NvptxEmitter::NvptxEmitter(llvm::Module& module, const loop::Kernel& kernel)
    : Emitter(module, kernel, index_bits(kernel)),
      shared_(loop::shared_layout(kernel.body)),
      team_threads_(kernel.threads),
      maps_(loop::tensor_maps(kernel)) {}

void NvptxEmitter::emit_function(const std::string& name) {
  llvm::Type* pointer = llvm::PointerType::get(context_, kGlobal);
  const bool has_checks = loop::num_index_checks(kernel_.body) > 0;
  std::vector<llvm::Type*> types(kernel_.params.size() + (has_checks ? 1 : 0), pointer);
  first_map_ = static_cast<unsigned>(types.size());
  types.resize(types.size() + maps_.size(), llvm::PointerType::get(context_, 0));
  function_ =
      llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false), llvm::Function::ExternalLinkage, name, module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->addFnAttr("nvvm.reqntid", std::to_string(kernel_.threads) + ",1,1");
  function_->addFnAttr("nvvm.minctasm", std::to_string(blocks_by_registers()));
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    llvm::Argument* argument = function_->getArg(static_cast<unsigned>(i));
    argument->addAttr(llvm::Attribute::NoAlias);
    argument->addAttr(llvm::Attribute::getWithAlignment(context_, llvm::Align(kParameterAlignment)));
    if (!kernel_.params[i].written) argument->addAttr(llvm::Attribute::ReadOnly);
    buffers_[kernel_.params[i].buffer->id] = argument;
  }
  if (has_checks) {
    check_slots_ = function_->getArg(static_cast<unsigned>(kernel_.params.size()));
    function_->addParamAttr(static_cast<unsigned>(kernel_.params.size()), llvm::Attribute::NoAlias);
  }
  for (unsigned i = first_map_; i < types.size(); ++i) {
    // By value, and not copied to the stack: the copy engine reads it where it is.
    function_->addParamAttr(i, llvm::Attribute::getWithByValType(context_, llvm::ArrayType::get(builder_.getInt8Ty(), kTensorMapBytes)));
    function_->addParamAttr(i, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
    function_->addParamAttr(i, llvm::Attribute::get(context_, "nvvm.grid_constant"));
  }
  if (shared_.total_bytes > 0) {
    shared_array_ =
        new llvm::GlobalVariable(module_, llvm::ArrayType::get(builder_.getInt8Ty(), 0), false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                 "tcc_shared", nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
    shared_array_->setAlignment(llvm::Align(1024));
  }
  auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
  auto* start = llvm::BasicBlock::Create(context_, "start", function_);
  builder_.SetInsertPoint(start);
  thread_ = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, kernel_.threads);
  block_ = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, kernel_.grid);
  if (has_async_statements()) elect();
  emit_block(kernel_.body);
  builder_.CreateRetVoid();
  builder_.SetInsertPoint(entry);
  builder_.CreateBr(start);
}

llvm::Value* NvptxEmitter::special_register(llvm::Intrinsic::ID id, int64_t limit) {
  auto* call = llvm::cast<llvm::CallInst>(builder_.CreateIntrinsic(builder_.getInt32Ty(), id, {}));
  call->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(limit))));
  return builder_.CreateZExtOrTrunc(call, index_type_);
}

llvm::Value* NvptxEmitter::lane() { return builder_.CreateAnd(thread_, llvm::ConstantInt::get(index_type_, 31)); }
llvm::Value* NvptxEmitter::warp() { return builder_.CreateLShr(thread_, llvm::ConstantInt::get(index_type_, 5)); }

void NvptxEmitter::barrier() {
  if (team_threads_ == kernel_.threads) {
    builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {builder_.getInt32(0)});
  } else {
    builder_.CreateIntrinsic(
        builder_.getVoidTy(), llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count,
        {builder_.getInt32(static_cast<uint32_t>(team_barrier_)), builder_.getInt32(static_cast<uint32_t>(team_threads_))});
  }
}

void NvptxEmitter::emit_parallel_dims(const std::vector<loop::Dim>& dims, const Body& body) {
  std::vector<loop::Dim> blocks, threads, warps, lanes;
  for (const loop::Dim& dim : dims) {
    switch (dim.bind) {
      case Bind::block: blocks.push_back(dim); break;
      case Bind::thread: threads.push_back(dim); break;
      case Bind::warp: warps.push_back(dim); break;
      case Bind::lane: lanes.push_back(dim); break;
      default: fail("loop %" + dim.var->name + " is bound to `" + std::string(name_of(dim.bind)) + "` on a GPU");
    }
  }
  llvm::Value* active = nullptr;
  auto bind = [&](const std::vector<loop::Dim>& group, llvm::Value* number, int64_t available) {
    llvm::Value* ok = bind_digits(group, number, available);
    if (ok) active = active ? builder_.CreateAnd(active, ok) : ok;
  };
  bind(blocks, block_, kernel_.grid);
  bind(threads, thread_, team_threads_);
  bind(warps, warps.empty() ? nullptr : warp(), team_threads_ / 32);
  bind(lanes, lanes.empty() ? nullptr : lane(), 32);
  if (active) emit_if(active, body, nullptr);
  else body();
}

// Any value of up to 64 bits: moved as 32-bit words.
llvm::Value* NvptxEmitter::shuffle_xor(llvm::Value* value, int offset) {
  llvm::Type* type = value->getType();
  unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  auto move = [&](llvm::Value* word) {
    return builder_.CreateIntrinsic(
        builder_.getInt32Ty(), llvm::Intrinsic::nvvm_shfl_sync_bfly_i32,
        {builder_.getInt32(0xffffffffu), word, builder_.getInt32(static_cast<uint32_t>(offset)), builder_.getInt32(31)});
  };
  llvm::Value* integer = builder_.CreateBitCast(value, builder_.getIntNTy(bits));
  if (bits <= 32) {
    llvm::Value* moved = move(builder_.CreateZExt(integer, builder_.getInt32Ty()));
    return builder_.CreateBitCast(builder_.CreateTrunc(moved, builder_.getIntNTy(bits)), type);
  }
  llvm::Value* low = move(builder_.CreateTrunc(integer, builder_.getInt32Ty()));
  llvm::Value* high = move(builder_.CreateTrunc(builder_.CreateLShr(integer, uint64_t{32}), builder_.getInt32Ty()));
  llvm::Value* joined = builder_.CreateOr(builder_.CreateZExt(low, builder_.getInt64Ty()),
                                          builder_.CreateShl(builder_.CreateZExt(high, builder_.getInt64Ty()), uint64_t{32}));
  return builder_.CreateBitCast(joined, type);
}

void NvptxEmitter::combine_lanes(const loop::Reduce& reduce, std::vector<llvm::Value*>& states, int64_t lanes) {
  for (int offset = static_cast<int>(lanes / 2); offset >= 1; offset /= 2) {
    std::vector<llvm::Value*> other;
    for (llvm::Value* state : states) other.push_back(shuffle_xor(state, offset));
    states = combine_states(reduce.states, reduce.combine.get(), states, other);
  }
}

// Lanes by shuffles; warps through one slot each in shared memory, which every warp then reads and combines by shuffles again.
void NvptxEmitter::combine_across(const loop::Reduce& reduce, const std::vector<loop::Dim>& dims, std::vector<llvm::Value*>& states) {
  bool threads = false;
  for (const loop::Dim& dim : dims) {
    if (dim.bind == Bind::warp) fail("a reduction across warps must be bound to thread");
    threads |= dim.bind == Bind::thread;
  }
  const int64_t radix = digits_.at(dims[0].var.get()).radix;  // of lanes within a loop over the others
  combine_lanes(reduce, states, !threads && radix != 0 ? radix : 32);
  if (!threads || kernel_.threads <= 32) return;
  llvm::Type* i8 = builder_.getInt8Ty();
  auto slot = [&](size_t state, llvm::Value* which) {
    llvm::Value* offset =
        builder_.CreateAdd(builder_.CreateShl(which, uint64_t{3}),
                           llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(shared_.reduce_offset) + state * 256));
    return builder_.CreateInBoundsGEP(i8, shared_array_, builder_.CreateTrunc(offset, builder_.getInt32Ty()));
  };
  if (reduced_before_ || loop_depth_ > 0) barrier();  // the slots may still be read
  reduced_before_ = true;
  llvm::Value* this_lane = lane();
  llvm::Value* first = builder_.CreateICmpEQ(this_lane, llvm::ConstantInt::get(index_type_, 0));
  llvm::Value* this_warp = warp();
  emit_if(
      first,
      [&] {
        for (size_t i = 0; i < states.size(); ++i) {
          DType dtype = reduce.states[i].result->dtype;
          builder_.CreateAlignedStore(to_memory(states[i], dtype), slot(i, this_warp), llvm::Align(8));
        }
      },
      nullptr);
  barrier();
  int64_t warps = kernel_.threads / 32;
  llvm::Value* has_slot = builder_.CreateICmpULT(this_lane, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(warps)));
  llvm::Value* safe = builder_.CreateSelect(has_slot, this_lane, llvm::ConstantInt::get(index_type_, 0));
  for (size_t i = 0; i < states.size(); ++i) {
    const loop::State& state = reduce.states[i];
    llvm::Value* read = builder_.CreateAlignedLoad(memory_type(state.result->dtype), slot(i, safe), llvm::Align(8));
    llvm::Value* neutral = reduce.combine ? emit_expr(state.init) : identity(state.combiner, states[i]->getType(), state.result->dtype);
    states[i] = builder_.CreateSelect(has_slot, from_memory(read, state.result->dtype), neutral);
  }
  combine_lanes(reduce, states, 32);
}

// ---------------------------------------------------------------------------------------------------------- shared memory

llvm::Value* NvptxEmitter::allocate(const loop::Buffer& buffer) {
  if (buffer.space != loop::Space::shared) fail("buffer %" + buffer.name + " has no space of a GPU");
  return shared_array_;  // element_pointer adds the offset
}

// Where a buffer begins, of a pipe its first stage.
uint32_t NvptxEmitter::shared_offset(const loop::Buffer& buffer) const {
  auto it = shared_.buffer_offset.find(buffer.id);
  if (it == shared_.buffer_offset.end()) fail("buffer %" + buffer.name + " has no place in shared memory");
  return static_cast<uint32_t>(it->second);
}

// The bytes before the stage that copies fill or that is read; null where there is one alone.
llvm::Value* NvptxEmitter::shared_stage(const loop::Buffer& buffer, bool producing) {
  auto pipe = pipe_of_buffer_.find(buffer.id);
  if (pipe == pipe_of_buffer_.end()) return nullptr;
  const PipeState& state = pipes_.at(pipe->second);
  llvm::Value* stage = builder_.CreateLoad(builder_.getInt32Ty(), producing ? state.produce : state.consume);
  return builder_.CreateMul(stage, builder_.getInt32(static_cast<uint32_t>(shared_.pipe_stage_bytes.at(pipe->second))));
}

llvm::Value* NvptxEmitter::shared_base(const loop::Buffer& buffer, bool producing) {
  llvm::Value* base = builder_.getInt32(shared_offset(buffer));
  llvm::Value* stage = shared_stage(buffer, producing);
  return stage ? builder_.CreateAdd(stage, base) : base;
}

llvm::Value* NvptxEmitter::swizzled(const loop::Buffer& buffer, llvm::Value* byte_offset) {
  const loop::Swizzle& s = buffer.swizzle;
  if (s.bits == 0) return byte_offset;
  llvm::Value* source =
      builder_.CreateAnd(byte_offset, builder_.getInt32(static_cast<uint32_t>(((1 << s.bits) - 1) << (s.base + s.shift))));
  return builder_.CreateXor(byte_offset, builder_.CreateLShr(source, static_cast<uint64_t>(s.shift)));
}

// What is constant stands last, where loads and stores take it: many elements have one base then.
llvm::Value* NvptxEmitter::shared_pointer(const loop::Buffer& buffer, llvm::Value* element_offset, int64_t behind, bool producing) {
  const loop::Swizzle& s = buffer.swizzle;
  const int64_t element = size_bytes(buffer.dtype);
  if (s.bits != 0) {  // which looks at bits that whole periods of it don't change
    const int64_t period = (int64_t{1} << (s.base + s.shift + s.bits)) / element, rest = (behind % period + period) % period;
    if (rest != 0) element_offset = builder_.CreateAdd(element_offset, llvm::ConstantInt::getSigned(element_offset->getType(), rest));
    behind -= rest;
  }
  llvm::Value* offset = builder_.CreateZExtOrTrunc(element_offset, builder_.getInt32Ty());
  llvm::Value* bytes = swizzled(buffer, builder_.CreateMul(offset, builder_.getInt32(static_cast<uint32_t>(element))));
  if (llvm::Value* stage = shared_stage(buffer, producing)) bytes = builder_.CreateAdd(bytes, stage);
  return builder_.CreateGEP(builder_.getInt8Ty(), builder_.CreateGEP(builder_.getInt8Ty(), shared_array_, bytes),
                            llvm::ConstantInt::getSigned(builder_.getInt32Ty(), shared_offset(buffer) + behind * element));
}

llvm::Value* NvptxEmitter::element_pointer(const loop::Buffer& buffer, llvm::Value* offset, int64_t behind) {
  if (buffer.space == loop::Space::shared) return shared_pointer(buffer, offset, behind, false);
  return Emitter::element_pointer(buffer, offset, behind);
}

void NvptxEmitter::emit(const loop::Barrier&) { barrier(); }

// The version of PTX, where it is later than the first one for the target: products of warpgroups of i8 by u8 came with 8.4.
static std::string features_of(const std::vector<NamedKernel>& kernels) {
  bool mixes = false;
  for (const NamedKernel& named : kernels) {
    loop::walk(named.kernel->body, [&](const loop::Stmt& stmt) {
      const auto* mma = std::get_if<loop::Mma>(&stmt.node);
      mixes |= mma && mma->async && is_integer(mma->a->dtype) && mma->a->dtype != mma->b->dtype;
    });
  }
  return mixes ? "+ptx84" : "";
}

CompiledModule emit_nvptx(const std::vector<NamedKernel>& kernels, const Options& options) {
  int optimization = std::max(options.optimization, 2);  // below, copies of accumulators stay and registers spill
  auto machine = make_target_machine(kTriple, options.target, features_of(kernels), optimization);
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  module.setTargetTriple(llvm::Triple(kTriple));
  module.setDataLayout(machine->createDataLayout());
  for (const NamedKernel& named : kernels) NvptxEmitter(module, *named.kernel).emit_function(named.name);
  optimize_module(module, *machine, optimization);
  guard_negations(module);
  CompiledModule products;
  if (options.want_llvm) products.llvm_ir = print_module(module);
  products.assembly = emit_file(module, *machine, false);
  return products;
}

}  // namespace tcc::codegen
