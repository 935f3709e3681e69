// Files that are made when tcc is built and are parts of tcc: the linker takes them from here.
#pragma once

#include <string_view>

namespace tcc::runtime {

/// The launcher stub (src/runtime/stub) as one relocatable object.
std::string_view launcher_stub();
/// A shared library named libc.so.6 with the names of stub/libc_functions.txt and no code, to link against.
std::string_view libc_interface();
/// The text of tcc/runtime/runtime.h.
std::string_view runtime_header();

}  // namespace tcc::runtime
