// What a text test holds. Directives stand in comments, `//` or `#`:
//
//   RUN: command      a shell line; all of them have to succeed, and their outputs together are what is checked. %tcc the program, %stages the
//                     program of stages.cpp, %s the text, %S the test's folder, %models the unpacked models, %t a path to write to, %% a percent.
//                     FileCheck and not are in the PATH.
//   RUN if ptxas: command        the same, where the PATH has that program
//   EXIT: 2           the RUN lines are to end with this code instead of 0, and what is expected is a message; EXIT: 0 for warnings
//   REQUIRES: ptxas   the test is skipped (exit 77) where no such program is in the PATH
//   COUNT: kernel 1, load >=2    so many lines of the output hold that word
//   READ: command     the expected text goes through this command first
//
// With EXPECT or COUNT the file is a list of cases, split by lines `// ---` or `// --- what the next case shows`, each a text, `// EXPECT`, and
// what becomes of it, or the word `unchanged`. RUN is done for each case, with %s a file that holds that case alone, and %with what its line
// `// WITH:` says:
//
//   // RUN: %tcc --from=loop %with --emit=loop %s
//   // WITH: --pass='split(i, 8)'
//   map %i in 16 { ... }
//   // EXPECT
//   ...
//   // ---
//   ...
//
// A case with `// FOR: d = f32, f16` is run with each of these values in the place of `${d}`, wherever that stands in it; `// FOR: n m = 1 2, 3 4`
// takes several together, and several lines make all combinations.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::text_test {

/// Names and the values that they take together.
struct Values {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows;
};

/// A text and what should become of it; a file without EXPECT is one case without `expected`.
struct Case {
  std::string separator;  ///< the line above it; of the first case empty
  std::string with;
  std::string before;
  std::optional<std::string> expected;
  std::vector<std::string> counts;
  std::vector<Values> loops;  ///< FOR
  std::string values;         ///< of a variant: "d = f32"
};

struct Run {
  std::string program;  ///< without which it is left out; may be empty
  std::string command;
};

struct Test {
  std::filesystem::path path;
  std::vector<Run> runs;
  std::string read;
  std::vector<std::string> required;
  int exit_code = 0;
  bool is_message = false;  ///< EXIT stands in it
  std::vector<Case> cases;
  bool has_expectations = false;  ///< it is a list of cases
};

/// Ends the program where the file can't be read or is malformed.
Test parse(const std::filesystem::path& path);

/// The case with each combination of values; itself where it has none.
std::vector<Case> variants_of(const Case& item);

std::string trim(std::string_view text);
std::vector<std::string> lines_of(const std::string& text);
std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace tcc::text_test
