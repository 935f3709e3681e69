// How diagnostics reach the user: as text, or as JSON for tools.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "tcc/support/printable.h"

namespace tcc::cli {

namespace {

using Json = nlohmann::ordered_json;
using Severity = Diagnostic::Severity;

Json place_of(const Diagnostic& diagnostic) {
  Json object = {{"where", valid_utf8(diagnostic.where)}, {"message", valid_utf8(diagnostic.message)}};
  if (!diagnostic.snippet.empty()) object["snippet"] = valid_utf8(diagnostic.snippet);
  return object;
}

/// An error, a warning, or a note that stands alone.
Json object_of(const Diagnostic& diagnostic) {
  Json object;
  switch (diagnostic.severity) {
    case Severity::error: object["severity"] = "error"; break;
    case Severity::not_supported: object = {{"severity", "error"}, {"supported", false}}; break;
    case Severity::internal_error: object = {{"severity", "error"}, {"internal", true}}; break;
    case Severity::warning: object["severity"] = "warning"; break;
    case Severity::note: object["severity"] = "note"; break;
    case Severity::help: object["severity"] = "help"; break;
  }
  if (!diagnostic.kind.empty()) object["kind"] = diagnostic.kind;
  object.update(place_of(diagnostic));
  return object;
}

}  // namespace

std::vector<Json> json_of(const std::vector<Diagnostic>& diagnostics) {
  std::vector<Json> objects;
  for (const Diagnostic& diagnostic : diagnostics) {
    const bool follows = diagnostic.severity == Severity::note || diagnostic.severity == Severity::help;
    if (!follows || objects.empty()) objects.push_back(object_of(diagnostic));
    else objects.back()[diagnostic.severity == Severity::note ? "notes" : "helps"].push_back(place_of(diagnostic));
  }
  return objects;
}

namespace {

void print_json(const std::vector<Diagnostic>& diagnostics) {
  // Escaped to ASCII: a terminal that shows it can't be led astray either.
  for (const Json& object : json_of(diagnostics)) std::fprintf(stderr, "%s\n", object.dump(-1, ' ', true).c_str());
}

}  // namespace

void print_diagnostics(const Diagnostics& diagnostics, const driver::Options& options) {
  if (options.quiet) return;
  if (options.json_diagnostics) return print_json(diagnostics.all());
  for (const Diagnostic& diagnostic : diagnostics.all()) std::fprintf(stderr, "%s\n", to_string(diagnostic).c_str());
}

void print_error(const Error& error, bool json) {
  if (json) print_json(error.diagnostics());
  else std::fprintf(stderr, "%s\n", error.what());
}

}  // namespace tcc::cli
