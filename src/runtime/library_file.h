// A library's file, looked at before it is loaded: the system's loader dies without a word on one that was cut or damaged.
#pragma once

#include <string>

namespace tcc::runtime {

/// Fails (environment, unusable-library) for what is no x86-64 shared library, one that is shorter than its own tables say, and one whose
/// bytes are not those that tcc wrote, embedded weights excepted. A library without a seal (a tool has rewritten it) is let through, unless
/// `must_be_sealed`. Reads the code of the library once, so it takes about a millisecond.
void check_library_file(const std::string& path, bool must_be_sealed);

}  // namespace tcc::runtime
