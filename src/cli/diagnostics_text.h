// docs/diagnostics.md, as it was when tcc was built.
#pragma once

namespace tcc::cli {

extern const char* const kDiagnosticsText;

}  // namespace tcc::cli
