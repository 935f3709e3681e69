// What a command prints as its result.
#pragma once

#include <string_view>

namespace tcc {

/// To standard output, all of it; Error (environment) when it can't be written.
void write_stdout(std::string_view text);

}  // namespace tcc
