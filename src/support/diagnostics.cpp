// How diagnostics are printed, collected and thrown.

#include "tcc/support/diagnostics.h"

#include <array>
#include <string_view>
#include <utility>

#include "tcc/support/printable.h"

namespace tcc {
namespace {

constexpr auto kKinds = std::to_array<DiagnosticKind>({
#define TCC_DIAGNOSTIC(kind, explanation) {kind, explanation},
#include "diagnostics.def"
#undef TCC_DIAGNOSTIC
});

std::string_view prefix_of(Diagnostic::Severity severity) {
  switch (severity) {
    case Diagnostic::Severity::error: return "error: ";
    case Diagnostic::Severity::not_supported: return "error: not supported yet: ";
    case Diagnostic::Severity::internal_error: return "internal error: ";
    case Diagnostic::Severity::warning: return "warning: ";
    case Diagnostic::Severity::note: return "note: ";
    case Diagnostic::Severity::help: return "help: ";
  }
  return "";
}

bool is_error(Diagnostic::Severity severity) {
  return severity == Diagnostic::Severity::error || severity == Diagnostic::Severity::not_supported ||
         severity == Diagnostic::Severity::internal_error;
}

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

std::vector<Diagnostic> with_help(std::string kind, std::string where, std::string message, std::string help) {
  std::vector<Diagnostic> diagnostics;
  diagnostics.push_back({Diagnostic::Severity::error, std::move(kind), where, std::move(message), ""});
  if (!help.empty()) diagnostics.push_back({Diagnostic::Severity::help, "", std::move(where), std::move(help), ""});
  return diagnostics;
}

/// Lines below a message stand two blanks to the right, so that none of them passes for a message.
void append_lines(std::string& text, std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    text += "\n  ";
    text += printable_lines(lines.substr(0, end));
    lines = end == std::string_view::npos ? std::string_view() : lines.substr(end + 1);
  }
}

/// The part of a source path that is the same wherever the tree was built.
std::string_view path_in_tree(std::string_view path) {
  for (std::string_view root : {"/src/", "/include/", "/tests/"}) {
    if (const size_t at = path.rfind(root); at != std::string_view::npos) return path.substr(at + 1);
  }
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

}  // namespace

std::span<const DiagnosticKind> diagnostic_kinds() { return kKinds; }

std::string to_string(const Diagnostic& diagnostic) {
  std::string text = diagnostic.where.empty() ? "tcc" : printable(diagnostic.where);
  text += ": ";
  text += prefix_of(diagnostic.severity);
  // A bug in tcc may come with a listing; a newline elsewhere is part of a name.
  const bool lists = diagnostic.severity == Diagnostic::Severity::internal_error;
  const size_t end = lists ? diagnostic.message.find('\n') : std::string::npos;
  text += printable(std::string_view(diagnostic.message).substr(0, end));
  if (!diagnostic.kind.empty()) text += " [" + diagnostic.kind + "]";
  if (end != std::string::npos) append_lines(text, std::string_view(diagnostic.message).substr(end + 1));
  append_lines(text, diagnostic.snippet);
  return text;
}

Error::Error(ExitCode code, std::vector<Diagnostic> diagnostics)
    : code_(code), diagnostics_(std::move(diagnostics)), text_(join(diagnostics_)) {}

Error::Error(ExitCode code, std::string kind, std::string where, std::string message, std::string help)
    : Error(code, with_help(std::move(kind), std::move(where), std::move(message), std::move(help))) {}

void Diagnostics::error(std::string kind, std::string where, std::string message, std::string snippet) {
  add({Diagnostic::Severity::error, std::move(kind), std::move(where), std::move(message), std::move(snippet)});
}

void Diagnostics::not_supported(std::string kind, std::string where, std::string message, std::string snippet) {
  add({Diagnostic::Severity::not_supported, std::move(kind), std::move(where), std::move(message), std::move(snippet)});
}

void Diagnostics::warning(std::string kind, std::string where, std::string message) {
  add({Diagnostic::Severity::warning, std::move(kind), std::move(where), std::move(message), ""});
}

void Diagnostics::note(std::string where, std::string message) {
  add({Diagnostic::Severity::note, "", std::move(where), std::move(message), ""});
}

void Diagnostics::help(std::string where, std::string message) {
  add({Diagnostic::Severity::help, "", std::move(where), std::move(message), ""});
}

void Diagnostics::add(Diagnostic diagnostic) {
  if (is_error(diagnostic.severity)) ++num_errors_;
  all_.push_back(std::move(diagnostic));
}

void Diagnostics::checkpoint(ExitCode code) const {
  if (!has_errors()) return;
  for (const Diagnostic& diagnostic : all_) {
    if (diagnostic.severity == Diagnostic::Severity::internal_error) code = ExitCode::internal;
  }
  throw Error(code, all_);
}

void internal_error(const std::string& message, const char* file, int line) {
  std::vector<Diagnostic> diagnostics;
  diagnostics.push_back({Diagnostic::Severity::internal_error, "internal-error", "",
                         message + " at " + std::string(path_in_tree(file)) + ":" + std::to_string(line), ""});
  throw Error(ExitCode::internal, std::move(diagnostics));
}

}  // namespace tcc
