// A long chain of nodes: what each stage makes of it grows with its length and no faster. Sizes of texts are counted, since times vary; tests/performance
// has the times.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cli/program.h"

namespace tcc::test {
namespace {

/// x -> relu(x) -> x + x -> tanh -> ... -> softmax every tenth node.
std::string chain(int nodes) {
  std::string text = "graph @chain(%v0: f32[8, 16]) -> (%v" + std::to_string(nodes) + ": f32[8, 16]) {\n";
  for (int i = 1; i <= nodes; ++i) {
    const std::string previous = "%v" + std::to_string(i - 1);
    const std::string ops[] = {"relu(" + previous + ")", "add(" + previous + ", " + previous + ")", "tanh(" + previous + ")"};
    text += "  %v" + std::to_string(i) + ": f32[8, 16] = " + (i % 10 == 0 ? "softmax(" + previous + ") {axis=1}" : ops[i % 3]) +
            "    loc(\"node" + std::to_string(i) + "\")\n";
  }
  return text + "}\n";
}

TEST(Chain, EveryStageGrowsLinearly) {
  const Folder folder;
  std::map<std::string, std::pair<double, double>> sizes;
  for (const int nodes : {500, 2000}) {
    const std::string name = "chain" + std::to_string(nodes);
    folder.write(name + ".graph", chain(nodes));
    const Result result = run_tcc("--from=graph --target=cpu " + name + ".graph -o " + name + ".so --dump-dir=" + name, folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char* kind : {"prims", "cpu.groups", "cpu.loop", "cpu.kernel", "cpu.plan", "cpu.ll", "cpu.s", "json"}) {
      const auto size = static_cast<double>(folder.read(name + "/" + name + "." + kind).size());
      (nodes == 500 ? sizes[kind].first : sizes[kind].second) = size;
    }
    sizes["so"].first = nodes == 500 ? static_cast<double>(folder.read(name + ".so").size()) : sizes["so"].first;
    if (nodes == 2000) sizes["so"].second = static_cast<double>(folder.read(name + ".so").size());
  }
  // Names of nodes get longer, so a little more than the factor of the nodes.
  for (const auto& [kind, size] : sizes) EXPECT_LT(size.second, 4.6 * size.first) << kind;
}

}  // namespace
}  // namespace tcc::test
