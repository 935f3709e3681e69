// Found out with GNU make 4.3 and its manual ("Rule Syntax", "Using Wildcard Characters in File Names", "Setting Variables"):
//   a backslash escapes    space # :   and | among prerequisites
//   doubled is             $
//   literal is             a backslash, unless it stands before something that it would escape; % among prerequisites
//   no escape has          ; (a recipe follows), = (an assignment), * ? [ ~ (file names that match), control characters, % in a target (a
//                          pattern rule), a ) at the end (`lib(a b)` are members of an archive, also of words apart), & before the colon of a target
#include "driver/dependencies.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "driver/emit.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {
namespace {

/// .PHONY, .IGNORE and the like change what make does when they are targets.
bool is_special_target(std::string_view name) {
  if (name.size() < 2 || name[0] != '.') return false;
  return std::all_of(name.begin() + 1, name.end(), [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

std::string makefile_word(const std::string& name, bool target) {
  std::string text;
  for (const char c : name) {
    if (c == ' ' || c == '#' || c == ':' || (c == '|' && !target)) text += '\\';
    if (c == '$') text += '$';
    text += c;
  }
  return text;
}

void require_fit(const std::string& name, bool target) {
  const auto reason = unfit_for_make(name, target);
  if (!reason) return;
  throw Error(ExitCode::usage, "invalid-argument", name, "a Makefile can't hold this name: " + *reason,
              "give the file another name, or leave -MD and -MF out");
}

}  // namespace

std::string dependency_path(const Options& options) {
  if (!options.dependency_file.empty()) return options.dependency_file;
  if (!options.dependencies) return "";
  if (options.output.empty()) throw Error(ExitCode::usage, "invalid-argument", "", "-MD needs -o or -MF to know where to write");
  return options.output + ".d";
}

void check_dependencies(const Options& options, const std::vector<std::string>& inputs) {
  if (dependency_path(options).empty()) return;
  if (!options.output.empty()) require_fit(options.output, true);
  for (const std::string& input : inputs) require_fit(input, false);
}

std::string dependencies(const Options& options, const std::vector<std::string>& products, const std::vector<std::string>& inputs) {
  std::vector<std::string> targets = options.output.empty() ? products : std::vector{options.output};
  if (targets.empty()) targets = {stem_of(options.model)};
  for (const std::string& target : targets) require_fit(target, true);
  for (const std::string& input : inputs) require_fit(input, false);
  return makefile_rules(targets, inputs);
}

std::optional<std::string> unfit_for_make(const std::string& name, bool target) {
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "it has a control character";
    if (c == ';' || c == '=' || c == '*' || c == '?' || c == '[') return std::string("it has a `") + c + "`";
    if (c == '%' && target) return "it has a `%`";
    if (c == '\\' && (i + 1 == name.size() || std::string_view(" #:%|&\\~()").find(name[i + 1]) != std::string_view::npos))
      return i + 1 == name.size() ? "it ends in a backslash" : std::string("it has a backslash before `") + name[i + 1] + "`";
  }
  if (name.starts_with('~')) return "it begins with `~`";
  if (name.ends_with(' ')) return "it ends in a space";
  if (name.ends_with(')')) return "it ends in `)`";
  if (target && name.ends_with('&')) return "it ends in `&`";
  if (target && is_special_target(name)) return "it is a word of make";
  return std::nullopt;
}

std::string makefile_rules(const std::vector<std::string>& targets, const std::vector<std::string>& inputs) {
  std::string text;
  for (const std::string& target : targets) text += (text.empty() ? "" : " ") + makefile_word(target, true);
  text += ":";
  for (const std::string& input : inputs) text += " " + makefile_word(input, false);
  text += "\n";
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (!unfit_for_make(inputs[i], true)) text += "\n" + makefile_word(inputs[i], true) + ":\n";
  }
  return text;
}

}  // namespace tcc::driver
