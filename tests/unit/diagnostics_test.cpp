#include "tcc/support/diagnostics.h"
#include "tcc/graph/rule_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "scratch.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

TEST(Diagnostics, Text) {
  EXPECT_EQ(to_string({Diagnostic::Severity::not_supported, "unsupported-attribute", "net.onnx:conv", "`dilations` is [2, 2]",
                       "line 1\n  line 2"}),
            "net.onnx:conv: error: not supported yet: `dilations` is [2, 2] [unsupported-attribute]\n  line 1\n    line 2");
  EXPECT_EQ(to_string({Diagnostic::Severity::warning, "", "", "words", ""}), "tcc: warning: words");
  const Error error(ExitCode::usage, "unknown-flag", "", "found `-z`", "see --help");
  EXPECT_STREQ(error.what(), "tcc: error: found `-z` [unknown-flag]\ntcc: help: see --help");
}

TEST(Diagnostics, CheckpointThrowsAllAtOnce) {
  Diagnostics diagnostics;
  diagnostics.warning("w", "f", "first");
  diagnostics.note("f", "second");
  diagnostics.checkpoint();
  EXPECT_FALSE(diagnostics.has_errors());
  diagnostics.error("e", "f", "third");
  diagnostics.not_supported("n", "f", "fourth");
  diagnostics.help("f", "fifth");
  EXPECT_EQ(diagnostics.num_errors(), 2);
  EXPECT_EQ(testing::error_of(ExitCode::model, [&] { diagnostics.checkpoint(); }),
            "f: warning: first [w]\nf: note: second\nf: error: third [e]\nf: error: not supported yet: fourth [n]\nf: help: fifth");
  testing::error_of(ExitCode::usage, [&] { diagnostics.checkpoint(ExitCode::usage); });
}

TEST(Diagnostics, InternalErrorsNameTheirPlaceInTheTree) {
  EXPECT_EQ(testing::error_of(ExitCode::internal, [] { internal_error("two is one", "/home/user/tree/src/graph/print.cpp", 7); }),
            "tcc: internal error: two is one at src/graph/print.cpp:7 [internal-error]");
  testing::error_of(ExitCode::internal, [] { check(false, "no"); });
}

TEST(Diagnostics, KindsAreSortedAndUnique) {
  const auto kinds = diagnostic_kinds();
  EXPECT_TRUE(std::is_sorted(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.name <= b.name; }));
}

/// The kinds in a source text: the quoted word that follows one of the ways to report a fault.
std::set<std::string> kinds_in(const std::string& text) {
  static const std::regex call(
      R"re((?:\.error|\.not_supported|\.warning|refuse|usage|fail|RuleError|ExitCode::\w+,|Severity::\w+,|case TCC_\w+: return)[({]?\s*"([a-z][a-z0-9-]*)")re");
  std::set<std::string> kinds;
  for (std::sregex_iterator match(text.begin(), text.end(), call), end; match != end; ++match) kinds.insert((*match)[1]);
  return kinds;
}

std::string all_sources() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(TCC_SOURCE_DIR) + "/src")) {
    const std::string path = entry.path();
    if (path.ends_with(".cpp") || path.ends_with(".h")) text += read_text_file(path);
  }
  return text;
}

// The list of kinds is the list of what can be printed, and of what docs/diagnostics.md (and so `tcc explain`) has a section on.
TEST(Diagnostics, KindsAreThoseOfTheSourcesAndThoseOfThePage) {
  std::set<std::string> rows, sections;
  for (const DiagnosticKind& kind : diagnostic_kinds()) rows.emplace(kind.name);
  const std::string sources = all_sources(), page = read_text_file(std::string(TCC_SOURCE_DIR) + "/docs/diagnostics.md");
  const std::set<std::string> used = kinds_in(sources);
  EXPECT_GT(used.size(), 20U);
  for (const std::string& kind : used) EXPECT_TRUE(rows.contains(kind)) << "add a row `" << kind << "` to src/support/diagnostics.def";
  for (const std::string& row : rows) EXPECT_NE(sources.find('"' + row + '"'), std::string::npos) << row << " is never reported";
  for (size_t at = page.find("\n## "); at != std::string::npos; at = page.find("\n## ", at + 1))
    sections.insert(page.substr(at + 4, page.find('\n', at + 1) - at - 4));
  EXPECT_EQ(rows, sections);
}

}  // namespace
}  // namespace tcc
