// tcc --version: what a report of a fault needs to say.
#include "cli/command_line.h"
#include "cli/commit.h"
#include "tcc/codegen/codegen.h"
#include "tcc/frontend/import.h"
#include "tcc/runtime/runtime.h"

namespace tcc::cli {

std::string version_text() {
  const std::string commit = TCC_COMMIT, ptxas = codegen::find_ptxas();
  std::string text = "tcc " TCC_VERSION + (commit.empty() ? "" : " (" + commit + ")") + "\n";
  text += "LLVM " TCC_LLVM_VERSION "\n";
  text += "interface of libraries: version " + std::to_string(TCC_ABI_VERSION) + "\n";
  text += "models: ONNX, opset " + std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset) + "\n";
  text += "targets: cuda (sm_80 and newer), cpu (x86-64-v3, x86-64-v4)\n";
  text += "ptxas: " + (ptxas.empty() ? "not found, no cubins can be made" : ptxas) + "\n";
  return text;
}

}  // namespace tcc::cli
