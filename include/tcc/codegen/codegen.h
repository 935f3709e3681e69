// Code for kernels: the scheduled loop IR to LLVM IR, then to PTX text or an x86-64 object.
#pragma once

#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::codegen {

struct NamedKernel {
  std::string name;  ///< symbol: "k0", ...
  const loop::Kernel* kernel;
};

/// What one module is at each step; later texts are made only when asked for (asm_text) or when they are the product.
struct CompiledModule {
  std::string llvm_ir;   ///< filled when want_llvm
  std::string assembly;  ///< PTX text (nvptx: always), or x86 assembly when want_asm
  std::string object;    ///< x86: ELF relocatable bytes
};
struct Options {
  int optimization = 2;  ///< 0..3; NVPTX is never below 2
  bool want_llvm = false, want_asm = false;
  std::string target;  ///< "sm_80", "sm_90a", "x86-64-v3", "x86-64-v4"
};

/// x86-64: each kernel is `void name(void* const* buffers, int64_t begin, int64_t end)`, the parallel items [begin, end) of its grid; buffers in
/// parameter order. No libm calls: math functions are emitted. memcpy/memset may be called.
CompiledModule emit_x86(const std::vector<NamedKernel>& kernels, const Options& options);
/// PTX: each kernel is an entry `name` with one global pointer per parameter, 1-D grid and block. `tcc_shared` dynamic shared memory.
CompiledModule emit_nvptx(const std::vector<NamedKernel>& kernels, const Options& options);

/// About how many instructions a kernel becomes, to be compared with that of others: what takes long begins first.
int64_t estimate_code_size(const loop::Kernel& kernel);

/// Finds ptxas ($TCC_PTXAS, PATH, /usr/local/cuda/bin); empty when there is none.
std::string find_ptxas();
/// Assembles PTX to a cubin for `arch`. Error: internal with ptxas's message when it refuses the PTX; environment (failed-tool) when it lacks
/// memory, a disk or a library, or is killed. `report` receives the -v text (registers, spills).
std::string assemble_ptx(const std::string& ptx, const std::string& arch, std::string* report = nullptr);

/// Makes LLVM end the process as handle_faults() of tcc/support/process.h does. For programs.
void handle_faults_of_llvm();

}  // namespace tcc::codegen
