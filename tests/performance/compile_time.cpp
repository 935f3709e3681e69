// How long tcc takes to compile: a chain of nodes at growing lengths, whose time has to grow with the length and no faster, and timm_test_resnet, which has
// to be done in 3 s on two cores. The chain stops at PTX: ptxas is not ours.
#include <chrono>
#include <cstdio>
#include <string>

#include "cli/program.h"

namespace {

using namespace tcc::test;
using Clock = std::chrono::steady_clock;

double seconds_of(const std::string& arguments, const Folder& folder) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    const Result result = run_tcc(arguments, folder.path());
    if (result.exit_code != 0) {
      std::fprintf(stderr, "tcc %s\n%s", arguments.c_str(), result.err.c_str());
      std::exit(1);
    }
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

std::string chain(int nodes) {
  std::string text = "graph @chain(%v0: f32[8, 16]) -> (%v" + std::to_string(nodes) + ": f32[8, 16]) {\n";
  for (int i = 1; i <= nodes; ++i) {
    const std::string previous = "%v" + std::to_string(i - 1);
    const std::string ops[] = {"relu(" + previous + ")", "add(" + previous + ", " + previous + ")", "tanh(" + previous + ")"};
    text += "  %v" + std::to_string(i) + ": f32[8, 16] = " + (i % 10 == 0 ? "softmax(" + previous + ") {axis=1}" : ops[i % 3]) + "\n";
  }
  return text + "}\n";
}

}  // namespace

int main() {
  const Folder folder;
  bool good = true;
  double at_1000 = 0;
  std::printf("%10s %10s %14s\n", "nodes", "seconds", "us per node");
  for (const int nodes : {1000, 2000, 4000, 8000}) {
    folder.write("chain.graph", chain(nodes));
    const double seconds = seconds_of("--from=graph chain.graph -march=ptx -o chain.so", folder);
    if (nodes == 1000) at_1000 = seconds;
    std::printf("%10d %10.3f %14.1f\n", nodes, seconds, 1e6 * seconds / nodes);
    std::fflush(stdout);
    good &= seconds < 1.5 * at_1000 * nodes / 1000;
  }
  const double resnet = seconds_of("$MODELS/timm_test_resnet/dynamo.onnx -j 2 -o resnet.so", folder);
  std::printf("timm_test_resnet: %.2f s with 2 threads, at most 3 s are wanted\n", resnet);
  return good && resnet < 3 ? 0 : 1;
}
