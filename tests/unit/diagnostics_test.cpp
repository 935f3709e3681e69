#include "tcc/support/diagnostics.h"

#include <gtest/gtest.h>

#include <algorithm>
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
std::set<std::string> kinds_in(std::string_view text) {
  std::set<std::string> kinds;
  for (const std::string_view call :
       {".error(\"", ".not_supported(\"", ".warning(\"", ".refuse(\"", "RuleError{\"", "ExitCode::model, \"", "ExitCode::usage, \"",
        "ExitCode::environment, \"", "ExitCode::verification, \"", "ExitCode::internal, \""}) {
    for (size_t at = text.find(call); at != std::string_view::npos; at = text.find(call, at + 1)) {
      const std::string_view rest = text.substr(at + call.size());
      const std::string_view kind = rest.substr(0, rest.find('"'));
      // A line that only looks alike, such as the name of a file, is not in kebab-case.
      if (!kind.empty() && kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos) kinds.emplace(kind);
    }
  }
  return kinds;
}

TEST(Diagnostics, EveryKindInTheSourcesIsARow) {
  const std::string source_dir = TCC_SOURCE_DIR;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir + "/src")) {
    const std::string path = entry.path();
    if (!path.ends_with(".cpp") && !path.ends_with(".h")) continue;
    for (const std::string& kind : kinds_in(read_text_file(path))) {
      const auto kinds = diagnostic_kinds();
      EXPECT_TRUE(std::any_of(kinds.begin(), kinds.end(), [&](const auto& row) { return row.name == kind; }))
          << path << ": add a row `" << kind << "` to src/support/diagnostics.def";
    }
  }
}

}  // namespace
}  // namespace tcc
