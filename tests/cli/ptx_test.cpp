// The PTX of every model, and of its gradients or training steps, assembles, and no kernel spills
// registers. Without ptxas the test is skipped (exit code 77).
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/models.h"
#include "cli/program.h"
#include "driver/generate_code.h"
#include "plan/plan_graph.h"
#include "tcc/codegen/codegen.h"
#include "tcc/driver/pipeline.h"
#include "tcc/group/group.h"

namespace {

using namespace tcc;

driver::Options options_for(const std::string& model) {
  driver::Options options;
  options.model = model;
  options.cpu = false;
  options.march = {"ptx"};
  return options;
}

std::string ptx_of(const std::string& model) {
  const driver::Options options = options_for(model);
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
  const driver::TargetChoice choice = driver::choose_targets(options).front();
  const plan::Plan plan = plan::plan_graph(*prims, choice.target);
  return driver::emit_all_kernels(plan, choice, choice.ptx_arch, options.optimization, false, true).assembly;
}

/// Of all functions of a training where the loss is one for the model, else of its gradients.
std::string training_ptx_of(const test::ModelFile& file) {
  driver::Options options = options_for(file.path);
  const bool classifies = file.name.starts_with("mnist_mlp/") || file.name.starts_with("resnet");
  options.mode = classifies ? driver::Mode::train : driver::Mode::grad;
  if (classifies) {
    options.loss = "cross_entropy";
    options.optimizer = "adamw";
  }
  const test::Folder folder;
  options.emit = {{"ptx", folder / "ptx"}};
  Diagnostics diagnostics;
  driver::compile(options, diagnostics);
  return folder.read("ptx");
}

/// Lines of ptxas -v that report spills, or accumulators that it had to move (advisories C75xx).
std::string spills(const std::string& report) {
  std::istringstream lines(report);
  std::string found, function;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("Function properties for") != std::string::npos || line.find("Compiling entry") != std::string::npos) function = line;
    if (line.find("C75") != std::string::npos ||
        (line.find("spill stores") != std::string::npos && line.find(" 0 bytes spill stores") == std::string::npos))
      found += function + "\n" + line + "\n";
  }
  return found;
}

}  // namespace

int main() {
  if (codegen::find_ptxas().empty()) {
    std::printf("skipped: there is no ptxas\n");
    return 77;
  }
  std::set<std::string> seen;  // exporters agree on many models
  int failed = 0;
  const auto check = [&](const std::string& name, const std::string& ptx, const std::vector<const char*>& archs) {
    if (!seen.insert(ptx).second) return;
    for (const char* arch : archs) {
      std::string report;
      codegen::assemble_ptx(ptx, arch, &report);
      const std::string found = spills(report);
      if (found.empty()) continue;
      ++failed;
      std::printf("%s for %s spills:\n%s", name.c_str(), arch, found.c_str());
    }
  };
  for (const test::ModelFile& file : test::model_files()) {
    try {
      check(file.name, ptx_of(file.path), {"sm_80", "sm_90a"});
      if (file.name.ends_with("/unoptimized.onnx")) check(file.name + ", gradients", training_ptx_of(file), {"sm_90a"});
    } catch (const std::exception& error) {
      ++failed;
      std::printf("%s: %s\n", file.name.c_str(), error.what());
    }
    std::fflush(stdout);
  }
  std::printf("%zu different texts, %d faults\n", seen.size(), failed);
  return failed == 0 ? 0 : 1;
}
