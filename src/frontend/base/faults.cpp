#include "frontend/base/faults.h"
#include "tcc/graph/rule_error.h"

namespace tcc {

Faults::Faults(Diagnostics& diagnostics, std::string file, Help help) : diagnostics_(diagnostics), file_(std::move(file)), help_(help) {}

void Faults::report(const RuleError& error, const std::string& where, const std::string& snippet) {
  if (error.kind.starts_with("unsupported-")) diagnostics_.not_supported(error.kind, where, error.message, snippet);
  else diagnostics_.error(error.kind, where, error.message, snippet);
  if (help_ == nullptr) return;
  if (const std::string help = help_(error); !help.empty()) diagnostics_.help(where, help);
}

}  // namespace tcc
