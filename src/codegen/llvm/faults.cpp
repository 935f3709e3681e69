// What LLVM does when it has no memory, or gives up: by itself it calls abort(), which is no exit code of ours and leaves temporary files.
#include <string_view>

#include "llvm/Support/ErrorHandling.h"

#include "tcc/codegen/codegen.h"
#include "tcc/support/process.h"

namespace tcc::codegen {
namespace {

void without_memory(void*, const char*, bool) { end_without_memory(); }

void given_up(void*, const char* reason, bool) {
  // Threads and mappings that the system refuses come this way as well.
  const std::string_view text = reason;
  for (const std::string_view memory : {"memory", "pthread_create", "Resource temporarily unavailable"}) {
    if (text.find(memory) != std::string_view::npos) end_without_memory();
  }
  end_with_internal_error(text);
}

}  // namespace

void handle_faults_of_llvm() {
  llvm::install_bad_alloc_error_handler(without_memory);
  llvm::install_fatal_error_handler(given_up);
}

}  // namespace tcc::codegen
