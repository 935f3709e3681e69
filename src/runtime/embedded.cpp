#include "runtime/embedded.h"

// The build defines TCC_*_FILE as the paths of the files.
#define TCC_EMBED(symbol, file)                                                                                              \
  __asm__(".pushsection .rodata." #symbol ",\"a\",@progbits\n.balign 16\n" #symbol "_begin:\n.incbin \"" file "\"\n" #symbol \
          "_end:\n.byte 0\n.popsection\n");                                                                                  \
  extern "C" const char symbol##_begin[] __attribute__((visibility("hidden")));                                              \
  extern "C" const char symbol##_end[] __attribute__((visibility("hidden")));

TCC_EMBED(tcc_embedded_stub, TCC_STUB_FILE)
TCC_EMBED(tcc_embedded_libc, TCC_LIBC_FILE)
TCC_EMBED(tcc_embedded_header, TCC_HEADER_FILE)

namespace tcc::runtime {
namespace {

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }

}  // namespace

std::string_view launcher_stub() { return between(tcc_embedded_stub_begin, tcc_embedded_stub_end); }
std::string_view libc_interface() { return between(tcc_embedded_libc_begin, tcc_embedded_libc_end); }
std::string_view runtime_header() { return between(tcc_embedded_header_begin, tcc_embedded_header_end); }

}  // namespace tcc::runtime
