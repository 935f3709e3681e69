// tcc explain KIND: the section of docs/diagnostics.md on the word in brackets at the end of a message.
#include <string_view>

#include "cli/command_line.h"
#include "cli/diagnostics_text.h"
#include "tcc/support/standard_output.h"
#include "tcc/support/suggest.h"

namespace tcc::cli {

namespace {

/// From the heading of the kind to the next one, the heading left out.
std::string_view section_of(std::string_view kind) {
  const std::string_view page = kDiagnosticsText;
  const std::string heading = "\n## " + std::string(kind) + "\n";
  const size_t begin = page.find(heading);
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = page.substr(begin + heading.size());
  return rest.substr(0, rest.find("\n## "));
}

std::string list_of_kinds() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const DiagnosticKind& kind : diagnostic_kinds()) rows.emplace_back(kind.name, kind.explanation);
  return table_text(rows);
}

}  // namespace

int explain(const Arguments& arguments) {
  CLI::App app("Says what a kind of message means and what to do about it. Without a kind it lists them all.", "tcc explain");
  std::string kind;
  app.add_option("kind", kind, "the word in brackets at the end of a message, such as unsupported-op")->type_name("");
  if (!parse(app, arguments)) return 0;
  if (kind.empty()) {
    write_stdout(list_of_kinds());
    return 0;
  }
  if (kind.starts_with('[') && kind.ends_with(']')) kind = kind.substr(1, kind.size() - 2);
  std::string_view text = section_of(kind);
  if (text.empty()) {
    std::vector<std::string> kinds;
    for (const DiagnosticKind& row : diagnostic_kinds()) kinds.emplace_back(row.name);
    throw Error(ExitCode::usage, "invalid-argument", "", "there is no kind of message `" + kind + "`", suggest(kind, "kinds", kinds));
  }
  const size_t first = text.find_first_not_of('\n'), last = text.find_last_not_of('\n');
  write_stdout(kind + "\n\n" + std::string(text.substr(first, last + 1 - first)) + "\n");
  return 0;
}

}  // namespace tcc::cli
