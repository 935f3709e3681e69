// What rules of ops throw.
#pragma once

#include <string>

namespace tcc {

/// Thrown by the rules of ops with a message that says found and expected ("`axis` is 4, rank is 3"). The caller makes it a Diagnostic that names the
/// node (report() in location.h).
struct RuleError {
  std::string kind;  ///< a row of diagnostics.def: "type-error", "unsupported-attribute", ...
  std::string message;
};

}  // namespace tcc
