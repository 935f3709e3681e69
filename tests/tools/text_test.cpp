// Runs one test that is a text file (or several), as lit would, and compares IR by its structure.
//
//   text_test --tcc=PATH [--stages=PATH] [--models=DIR] [--scratch=DIR] [--update] FILE...
//
// text_case.h says what such a file may hold. With several files, those that fail are all named.
//
// Two texts are the same when they differ only in spacing, comments, the names of %values, `;` for a line's end, and
// `loc(...)` when the expected text has none. With READ, the expected text goes through that command first (a parser
// and printer), so that it may also leave out what printing adds. With EXIT the output is a message, and every
// character counts, but for the case's own path, which is written %s.
//
// --update puts what came in place of what was expected; the difference is then read before it is committed.
#include <sys/wait.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text_case.h"

namespace {

namespace fs = std::filesystem;
using namespace tcc::text_test;

constexpr int skipped = 77;

struct Options {
  std::string tcc = "tcc", stages = "stages";
  std::string models;
  std::string scratch = ".";
  bool update = false;
  std::vector<std::string> files;
};

struct Result {
  int exit_code = 0;
  std::string output;
};

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  if (!stream.flush()) {
    std::cerr << "error: cannot write " << path.string() << "\n";
    std::exit(2);
  }
}

std::string quoted(const std::string& text) { return "'" + replace_all(text, "'", "'\\''") + "'"; }

Result run_command(const std::string& command) {
  Result result;
  FILE* pipe = popen(("bash -o pipefail -c " + quoted(command)).c_str(), "r");
  if (!pipe) {
    std::cerr << "error: cannot start bash\n";
    std::exit(2);
  }
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.output.append(buffer, n);
  int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

bool on_path(const std::string& program) { return run_command("command -v " + quoted(program)).exit_code == 0; }

std::string substitute(const std::string& command, const Options& options, const Test& test, const Case& item, const fs::path& text,
                       const fs::path& scratch) {
  const std::pair<std::string_view, std::string> replacements[] = {
      {"%%", "%"},
      {"%with", item.with},
      {"%stages", options.stages},  // before %s
      {"%tcc", options.tcc},        // before %t
      {"%models", options.models},
      {"%S", test.path.parent_path().string()},
      {"%s", text.string()},
      {"%t", scratch.string()},
  };
  std::string result;
  for (size_t i = 0; i < command.size();) {
    bool replaced = false;
    for (const auto& [from, to] : replacements) {
      if (command.compare(i, from.size(), from) != 0) continue;
      result += to;
      i += from.size();
      replaced = true;
      break;
    }
    if (!replaced) result += command[i++];
  }
  return result;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The line without its comment; `//` inside a string is not a comment.
std::string without_comment(const std::string& line) {
  bool in_string = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (in_string && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && line.compare(i, 2, "//") == 0) {
      return line.substr(0, i);
    }
  }
  return line;
}

std::string without_location(const std::string& line) {
  size_t begin = line.find("loc(\"");
  if (begin == std::string::npos) return line;
  size_t end = begin + 5;
  while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
  return line.substr(0, begin) + (end + 2 < line.size() ? line.substr(end + 2) : "");
}

/// Lines that are equal exactly when the texts are, up to what the file header lists.
std::vector<std::string> normalized(const std::string& text, bool keep_locations) {
  std::vector<std::string> result;
  std::map<std::string, std::string> names;
  for (const std::string& source : lines_of(text)) {
    std::string line = without_comment(source);
    if (!keep_locations) line = without_location(line);
    line = trim(line);
    if (line.rfind("weights \"", 0) == 0) continue;  // the name of a file beside the text
    std::string out;
    for (size_t i = 0; i < line.size();) {
      char c = line[i];
      if (c == '"' || (c == '%' && i + 1 < line.size() && (is_word(line[i + 1]) || line[i + 1] == '"'))) {
        size_t end = i + 1;
        bool is_quoted = c == '"' || line[end] == '"';
        if (is_quoted) {
          if (c == '%') ++end;
          while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
          end = std::min(end + 1, line.size());
        } else {
          while (end < line.size() && (is_word(line[end]) || line[end] == '.')) ++end;
        }
        std::string token = line.substr(i, end - i);
        if (c == '%') token = names.emplace(token, "%" + std::to_string(names.size())).first->second;
        out += token;
        i = end;
      } else if (c == ';') {
        if (!out.empty()) result.push_back(out);
        out.clear();
        ++i;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        size_t next = line.find_first_not_of(" \t", i);
        if (!out.empty() && next != std::string::npos && is_word(out.back()) && is_word(line[next])) out += ' ';
        i = next == std::string::npos ? line.size() : next;
      } else {
        out += c;
        ++i;
      }
    }
    if (!out.empty()) result.push_back(out);
  }
  return result;
}

/// The lines of `text` in which `word` stands as a word of its own, comments left out.
int count_lines_with(const std::string& text, const std::string& word) {
  int count = 0;
  const bool is_bounded_before = is_word(word.front()), is_bounded_after = is_word(word.back());
  for (const std::string& source : lines_of(text)) {
    std::string line = without_comment(source);
    for (size_t at = 0; (at = line.find(word, at)) != std::string::npos; at += word.size()) {
      bool starts = !is_bounded_before || at == 0 || !is_word(line[at - 1]);
      bool ends = !is_bounded_after || at + word.size() == line.size() || !is_word(line[at + word.size()]);
      if (starts && ends) {
        ++count;
        break;
      }
    }
  }
  return count;
}

/// `list`: `word number` or `word >=number`, with commas between.
bool check_counts(const std::string& list, const std::string& output) {
  bool passed = true;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    item = trim(item);
    const size_t blank = item.find_last_of(' ');
    const std::string word = blank == std::string::npos ? "" : trim(item.substr(0, blank)), number = item.substr(blank + 1);
    const bool at_least = number.starts_with(">=");
    const std::string digits = at_least ? number.substr(2) : number;
    if (word.empty() || digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) {
      std::cerr << "error: COUNT is a list of `word number` or `word >=number`, not `" << trim(item) << "`\n";
      return false;
    }
    const int found = count_lines_with(output, word), expected = std::stoi(digits);
    if (at_least ? found >= expected : found == expected) continue;
    std::cerr << "COUNT: " << found << " lines with `" << word << "`, expected " << number << "\n";
    passed = false;
  }
  return passed;
}

