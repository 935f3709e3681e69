// What the command line says of itself, and of words that it doesn't know.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/program.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc::test {
namespace {

const std::vector<std::string> kVerbs = {"run", "bench", "tune", "verify", "check", "inspect", "explain"};

class Manners : public testing::Test {
 protected:
  void SetUp() override { folder_.write("small.graph", small_graph()); }
  std::string good(const std::string& arguments) const {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    EXPECT_EQ(result.err, "") << arguments;
    return result.out;
  }
  void expect_usage(const std::string& arguments, const std::string& message) const {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_EQ(result.err, message + "\n") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
  Folder folder_;
};

/// The flags that a help lists: what begins with a dash in its first column.
std::vector<std::string> flags_of(const std::string& help) {
  std::vector<std::string> flags;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    const std::string names = line.substr(2, line.find("  ", 2) - 2);
    std::istringstream words(names);
    for (std::string word; words >> word;) {
      if (word.ends_with(',')) word.pop_back();
      if (word.starts_with('-')) flags.push_back(word);
    }
  }
  return flags;
}

TEST_F(Manners, WordsThatAreUnknown) {
  const std::string more = "`tcc --help` lists what it takes";
  expect_usage("m.onnx --devcie cpu -o n.so", "tcc: error: there is no flag `--devcie` [invalid-argument]\ntcc: help: " + more);
  expect_usage("m.onnx --traget=cpu -o n.so",
               "tcc: error: there is no flag `--traget` [invalid-argument]\ntcc: help: did you mean `--target`? " + more);
  expect_usage("m.onnx -mach=sm_90 -o n.so",
               "tcc: error: there is no flag `-mach` [invalid-argument]\ntcc: help: did you mean `-march`? " + more);
  expect_usage("m.onnx --fp16 -o n.so",
               "tcc: error: there is no flag `--fp16` [invalid-argument]\ntcc: help: did you mean `--precision`? " + more);
  expect_usage("m.onnx --output n.so", "tcc: error: there is no flag `--output` [invalid-argument]\ntcc: help: did you mean `-o`? " + more);
  expect_usage("--model=m.onnx -o n.so",
               "tcc: error: there is no flag `--model` [invalid-argument]\ntcc: help: give the model without a flag");
  expect_usage("run m.so --devcie cpu",
               "tcc: error: there is no flag `--devcie` [invalid-argument]\ntcc: help: did you mean `--device`? `tcc run --help` lists "
               "what it takes");
  expect_usage("bnch m.so", "tcc: error: `bnch` is neither a verb nor a file [invalid-argument]\ntcc: help: did you mean `tcc bench`?");
  expect_usage("inspct", "tcc: error: `inspct` is neither a verb nor a file [invalid-argument]\ntcc: help: did you mean `tcc inspect`?");
  expect_usage("help verfy",
               "tcc: error: there is no verb `verfy` [invalid-argument]\ntcc: help: did you mean `verify`? verbs are `run`, `bench`, "
               "`tune`, `verify`, "
               "`check`, `inspect`, `explain`, `help`");
  expect_usage("m.onnx x.so -o n.so",
               "tcc: error: `x.so` is one argument too many, the model is `m.onnx` [invalid-argument]\ntcc: help: " + more);
  expect_usage("explain unsuported-op",
               "tcc: error: there is no kind of message `unsuported-op` [invalid-argument]\ntcc: help: did you mean `unsupported-op`?");
  expect_usage(
      "m.onnx --mode=trian -o n.so",
      "tcc: error: --mode=trian: there is no such choice [invalid-argument]\ntcc: help: did you mean `train`? choices are `infer`, "
      "`grad`, `train`");
  expect_usage("m.onnx --emit=kernal",
               "tcc: error: --emit=kernal: there is no such product [invalid-argument]\ntcc: help: did you mean `kernel`?");
  expect_usage("--from=graph small.graph --pass=cannonicalize --emit=graph",
               "tcc: error: --pass: there is no pass `cannonicalize` [unknown-pass]\ntcc: help: did you mean `canonicalize`?");
}

TEST_F(Manners, ValuesThatAreNone) {
  expect_usage("m.onnx -O fast -o n.so", "tcc: error: -O fast: a whole number was expected [invalid-argument]");
  expect_usage("m.onnx -j99999999999 -o n.so", "tcc: error: -j 99999999999: the number is out of range [invalid-argument]");
  expect_usage("m.onnx --clip-norm=1,5 -o n.so", "tcc: error: --clip-norm=1,5: a number was expected [invalid-argument]");
  expect_usage("m.onnx -o", "tcc: error: -o: a value was expected (FILE) [invalid-argument]\ntcc: help: `tcc --help` lists what it takes");
  expect_usage("m.onnx -o n.so --mode=", "tcc: error: --mode: a value was expected (MODE), found nothing [invalid-argument]");
  expect_usage("m.onnx -o n.so -o k.so", "tcc: error: -o is given twice [invalid-argument]");
  expect_usage("m.onnx -o n.so --quiet=3",
               "tcc: error: --quiet=3: --quiet takes no value [invalid-argument]\ntcc: help: `tcc --help` lists what it takes");
}

// A flag that the others leave without effect is refused, not passed over.
TEST_F(Manners, FlagsWithoutEffect) {
  const auto expect = [&](const std::string& arguments, const std::string& text) {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_TRUE(result.err.starts_with("tcc: error: " + text + " [invalid-argument]\n")) << arguments << "\n" << result.err;
  };
  expect("m.onnx --target=cpu -march=sm_90 -o n.so", "-march says nothing with --target=cpu");
  expect("m.onnx --target=cuda --cpu=x86-64-v4 -o n.so", "--cpu says nothing with --target=cuda");
  expect("--from=graph -x onnx small.graph -o n.so", "-x says nothing with --from=graph");
  expect("--from=prims small.graph --bind n=3 -o n.so", "--bind says nothing with --from=prims");
  expect("--from=loop small.graph --shapes x:3 -o n.so", "--shapes says nothing with --from=loop");
  expect("--from=kernel small.graph --mode=grad -o n.so", "--mode says nothing with --from=kernel");
  expect("m.onnx --loss=mse -o n.so", "--loss says nothing with --mode=infer");
  expect("verify small.graph --from=graph --no-finite-differences", "--no-finite-differences says nothing with --mode=infer");
  expect("verify small.graph --from=graph --random --no-random", "--random says nothing with --no-random");
  expect("m.onnx -v -o n.so", "there is no flag `-v`");
  expect("verify small.graph --from=graph --rtol=-1", "--rtol=-1: a number was expected, at least 0");
  for (const char* flag : {"-O 2", "-march=sm_90", "--cpu=x86-64-v3", "--emit=plan", "--time-report"})
    EXPECT_EQ(run_tcc("check --from=graph small.graph " + std::string(flag), folder_.path()).exit_code, 2) << flag;
}

// Every flag of every verb, with a letter left out, is understood.
TEST_F(Manners, EveryFlagMisspelt) {
  for (const std::string& verb : {std::string(), std::string("run "), std::string("verify ")}) {
    for (const std::string& flag : flags_of(good(verb + "--help"))) {
      if (!flag.starts_with("--") || flag.size() < 7) continue;
      const std::string misspelt = flag.substr(0, 3) + flag.substr(4);
      const Result result = run_tcc(verb + misspelt, folder_.path());
      EXPECT_EQ(result.exit_code, 2) << misspelt;
      EXPECT_NE(result.err.find("did you mean `" + flag + "`?"), std::string::npos) << misspelt << "\n" << result.err;
    }
  }
}

TEST_F(Manners, Help) {
  const std::string page = read_text_file(std::string(TCC_SOURCE_DIR) + "/docs/command_line.md");
  const std::string general = good("--help");
  EXPECT_EQ(good("-h"), general);
  EXPECT_EQ(good("help"), general);
  EXPECT_EQ(good("m.onnx --frobnicate --help"), general);  // whatever else is wrong
  EXPECT_LT(general.find("  -o FILE"), general.find("  --remat"));
  EXPECT_EQ(general.find("--march"), std::string::npos);
  for (const std::string& verb : kVerbs) {
    const std::string text = good(verb + " --help");
    EXPECT_EQ(good("help " + verb), text);
    EXPECT_EQ(good("--help " + verb), text);
    EXPECT_NE(general.find("  tcc " + verb + " "), std::string::npos) << verb;
    EXPECT_NE(page.find("tcc " + verb), std::string::npos) << "docs/command_line.md lacks " << verb;
  }
  std::vector<std::string> verbs = kVerbs;
  verbs.insert(verbs.begin(), "");
  for (const std::string& verb : verbs) {
    const std::string text = good(verb + " --help");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_EQ(text.find("\n\n\n"), std::string::npos) << verb;
    for (const std::string& flag : flags_of(text))
      EXPECT_NE(page.find("`" + flag), std::string::npos) << "docs/command_line.md lacks " << flag << " of tcc " << verb;
  }
}

TEST_F(Manners, Version) {
  const std::string text = good("--version");
  for (const char* spelling : {"-V", "-version", "m.onnx --version"}) EXPECT_EQ(good(spelling), text);
  EXPECT_TRUE(text.starts_with("tcc ")) << text;
  for (const char* word : {"\nLLVM ", "\ninterface of libraries: version ", "\nmodels: ONNX, opset ", "\ntargets: cuda", "\nptxas: "})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  EXPECT_NE(run_shell("TCC_PTXAS=/no/such \"$TCC\" --version", folder_.path()).out.find("ptxas: not found"), std::string::npos);
}

TEST_F(Manners, ExplainsEveryKind) {
  const std::string list = good("explain");
  for (const DiagnosticKind& kind : diagnostic_kinds()) {
    EXPECT_NE(list.find("  " + std::string(kind.name)), std::string::npos) << kind.name;
    const std::string text = good("explain " + std::string(kind.name));
    EXPECT_TRUE(text.starts_with(std::string(kind.name) + "\n\n")) << text;
    EXPECT_GT(text.size(), kind.name.size() + 40);
    EXPECT_EQ(text.find("\n## "), std::string::npos);
  }
  EXPECT_EQ(good("explain '[unsupported-op]'"), good("explain unsupported-op"));
}

// The names of a text and of files are printed so that none passes for a message.
TEST_F(Manners, NamesAreEscaped) {
  folder_.write("bad.graph",
                "graph @g(%\"a\\nb: error: x\": f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = relu(%\"a\\nb: error: x\") {z=1}\n}\n");
  for (const char* arguments : {"--from=graph bad.graph --emit=graph", "--from=graph bad.graph --shapes q:3 -o n.so",
                                "'no\nsuch: error: file' -o n.so", "run $'m\\x1b[2J.so'", "check $'\\r.onnx'"}) {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_NE(result.exit_code, 0) << arguments;
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(line.find_first_of("\r\x1b"), std::string::npos) << line;
      EXPECT_FALSE(line.starts_with("b: error") || line.starts_with("such: error")) << result.err;
    }
  }
}

