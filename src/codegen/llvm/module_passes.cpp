// The pipeline is short because the schedule has decided what LLVM's loop passes would: vectors, unrolling and interchange are done. What is left is
// promotion to registers, common subexpressions, invariant code and cleanup. Level 3 adds LLVM's own O3 for what hand-written IR may bring.
#include "codegen/llvm/module_passes.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetOptions.h>

#include <mutex>
#include <new>

#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

void initialize_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    // LLVM would abort: what is larger than memory is an error like any other.
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // 32-bit shared and local pointers: half the registers for shared addresses.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto it = options.find("nvptx-short-ptr"); it != options.end()) static_cast<llvm::cl::opt<bool>*>(it->second)->setValue(true);
  });
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& triple, const std::string& cpu, const std::string& features,
                                                         int optimization) {
  initialize_targets();
  std::string message;
  llvm::Triple parsed(triple);
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(parsed, message);
  if (!target) internal_error("LLVM has no target " + triple + ": " + message);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where the IR says `contract`
  auto level = optimization <= 0   ? llvm::CodeGenOptLevel::None
               : optimization == 1 ? llvm::CodeGenOptLevel::Less
               : optimization == 2 ? llvm::CodeGenOptLevel::Default
                                   : llvm::CodeGenOptLevel::Aggressive;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(parsed, cpu, features, options, llvm::Reloc::PIC_, std::nullopt, level));
}

void optimize_module(llvm::Module& module, llvm::TargetMachine& machine, int optimization) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) internal_error("malformed LLVM IR: " + message + "\n" + print_module(module));
  if (optimization <= 0) return;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (optimization >= 3) {
    passes = builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  } else {
    const char* text = optimization == 1
                           ? "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>)"
                           : "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-simplifycfg,licm),gvn,"
                             "loop-mssa(licm),sroa,instcombine<no-verify-fixpoint>,adce,simplifycfg,infer-alignment)";
    if (auto error = builder.parsePassPipeline(passes, text)) internal_error("pass pipeline: " + llvm::toString(std::move(error)));
  }
  passes.run(module, modules);
}

std::string print_module(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

namespace {

/// Leaves a pass of LLVM's own code generation out where it takes too long. Straight-line strength reduction asks of each address whether it may be poison, with
/// a walk over what follows: on unrolled epilogues that was two thirds of code generation. It shares the arithmetic of addresses at constant distances, which
/// the emitters of long kernels write that way already.
class PassGate final : public llvm::OptPassGate {
 public:
  explicit PassGate(llvm::Module& module) : context_(module.getContext()) {
    constexpr unsigned kLong = 500;  // instructions
    for (const llvm::Function& function : module) {
      if (function.getInstructionCount() > kLong) long_functions_.insert(("function (" + function.getName() + ")").str());
    }
    context_.setOptPassGate(*this);
  }
  ~PassGate() override { context_.setOptPassGate(llvm::getGlobalPassGate()); }
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef description) const override {
    return pass != "slsr" || !long_functions_.contains(description);
  }

 private:
  llvm::LLVMContext& context_;
  llvm::StringSet<> long_functions_;
};

}  // namespace

std::string emit_file(llvm::Module& module, llvm::TargetMachine& machine, bool object) {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  const PassGate gate(module);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile)) {
    internal_error("LLVM cannot write this kind of file for the target");
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace tcc::codegen
