// Runs the cases of *.graph in this folder: a before, `// EXPECT`, and an after, split by `// ---`.
//
// The first line of a file names the pass: `// RUN: canonicalize`; options follow it. After `// EXPECT` stands a graph, `unchanged`, or lines
// `error: ...` of which each has to be part of some diagnostic. Graphs are compared as structure: names of inner values and spacing never matter.
// Every case also checks that the text reads back, that the result is well formed, and that a second run changes nothing.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tcc/graph/passes.h"

namespace tcc {
namespace {

struct Case {
  std::string file;
  int line = 0;
  std::string pass;
  std::string before;
  std::string after;
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.file << ":" << test.line; }

std::vector<Case> load_cases() {
  std::vector<Case> cases;
  for (const char* name : {"canonicalize", "eliminate_common_subexpressions", "eliminate_dead_code", "fold_constants", "resolve"}) {
    const std::string file = std::string(name) + ".graph";
    std::ifstream in(std::string(TCC_TEST_DATA_DIR) + "/" + file);
    std::string line, pass;
    std::getline(in, line);
    if (line.starts_with("// RUN: ")) pass = line.substr(8);
    Case current{file, 2, pass, "", ""};
    bool expecting = false;
    for (int number = 2; std::getline(in, line); ++number) {
      if (line.starts_with("// ---")) {
        cases.push_back(current);
        current = {file, number + 1, pass, "", ""};
        expecting = false;
      } else if (line == "// EXPECT") {
        expecting = true;
      } else {
        (expecting ? current.after : current.before) += line + "\n";
      }
    }
    cases.push_back(current);
  }
  return cases;
}

/// Runs the pass; the text of its diagnostics, empty when there are none.
std::string run_pass(const std::string& pass, Graph& graph) {
  Diagnostics diagnostics;
  if (pass == "canonicalize") canonicalize(graph);
  else if (pass == "eliminate-common-subexpressions") eliminate_common_subexpressions(graph);
  else if (pass == "eliminate-dead-code") eliminate_dead_code(graph);
  else if (pass == "fold-constants") fold_constants(graph), eliminate_dead_code(graph);
  else if (pass == "resolve") resolve(graph, diagnostics), eliminate_dead_code(graph);
  else ADD_FAILURE() << "no pass `" << pass << "`";
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics.all()) text += to_string(diagnostic) + "\n";
  return text;
}

std::string faults(const Graph& graph, GraphStage stage) {
  std::string text;
  for (const std::string& fault : verify(graph, stage)) text += fault + "\n";
  return text;
}

std::string show(const Graph& graph) {
  PrintOptions options;
  options.small_weights = 16;
  return print(graph, options);
}

void expect_reads_back(const Graph& graph) {
  std::string why;
  EXPECT_TRUE(equal(graph, *parse_graph(show(graph), graph.file, {}, true), &why)) << why;
}

class GraphPass : public testing::TestWithParam<Case> {};

TEST_P(GraphPass, Case) {
  const Case& test = GetParam();
  const std::string where = test.file + ":" + std::to_string(test.line);
  SCOPED_TRACE(where);
  try {
    const auto graph = parse_graph(test.before, test.file, {});
    const auto original = graph->clone();
    std::string why;
    EXPECT_TRUE(equal(*graph, *original, &why)) << "a clone differs: " << why;
    expect_reads_back(*graph);
    EXPECT_EQ(faults(*graph, GraphStage::imported), "");
    const std::string said = run_pass(test.pass, *graph);
    if (test.after.starts_with("error: ")) {
      std::istringstream lines(test.after);
      for (std::string line; std::getline(lines, line);)
        EXPECT_NE(said.find(line.substr(7)), std::string::npos) << "expected `" << line << "`, found\n" << said;
      return;
    }
    EXPECT_EQ(said, "");
    const auto expected = test.after.starts_with("unchanged") ? original->clone() : parse_graph(test.after, test.file, {});
    EXPECT_TRUE(equal(*graph, *expected, &why)) << why << "\nfound\n" << show(*graph);
    EXPECT_EQ(faults(*graph, test.pass == "resolve" ? GraphStage::resolved : GraphStage::imported), "");
    expect_reads_back(*graph);
    const auto once = graph->clone();
    run_pass(test.pass, *graph);
    EXPECT_TRUE(equal(*graph, *once, &why)) << "a second run changes more: " << why << "\n" << show(*graph);
  } catch (const Error& error) { FAIL() << error.what(); } catch (const RuleError& error) {
    FAIL() << error.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GraphPass, testing::ValuesIn(load_cases()), [](const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file.substr(0, info.param.file.find('.'));
  return name + "_line_" + std::to_string(info.param.line);
});

}  // namespace
}  // namespace tcc
