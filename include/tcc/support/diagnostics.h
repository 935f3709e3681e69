// Everything tcc says about a model or a command goes through here (docs/diagnostics.md; style: what, where in the model, what to do).
//
//   net.onnx:layer3/conv/Conv: error: not supported yet: `dilations` is [2, 2], lowered is [1, 1] [unsupported-attribute]
//     <the node printed>
//   net.onnx:layer3/conv/Conv: help: export with dilations=[1, 1]
//
// A stage reports every fault it finds into a Diagnostics, then calls checkpoint(), which throws Error when there was one.
// A fault that leaves nothing to go on with (unreadable file, wrong flag) is thrown as Error at once.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

/// Exit codes of the program, those of `tcc run` included.
enum class ExitCode : int { ok = 0, model = 1, usage = 2, verification = 3, internal = 4, environment = 5 };

/// One message. `where` is "file:node" or "file" or "" (the command itself).
struct Diagnostic {
  enum class Severity { error, not_supported, internal_error, warning, note, help };
  Severity severity = Severity::error;
  std::string kind;  ///< kebab-case identifier, a row of diagnostics.def, e.g. "unsupported-op"
  std::string where;
  std::string message;  ///< lower case, no full stop, found value before expected value
  std::string snippet;  ///< printed IR line(s) that belong to it, or empty
};

/// A row of diagnostics.def: every kind that a Diagnostic may have.
struct DiagnosticKind {
  std::string_view name;
  std::string_view explanation;
};
std::span<const DiagnosticKind> diagnostic_kinds();

/// Text of one diagnostic, as printed on stderr (several lines when there is a snippet; no newline at the end). An empty `where` prints `tcc`.
/// Names in it are escaped as by printable(); a text of several lines belongs into the snippet.
std::string to_string(const Diagnostic& diagnostic);

/// Thrown to leave a stage. what() is the full text to print (no newline at the end); code is the process exit code.
class Error : public std::exception {
 public:
  Error(ExitCode code, std::vector<Diagnostic> diagnostics);
  /// One `error` diagnostic. `where` may be empty.
  Error(ExitCode code, std::string kind, std::string where, std::string message, std::string help = "");
  const char* what() const noexcept override { return text_.c_str(); }
  ExitCode code() const { return code_; }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  ExitCode code_;
  std::vector<Diagnostic> diagnostics_;
  std::string text_;
};

/// Collects the faults of one stage.
class Diagnostics {
 public:
  void error(std::string kind, std::string where, std::string message, std::string snippet = "");
  void not_supported(std::string kind, std::string where, std::string message, std::string snippet = "");
  void warning(std::string kind, std::string where, std::string message);
  void note(std::string where, std::string message);
  void help(std::string where, std::string message);
  void add(Diagnostic diagnostic);
  bool has_errors() const { return num_errors_ > 0; }
  int num_errors() const { return num_errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  /// Throws Error(code, all) when an error was reported (ExitCode::internal when one was an internal error); otherwise returns.
  void checkpoint(ExitCode code = ExitCode::model) const;

 private:
  std::vector<Diagnostic> all_;
  int num_errors_ = 0;
};

/// A violated invariant of ours: throws Error(ExitCode::internal, "internal-error").
[[noreturn]] void internal_error(const std::string& message, const char* file = __builtin_FILE(), int line = __builtin_LINE());
inline void check(bool condition, const char* message, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!condition) internal_error(message, file, line);
}

}  // namespace tcc
