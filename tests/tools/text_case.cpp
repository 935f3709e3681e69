#include "text_case.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

namespace tcc::text_test {
namespace {

[[noreturn]] void fail(const std::string& message) {
  std::cerr << "error: " << message << "\n";
  std::exit(2);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail("cannot read " + path.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// A line of a comment without its mark; nothing where it is not a comment.
std::optional<std::string> comment(const std::string& line) {
  std::string text = trim(line);
  const size_t skip = text.starts_with("//") ? 2 : text.starts_with("#") ? 1 : 0;
  if (skip == 0) return std::nullopt;
  return trim(std::string_view(text).substr(skip));
}

/// What follows `// NAME:` on a line, if that is what the line is.
std::optional<std::string> directive(const std::string& line, std::string_view name) {
  const std::optional<std::string> text = comment(line);
  if (!text || !text->starts_with(name) || text->size() <= name.size() || (*text)[name.size()] != ':') return std::nullopt;
  return trim(std::string_view(*text).substr(name.size() + 1));
}

/// `// RUN: command`, `// RUN if program: command`.
std::optional<Run> run_directive(const std::string& line) {
  if (const auto command = directive(line, "RUN")) return Run{"", *command};
  const std::optional<std::string> text = comment(line);
  if (!text || !text->starts_with("RUN if ")) return std::nullopt;
  const size_t colon = text->find(':');
  if (colon == std::string::npos) fail("`" + trim(line) + "`: `RUN if program: command` was expected");
  return Run{trim(std::string_view(*text).substr(7, colon - 7)), trim(std::string_view(*text).substr(colon + 1))};
}

bool is_marker(const std::string& line, std::string_view mark) {
  std::string text = trim(line);
  return text == "// " + std::string(mark) || text == "# " + std::string(mark);
}

bool is_separator(const std::string& line) { return is_marker(line, "---") || line.starts_with("// --- ") || line.starts_with("# --- "); }

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// `n m = 1 2, 3 4`.
Values parse_values(const std::string& text) {
  const size_t equals = text.find('=');
  Values values;
  if (equals != std::string::npos) values.names = words_of(text.substr(0, equals));
  std::istringstream rows(equals == std::string::npos ? "" : text.substr(equals + 1));
  for (std::string row; std::getline(rows, row, ',');) {
    values.rows.push_back(values.names.size() == 1 ? std::vector<std::string>{trim(row)} : words_of(row));
    if (values.rows.back().size() != values.names.size()) fail("FOR: " + text + ": `" + trim(row) + "` is not a value for each name");
  }
  if (values.names.empty() || values.rows.empty()) fail("FOR: " + text + ": `names = values, values` was expected");
  return values;
}

/// The directives of one case, if the line has one.
void read_directives(const std::string& line, Test& test, Case& item) {
  if (auto read = directive(line, "READ")) test.read = *read;
  if (auto program = directive(line, "REQUIRES")) test.required.push_back(*program);
  if (auto code = directive(line, "EXIT")) {
    test.exit_code = std::atoi(code->c_str());
    test.is_message = true;
  }
  if (auto counts = directive(line, "COUNT")) item.counts.push_back(*counts);
  if (auto with = directive(line, "WITH")) item.with += (item.with.empty() ? "" : " ") + *with;
  if (auto values = directive(line, "FOR")) item.loops.push_back(parse_values(*values));
}

}  // namespace

std::string trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  if (from.empty()) return text;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

Test parse(const std::filesystem::path& path) {
  Test test;
  test.path = path;
  test.cases.emplace_back();
  bool continued = false;
  for (const std::string& line : lines_of(read_file(path))) {
    if (is_separator(line)) {
      test.cases.emplace_back();
      test.cases.back().separator = line;
      continue;
    }
    Case& current = test.cases.back();
    if (is_marker(line, "EXPECT")) {
      current.expected = "";
      continue;
    }
    if (current.expected) {  // what tcc prints may itself hold comments
      *current.expected += line + "\n";
      continue;
    }
    if (auto run = run_directive(line)) {
      if (continued) {
        test.runs.back().command += " " + run->command;
      } else {
        test.runs.push_back(*run);
      }
      std::string& command = test.runs.back().command;
      continued = !command.empty() && command.back() == '\\';
      if (continued) command.pop_back();
    }
    read_directives(line, test, current);
    current.before += line + "\n";
  }
  test.has_expectations = test.cases.size() > 1 || test.cases[0].expected || !test.cases[0].loops.empty();
  return test;
}

std::vector<Case> variants_of(const Case& item) {
  std::vector<Case> variants{item};
  for (const Values& loop : item.loops) {
    std::vector<Case> longer;
    for (const Case& variant : variants) {
      for (const std::vector<std::string>& row : loop.rows) {
        Case& next = longer.emplace_back(variant);
        for (size_t i = 0; i < row.size(); ++i) {
          const std::string mark = "${" + loop.names[i] + "}";
          for (std::string* text : {&next.with, &next.before}) *text = replace_all(*text, mark, row[i]);
          if (next.expected) next.expected = replace_all(*next.expected, mark, row[i]);
          for (std::string& counts : next.counts) counts = replace_all(counts, mark, row[i]);
          next.values += (next.values.empty() ? "" : ", ") + loop.names[i] + " = " + row[i];
        }
      }
    }
    variants = std::move(longer);
  }
  return variants;
}

}  // namespace tcc::text_test
