// Faults of a model: where they are, and what is said about them.
//
//   net.onnx:layer3/Add: error: shapes f32[2] and f32[3] do not broadcast [type-error]
//     %y = Add(%a: f32[2], %b: f32[3])
//   net.onnx:layer3/Add: help: ...
//
// Rules and handlers throw RuleError; the importer knows the place. A node with a fault leaves faulty names behind (scope.h).
#pragma once

#include <string>
#include <string_view>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

/// Thrown where a node reads what a faulty node should have made: it is passed over, the fault has its message.
struct Poisoned {};

class Faults {
 public:
  /// What a user can do about a fault; empty when the message says it.
  using Help = std::string (*)(const RuleError& error);

  /// `file` as messages name it.
  Faults(Diagnostics& diagnostics, std::string file, Help help = nullptr);

  Diagnostics& diagnostics() { return diagnostics_; }
  const std::string& file() const { return file_; }
  /// The place of a node, input or weight in messages.
  std::string where(std::string_view name) const { return file_ + ":" + std::string(name); }
  /// `snippet`: the node as the model has it.
  void report(const RuleError& error, const std::string& where, const std::string& snippet = "");
  /// Ends the import when something was reported.
  void checkpoint() const { diagnostics_.checkpoint(ExitCode::model); }

  /// Runs `import`, which makes the results of a node or some other thing of the model. False when it had a fault, which is reported with what
  /// `where` and `snippet` return, or read what a fault left unmade.
  template <class Import, class Where, class Snippet> bool attempt(const Import& import, const Where& where, const Snippet& snippet) {
    try {
      import();
      return true;
    } catch (const Poisoned&) { return false; } catch (const RuleError& error) {
      report(error, where(), snippet());
    }
    return false;
  }
  template <class Import, class Where> bool attempt(const Import& import, const Where& where) {
    return attempt(import, where, [] { return ""; });
  }

 private:
  Diagnostics& diagnostics_;
  std::string file_;
  Help help_;
};

}  // namespace tcc