std::string without_locations(const std::string& text) {
  std::string result;
  for (const std::string& line : lines_of(text)) {
    std::string kept = without_location(line);
    result += kept.substr(0, kept.find_last_not_of(" \t") + 1) + "\n";
  }
  return result;
}

void print_difference(const fs::path& scratch, const std::string& expected, const std::string& found) {
  write_file(scratch.string() + ".expected", expected);
  write_file(scratch.string() + ".found", found);
  std::cerr << run_command("diff -u -w -B " + quoted(scratch.string() + ".expected") + " " + quoted(scratch.string() + ".found")).output;
}

/// Runs one case. `updated` becomes the text that --update writes after EXPECT.
bool run_case(const Options& options, const Test& test, const Case& item, const fs::path& scratch, std::string& updated) {
  fs::path text = test.path;
  if (test.has_expectations) {
    text = scratch.string() + test.path.extension().string();
    write_file(text, item.before);
  }
  std::string output;
  for (const Run& run : test.runs) {
    if (!run.program.empty() && !on_path(run.program)) continue;
    std::string command = substitute(run.command, options, test, item, text, scratch);
    Result result = run_command(command);
    output += result.output;
    if (result.exit_code != test.exit_code) {
      std::cerr << "exit code " << result.exit_code << ", expected " << test.exit_code << ": " << command << "\n" << result.output;
      return false;
    }
  }

  bool passed = true;
  for (const std::string& counts : item.counts) passed = check_counts(counts, output) && passed;
  if (!passed) std::cerr << output;
  if (!item.expected) return passed;

  bool unchanged = trim(*item.expected) == "unchanged";
  std::string expected = unchanged ? item.before : *item.expected;
  if (test.is_message) {
    output = replace_all(output, text.string(), "%s");
    updated = output;
    if (trim(output) == trim(expected)) return passed;
    print_difference(scratch, expected, output);
    return false;
  }

  if (!test.read.empty()) {
    fs::path file = scratch.string() + ".read" + test.path.extension().string();
    write_file(file, expected);
    std::string command = substitute(test.read, options, test, item, file, scratch);
    Result result = run_command(command);
    if (result.exit_code != 0) {
      std::cerr << "the expected text cannot be read: " << command << "\n" << result.output;
      updated = output;
      return false;
    }
    expected = result.output;
  }
  bool keep_locations = !unchanged && item.expected->find("loc(\"") != std::string::npos;
  if (normalized(output, keep_locations) == normalized(expected, keep_locations)) {
    updated = *item.expected;
    return passed;
  }
  updated = keep_locations ? output : without_locations(output);
  print_difference(scratch, expected, output);
  return false;
}

