#include "cli/help.h"

#include <algorithm>

namespace tcc::cli {

namespace {

constexpr size_t kWidth = 100;
constexpr size_t kWidestName = 30;  // a longer one stands on a line of its own

// Names with a single dash, as compilers have them.
constexpr const char* kSingleDash[] = {"march", "MD", "MF", "MP"};

/// Words of the text in lines of at most `width` columns; a newline in the text stays one.
std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    if (!word.empty()) lines.back() += (lines.back().empty() ? "" : " ") + word;
    if (end < text.size() && text[end] == '\n') lines.emplace_back();
    at = end + 1;
  }
  return lines;
}

std::string paragraph(const std::string& text) {
  std::string result;
  for (const std::string& line : wrap(text, kWidth)) result += line + "\n";
  return result;
}

using Row = std::pair<std::string, std::string>;

Row row_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "" : ", ") + written_name("--" + name);
  // -O and -j take their number without a blank too, all else with one or with `=`.
  if (!option.get_type_name().empty() && option.get_items_expected_max() > 0) names += " " + option.get_type_name();
  return {names, names.ends_with("--help") ? "this text" : option.get_description()};
}

std::vector<const CLI::Option*> positionals(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

}  // namespace

std::string written_name(const std::string& name) {
  for (const char* single : kSingleDash) {
    if (name == std::string("--") + single) return name.substr(1);
  }
  return name;
}

std::string parsed_name(const std::string& argument) {
  for (const std::string single : kSingleDash) {
    if (argument == "-" + single || argument.starts_with("-" + single + "=")) return "-" + argument;
  }
  return argument;
}

std::string table_text(const std::vector<Row>& rows) {
  size_t column = 0;
  for (const auto& [name, text] : rows) {
    if (name.size() <= kWidestName) column = std::max(column, name.size());
  }
  column += 4;
  std::string result;
  for (const auto& [name, text] : rows) {
    std::string line = "  " + name;
    if (line.size() + 2 > column) {
      result += line + "\n";
      line.clear();
    }
    for (const std::string& piece : wrap(text, kWidth - column)) {
      line.resize(column, ' ');
      result += line + piece + "\n";
      line.clear();
    }
  }
  return result;
}

std::string help_text(const CLI::App& app, const Help& help) {
  std::string text = paragraph(app.get_description()) + "\n";
  std::vector<std::string> usage = help.usage;
  if (usage.empty()) {
    std::string line = app.get_name().substr(std::min<size_t>(app.get_name().size(), 4)) + " [flags]";
    for (const CLI::Option* option : positionals(app)) {
      std::string name = option->get_name(true);
      std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
      line += " " + name;
    }
    usage.push_back(line);
  }
  for (size_t i = 0; i < usage.size(); ++i) text += (i == 0 ? "Usage: tcc " : "       tcc ") + usage[i] + "\n";
  if (!help.examples.empty()) text += "\nExamples:\n";
  for (const auto& [command, what] : help.examples) text += "  " + command + "\n      " + what + "\n";
  std::vector<Row> arguments;
  for (const CLI::Option* option : positionals(app)) arguments.emplace_back(option->get_name(true), option->get_description());
  if (!arguments.empty()) text += "\nArguments:\n" + table_text(arguments);
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;
    std::vector<Row> rows;
    for (const CLI::Option* option : app.get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); }))
      rows.push_back(row_of(*option));
    // The request for this text comes last in its group.
    const auto help_row = std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.first.ends_with("--help"); });
    if (help_row != rows.end()) std::rotate(help_row, help_row + 1, rows.end());
    if (rows.empty()) continue;
    text += "\n" + group + ":\n" + table_text(rows);
  }
  for (const auto& [title, rows] : help.tables) text += "\n" + title + ":\n" + table_text(rows);
  if (!help.footer.empty()) text += "\n" + paragraph(help.footer);
  return text;
}

}  // namespace tcc::cli
