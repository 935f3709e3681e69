// What only shows when something inside goes wrong, and what documents promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cli/program.h"
#include "driver/bindings.h"
#include "driver/dependencies.h"
#include "driver/passes.h"
#include "driver/run_stage.h"
#include "tcc/passes/passes.h"
#include "tcc/support/files.h"
#include "tcc/support/safetensors.h"

namespace tcc::driver {
namespace {

TEST(Session, AnInternalErrorLeavesAReproducer) {
  const test::Folder folder;
  const test::Variable temporary("TMPDIR", folder.path());
  const auto graph = parse_graph(test::small_graph(), "small.graph", {});
  Options options;
  options.model = "small.graph";
  Diagnostics diagnostics;
  Session session(options, diagnostics);
  for (const bool unexpected : {false, true}) {
    try {
      run_stage(session, "canonicalize", {.arguments = "--from=graph --pass=canonicalize", .graph = graph.get()}, [&] {
        if (unexpected) throw std::runtime_error("nobody catches this");
        require_well_formed("canonicalize", {"%y is f32[3], expected f32[2]"});
      });
      FAIL() << "the fault went unseen";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
      const std::string text = error.what();
      EXPECT_NE(text.find("this happened in `canonicalize`"), std::string::npos) << text;
      const size_t begin = text.find(folder.path());
      ASSERT_NE(begin, std::string::npos) << text;
      const std::string path = text.substr(begin, text.find(',', begin) - begin);
      const std::string written = read_text_file(path);
      EXPECT_TRUE(written.starts_with("// tcc --from=graph --pass=canonicalize " + path + "\n")) << written;
      const auto weights = read_safetensors(path + ".safetensors").tensors;
      EXPECT_TRUE(equal(*graph, *parse_graph(written, path, weights)));
    }
  }
  // Of what is not a graph the text.
  try {
    run_stage(session, "schedule-units", {.arguments = "--from=loop", .form = "loop", .text = [] { return std::string("unit ...\n"); }},
              [] { internal_error("this can't be scheduled"); });
    FAIL() << "the fault went unseen";
  } catch (const Error& error) {
    const std::string text = error.what();
    const size_t begin = text.find(folder.path());
    ASSERT_NE(begin, std::string::npos) << text;
    const std::string path = text.substr(begin, text.find(',', begin) - begin);
    EXPECT_TRUE(path.ends_with("/schedule-units.loop")) << path;
    EXPECT_EQ(read_text_file(path), "// tcc --from=loop " + path + "\nunit ...\n");
  }
  // A fault of the model is not a bug of ours.
  try {
    run_stage(session, "resolve", {.graph = graph.get()}, [] { throw Error(ExitCode::model, "type-error", "x", "wrong"); });
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "x: error: wrong [type-error]"); }
}

TEST(Session, AReproducerOfAPassHasTheFlagsThatItReads) {
  Options options;
  EXPECT_EQ(pass_arguments(options, "canonicalize"), "--from=graph --pass=canonicalize --emit=graph");
  options.mode = Mode::grad;
  options.loss = "mse:of=p";
  options.wrt = {"x", "w*"};
  const std::string arguments = pass_arguments(options, "build-joint");
  EXPECT_EQ(arguments, "--from=graph --mode=grad --loss='mse:of=p' --wrt='x' --wrt='w*' --pass=build-joint --emit=graph");
  EXPECT_EQ(pass_arguments({}, "split-wide-nodes"), "--from=prims --pass=split-wide-nodes --emit=prims");
  const test::Folder folder;
  folder.write("small.graph", test::small_graph());
  const test::Result result = test::run_tcc(
      "--from=graph --pass=resolve --emit=graph=resolved.graph small.graph && \"$TCC\" " + arguments + " resolved.graph", folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("%grad.w2: f32[5, 2]"), std::string::npos) << result.out;
}

TEST(Bindings, NamesHoldAnyCharacter) {
  EXPECT_EQ(parse_shapes({"a:2x3,b:"}), (std::map<std::string, Shape>{{"a", {2, 3}}, {"b", {}}}));
  EXPECT_EQ(parse_shapes({"net/x:0:2x3,y,z:4", "w:5"}), (std::map<std::string, Shape>{{"net/x:0", {2, 3}}, {"y,z", {4}}, {"w", {5}}}));
  for (const char* text : {"x", "x:2xx3", "x:2x", ":3", "x:-1", "a:1,b"}) EXPECT_THROW(parse_shapes({text}), Error) << text;

  const auto graph =
      parse_graph("graph @g(%\"a=b\": f32[], %a: i64[1], %n: f32[batch]) -> (%\"a=b\": f32[]) {\n  return %\"a=b\"\n}\n", "g.graph", {});
  Options options;
  options.bind = {"a=b=0.5", "a=7", "batch=3"};
  const Bindings bindings = resolve_bindings(*graph, options);
  EXPECT_EQ(bindings.inputs.at("a=b").as_double(0), 0.5);
  EXPECT_EQ(bindings.inputs.at("a").as_int64(0), 7);
  EXPECT_EQ(bindings.inputs.at("a").shape(), Shape{1});
  EXPECT_EQ(bindings.symbols.at("batch"), 3);
}

// What make itself makes of the rules: its data base prints the names as it understood them.
TEST(Dependencies, MakeReadsTheNamesBack) {
  if (test::run_shell("make --version", ".").exit_code != 0) GTEST_SKIP() << "there is no make";
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string characters = "ab  ##$$::|\\\\%%&~()'\"`!@^{}<>,+-._/é;=*?[]\n\t";
  size_t refused = 0;
  const auto name = [&](int number, bool target) {
    while (true) {
      std::string text;
      const auto some = [&] {
        for (uint64_t n = random() % 4; n > 0; --n) text += characters[random() % characters.size()];
      };
      some();
      text += "n" + std::to_string(number);
      some();
      // Of the same file make drops a leading ./, and doubled slashes.
      if (text.find("//") != std::string::npos || text.starts_with('/') || text.starts_with("./") || text.find("é") == 0) continue;
      if (!unfit_for_make(text, target)) return text;
      ++refused;
    }
  };
  const test::Folder folder;
  std::string rules;
  std::vector<std::string> expected;
  int number = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string target = name(number++, true);
    std::vector<std::string> inputs;
    for (int n = 0; n < 3; ++n) inputs.push_back(name(number++, false));
    rules += makefile_rules({target}, inputs);
    expected.push_back(target + ": " + inputs[0] + " " + inputs[1] + " " + inputs[2]);
    for (size_t n = 1; n < inputs.size(); ++n) {
      if (!unfit_for_make(inputs[n], true)) expected.push_back(inputs[n] + ":");
    }
  }
  EXPECT_GT(refused, 100U);
  folder.write("rules", rules);
  const test::Result result = test::run_shell("LC_ALL=C make -rRpq -f rules", folder.path());
  std::set<std::string> lines;
  for (size_t at = 0; at < result.out.size();) {
    const size_t end = std::min(result.out.find('\n', at), result.out.size());
    lines.insert(result.out.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& line : expected) EXPECT_TRUE(lines.contains(line)) << line;
  EXPECT_EQ(result.out.find("recipe to execute (from"), std::string::npos);
  EXPECT_EQ(result.err.find("rules:"), std::string::npos) << result.err;  // a line that is none of make's
  EXPECT_EQ(folder.files(), std::vector<std::string>{"rules"});
}

TEST(Documents, EveryKindOfDiagnosticIsExplained) {
  const std::string text = read_text_file(TCC_SOURCE_DIR "/docs/diagnostics.md");
  for (const DiagnosticKind& kind : diagnostic_kinds())
    EXPECT_NE(text.find("\n## " + std::string(kind.name) + "\n"), std::string::npos) << kind.name;
}

}  // namespace
}  // namespace tcc::driver
