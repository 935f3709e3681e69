// The end of a library: its length and checksum (program::LibrarySeal), so that a file that was cut or changed is told from a whole one.
#pragma once

#include <cstdint>
#include <string>

namespace tcc::link {

/// Appends the seal to a linked library, whose embedded weights have `weights_bytes`. `shown` is the path that errors name. Error
/// (environment) when it can't be read or written.
void seal_library(const std::string& path, const std::string& shown, uint64_t weights_bytes);

}  // namespace tcc::link
