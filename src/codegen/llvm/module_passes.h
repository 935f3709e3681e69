// Target machines and the optimisation pipeline, shared by both targets.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace tcc::codegen {

/// Registers both targets, once for the process.
void initialize_targets();
/// Errors: internal when LLVM lacks the target.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& triple, const std::string& cpu, const std::string& features,
                                                         int optimization);
/// Checks the module, then runs the passes of level `optimization` on it. Errors: internal, with LLVM's message and the function, on malformed IR.
void optimize_module(llvm::Module& module, llvm::TargetMachine& machine, int optimization);
std::string print_module(const llvm::Module& module);
/// Assembly text or object bytes.
std::string emit_file(llvm::Module& module, llvm::TargetMachine& machine, bool object);

}  // namespace tcc::codegen