// So are those that runs print.
TEST_F(Manners, NamesOfRunsAreEscaped) {
  folder_.write("odd.graph",
                "graph @g(%\"a\\nb: f32\\x1b\": f32[2]) -> (%\"y\\nz: f32\": f32[2]) {\n  %\"y\\nz: f32\": f32[2] = "
                "relu(%\"a\\nb: f32\\x1b\")\n}\n");
  ASSERT_EQ(good("--from=graph odd.graph --target=cpu -o odd.so"), "");
  for (const char* arguments : {"run odd.so --random --device=cpu", "bench odd.so --random --runs 3 --device=cpu --profile",
                                "verify --from=graph odd.graph --device=cpu"}) {
    std::istringstream lines(good(arguments));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(line.find('\x1b'), std::string::npos) << arguments << "\n" << line;
      EXPECT_FALSE(line.starts_with("b: f32") || line.starts_with("z: f32")) << arguments << "\n" << line;
    }
  }
}

// Every step that begins is done, in this order.
TEST_F(Manners, ProgressAsJson) {
  const Result result = run_tcc("--from=graph --target=cpu small.graph -o n.so --progress=json", folder_.path());
  std::istringstream lines(result.err);
  std::string open;
  int num_steps = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    const bool done = object.contains("done");
    EXPECT_EQ(done, !open.empty()) << result.err;
    EXPECT_TRUE(!done || (object["step"] == open && object["ms"].get<double>() >= 0)) << line;
    open = done ? "" : object["step"];
    num_steps += done;
  }
  EXPECT_GT(num_steps, 5);
  EXPECT_EQ(open, "");
}

/// The page has a row for each op of the list, and no others (onnx_ops_page makes the rows).
TEST_F(Manners, OpsAreThoseOfThePage) {
  std::set<std::string> listed, of_page;
  std::istringstream list(good("check --ops")), page(read_text_file(std::string(TCC_SOURCE_DIR) + "/docs/onnx_ops.md"));
  std::string domain;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    if (line.starts_with("  ") && line[2] != ' ') words >> domain;
    for (std::string op; words >> op;) listed.insert(op + " | " + domain);
  }
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| ") && !line.starts_with("| op ")) of_page.insert(line.substr(2, line.find(" | ", line.find(" | ") + 1) - 2));
  }
  EXPECT_TRUE(listed.contains("Softmax | ai.onnx"));
  EXPECT_EQ(listed, of_page);
}

}  // namespace
}  // namespace tcc::test