/// Runs a case with each of its values. `updated` becomes the text that --update writes after EXPECT, where there is one for all values.
bool run_variants(const Options& options, const Test& test, const Case& item, const fs::path& scratch, std::string& updated) {
  bool passed = true;
  const std::vector<Case> variants = variants_of(item);
  for (size_t i = 0; i < variants.size(); ++i) {
    const fs::path place = variants.size() == 1 ? scratch : fs::path(scratch.string() + "." + std::to_string(i + 1));
    std::string now = variants[i].expected.value_or("");
    if (run_case(options, test, variants[i], place, now)) continue;
    if (!variants[i].values.empty()) std::cerr << "with " << variants[i].values << "\n";
    if (variants[i].values.empty()) updated = now;
    passed = false;
  }
  return passed;
}

/// 0, 1 or `skipped`.
int run_test(const Options& options, const std::string& file) {
  Test test = parse(fs::absolute(file));
  if (test.runs.empty()) {
    std::cerr << file << ": error: no RUN line\n";
    return 1;
  }
  for (const std::string& program : test.required) {
    if (on_path(program)) continue;
    std::cerr << file << ": skipped: no " << program << " here\n";
    return skipped;
  }

  std::string name = replace_all(replace_all(test.path.string(), "/", "_"), " ", "_");
  std::string rewritten;
  bool passed = true;
  for (size_t i = 0; i < test.cases.size(); ++i) {
    const Case& item = test.cases[i];
    bool says_something = !test.has_expectations || item.expected || !item.counts.empty();
    fs::path scratch = fs::absolute(fs::path(options.scratch) / (name + "." + std::to_string(i + 1)));
    std::string updated = item.expected.value_or("");
    if (!says_something || !run_variants(options, test, item, scratch, updated)) {
      std::cerr << file << ": case " << i + 1 << (says_something ? " failed" : " has neither EXPECT nor COUNT")
                << (item.separator.empty() ? "" : ": " + trim(replace_all(item.separator, "// ---", ""))) << "\n";
      passed = false;
    }
    if (i > 0) rewritten += item.separator + "\n";
    rewritten += item.before;
    if (item.expected) rewritten += "// EXPECT\n" + updated + (updated.empty() || updated.back() == '\n' ? "" : "\n");
  }
  if (!passed && options.update && test.has_expectations) {
    write_file(test.path, rewritten);
    std::cerr << file << ": rewritten\n";
  }
  return passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    auto value_of = [&](std::string_view flag) { return argument.rfind(flag, 0) == 0 ? argument.substr(flag.size()) : ""; };
    if (std::string tcc = value_of("--tcc="); !tcc.empty()) {
      options.tcc = tcc;
    } else if (std::string stages = value_of("--stages="); !stages.empty()) {
      options.stages = stages;
    } else if (std::string models = value_of("--models="); !models.empty()) {
      options.models = models;
    } else if (std::string scratch = value_of("--scratch="); !scratch.empty()) {
      options.scratch = scratch;
    } else if (argument == "--update") {
      options.update = true;
    } else if (argument.rfind("--", 0) == 0) {
      std::cerr << "usage: text_test --tcc=PATH [--stages=PATH] [--models=DIR] [--scratch=DIR] [--update] FILE...\n";
      return 2;
    } else {
      options.files.push_back(argument);
    }
  }
  fs::create_directories(options.scratch);
  const char* path = std::getenv("PATH");
  const char* ptxas = std::getenv("TCC_PTXAS");  // as tcc finds it
  const std::string beside = ptxas ? ":" + fs::path(ptxas).parent_path().string() : "";
  setenv("PATH", (std::string(TCC_LLVM_TOOLS) + ":" + (path ? path : "") + beside + ":/usr/local/cuda/bin").c_str(), 1);

  int worst = 0;
  int num_skipped = 0;
  for (const std::string& file : options.files) {
    int code = run_test(options, file);
    if (code == skipped) {
      ++num_skipped;
    } else if (code != 0) {
      worst = code;
    }
  }
  if (worst == 0 && num_skipped > 0 && num_skipped == static_cast<int>(options.files.size())) return skipped;
  return worst;
}
