// Scheduled loops to x86-64. A kernel runs the parallel items [begin, end) of its grid: the dims bound to `threads` are the digits of the item's number.
//
//   void k0(void* const* buffers, int64_t begin, int64_t end)        loads the pointers, calls
//   void k0.body(ptr noalias p0, ..., i64 begin, i64 end)            for item in begin..end { digits; the loops }
//
// Behind the parameters' pointers stands that of the check slots where the kernel checks indices (loop.h, num_index_checks).
//
// Two functions because `noalias` holds for parameters only, and without it no load could move over a store.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/module_passes.h"
#include "tcc/support/diagnostics.h"
#include "tcc/target/target.h"

namespace tcc::codegen {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

class X86Emitter final : public Emitter {
 public:
  X86Emitter(llvm::Module& module, const loop::Kernel& kernel) : Emitter(module, kernel, 64) {}

  void emit_function(const std::string& name) {
    llvm::Type* pointer = builder_.getPtrTy();
    llvm::Type* i64 = builder_.getInt64Ty();
    const size_t num_pointers = kernel_.params.size() + (loop::num_index_checks(kernel_.body) > 0 ? 1 : 0);
    std::vector<llvm::Type*> types(num_pointers, pointer);
    types.insert(types.end(), {i64, i64});
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), types, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name + ".body", module_);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    function_->addFnAttr(llvm::Attribute::NoInline);
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      llvm::Argument* argument = function_->getArg(static_cast<unsigned>(i));
      argument->addAttr(llvm::Attribute::NoAlias);
      argument->addAttr(llvm::Attribute::getWithCaptureInfo(context_, llvm::CaptureInfo::none()));
      if (!kernel_.params[i].written) argument->addAttr(llvm::Attribute::ReadOnly);
      buffers_[kernel_.params[i].buffer->id] = argument;
    }
    if (num_pointers > kernel_.params.size()) {
      check_slots_ = function_->getArg(static_cast<unsigned>(kernel_.params.size()));
      function_->addParamAttr(static_cast<unsigned>(kernel_.params.size()), llvm::Attribute::NoAlias);
    }
    begin_ = function_->getArg(static_cast<unsigned>(num_pointers));
    end_ = function_->getArg(static_cast<unsigned>(num_pointers) + 1);
    // The entry block holds the allocas alone.
    auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
    auto* start = llvm::BasicBlock::Create(context_, "start", function_);
    builder_.SetInsertPoint(start);
    emit_block(kernel_.body);
    builder_.CreateRetVoid();
    builder_.SetInsertPoint(entry);
    builder_.CreateBr(start);

    auto* outer = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), {pointer, i64, i64}, false),
                                         llvm::Function::ExternalLinkage, name, module_);
    outer->addFnAttr(llvm::Attribute::NoUnwind);
    builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", outer));
    std::vector<llvm::Value*> args;
    for (size_t i = 0; i < num_pointers; ++i) {
      args.push_back(builder_.CreateLoad(pointer, builder_.CreateConstInBoundsGEP1_64(pointer, outer->getArg(0), i)));
    }
    args.push_back(outer->getArg(1));
    args.push_back(outer->getArg(2));
    builder_.CreateCall(function_, args);
    builder_.CreateRetVoid();
  }

 protected:
  uint64_t parameter_alignment() const override { return 1; }  // tensors of callers lie where their elements may
  bool has_masked_memory() const override { return true; }
  bool has_nan_extremes() const override { return false; }
  bool has_bf16_conversions() const override { return false; }

  void emit_parallel_dims(const std::vector<loop::Dim>& dims, const Body& body) override {
    for (const loop::Dim& dim : dims) {
      if (dim.bind != loop::Bind::parallel)
        fail("loop %" + dim.var->name + " is bound to `" + std::string(name_of(dim.bind)) + "` on a CPU");
    }
    if (item_) {  // within a loop over items: other digits of the same number
      run_active(dims, body);
      return;
    }
    // for item in [begin, end)
    auto* header = llvm::BasicBlock::Create(context_, "item", function_);
    auto* work = llvm::BasicBlock::Create(context_, "item.body", function_);
    auto* done = llvm::BasicBlock::Create(context_, "item.end", function_);
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    builder_.CreateBr(header);
    builder_.SetInsertPoint(header);
    llvm::PHINode* item = builder_.CreatePHI(index_type_, 2);
    item->addIncoming(begin_, before);
    builder_.CreateCondBr(builder_.CreateICmpSLT(item, end_), work, done);
    builder_.SetInsertPoint(work);
    item_ = item;
    ++loop_depth_;
    run_active(dims, body);
    --loop_depth_;
    item_ = nullptr;
    item->addIncoming(builder_.CreateNSWAdd(item, builder_.getInt64(1)), builder_.GetInsertBlock());
    builder_.CreateBr(header);
    builder_.SetInsertPoint(done);
  }

  void combine_across(const loop::Reduce&, const std::vector<loop::Dim>& dims, std::vector<llvm::Value*>&) override {
    fail("reduction across `" + std::string(name_of(dims[0].bind)) + "` on a CPU");
  }
  void emit_tile_loop(const loop::Loop& loop) override { fail("register tile %" + loop.tile->name + " on a CPU"); }
  void emit_tile_reduce(const loop::Reduce& reduce) override { fail("register tile %" + reduce.tile->name + " on a CPU"); }
  using Emitter::emit;
  void emit(const loop::Barrier&) override { fail("a barrier on a CPU"); }
  void emit(const loop::Copy&) override { fail("a copy of all threads on a CPU"); }
  void emit(const loop::PipeDecl&) override { fail("a pipe on a CPU"); }
  void emit(const loop::PipeOp&) override { fail("a pipe on a CPU"); }
  void emit(const loop::Mma&) override { fail("an mma on a CPU"); }
  void emit(const loop::MmaWait&) override { fail("an mma on a CPU"); }
  void emit(const loop::Roles&) override { fail("roles on a CPU"); }

  llvm::Value* allocate(const loop::Buffer& buffer) override {
    if (buffer.space != loop::Space::scratch) fail("buffer %" + buffer.name + " has no space of a CPU");
    return make_alloca(memory_type(buffer.dtype), buffer.count(), 64);
  }

 private:
  void run_active(const std::vector<loop::Dim>& dims, const Body& body) {
    if (llvm::Value* active = bind_digits(dims, item_, kernel_.grid)) emit_if(active, body, nullptr);
    else body();
  }

  llvm::Value* item_ = nullptr;  ///< the number of the parallel item, inside the loop over them
  llvm::Value* begin_ = nullptr;
  llvm::Value* end_ = nullptr;
};

}  // namespace

CompiledModule emit_x86(const std::vector<NamedKernel>& kernels, const Options& options) {
  auto machine = make_target_machine(kTriple, options.target, "", options.optimization);
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  module.setTargetTriple(llvm::Triple(kTriple));
  module.setDataLayout(machine->createDataLayout());
  for (const NamedKernel& named : kernels) X86Emitter(module, *named.kernel).emit_function(named.name);
  const bool wide = Target::of(options.target).vector_bytes == 64;
  for (llvm::Function& function : module) {
    function.addFnAttr("target-cpu", options.target);
    if (wide) function.addFnAttr("prefer-vector-width", "512");
  }
  optimize_module(module, *machine, options.optimization);
  CompiledModule products;
  if (options.want_llvm) products.llvm_ir = print_module(module);
  if (options.want_asm) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    products.assembly = emit_file(*copy, *machine, false);
  }
  products.object = emit_file(module, *machine, true);
  return products;
}

}  // namespace tcc::codegen
