// Every exported model, compiled and run on the CPU, against the framework's f64 outputs. Prints a table; fails when a row does.
//
//   models_test [--device=cpu|cuda] [NAME...]       only models whose name contains one of the words
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cli/models.h"
#include "cli/program.h"
#include "tcc/driver/pipeline.h"
#include "tcc/driver/tolerance.h"
#include "tcc/runtime/library.h"

namespace {

using namespace tcc;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr driver::Tolerance kTolerance = {1e-4, 1e-5};

bool check(const test::ModelFile& file, const test::Folder& folder, runtime::Device device) {
  driver::Options options;
  options.cuda = device != runtime::Device::cpu;
  options.cpu = device != runtime::Device::cuda;
  options.verify_passes = true;
  const std::string output = folder / "model.so";
  try {
    const auto start = Clock::now();
    driver::compile_to_library(file.path, options, output);
    const double compile_ms = Milliseconds(Clock::now() - start).count();
    const auto library = runtime::Library::open(output);
    runtime::Instance instance(library, {.device = device});
    const test::Reference reference = test::read_reference(file);
    const auto start_of_run = Clock::now();
    const std::vector<Tensor> outputs = instance.run(reference.inputs);
    const double run_ms = Milliseconds(Clock::now() - start_of_run).count();
    const driver::Comparison comparison = driver::compare(outputs.at(0), reference.output, kTolerance);
    const bool right = comparison.num_wrong == 0;
    std::printf("%-42s %9.0f %9.2f %8u %8u %11.2e  %s\n", file.name.c_str(), compile_ms, run_ms, instance.info().num_launches,
                instance.info().num_kernels, comparison.max_absolute, right ? "ok" : "WRONG");
    if (!right)
      std::printf("    %lld of %lld elements; element %lld is %g, expected %g\n", static_cast<long long>(comparison.num_wrong),
                  static_cast<long long>(comparison.num_elements), static_cast<long long>(comparison.worst), comparison.found,
                  comparison.expected);
    std::fflush(stdout);
    return right;
  } catch (const std::exception& error) {
    std::printf("%-42s FAILED\n%s\n", file.name.c_str(), error.what());
    std::fflush(stdout);
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  runtime::Device device = runtime::Device::cpu;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--device=cuda") == 0) device = runtime::Device::cuda;
    else if (std::strcmp(argv[i], "--device=cpu") != 0) words.emplace_back(argv[i]);
  }
  const test::Folder folder;
  std::printf("%-42s %9s %9s %8s %8s %11s\n", "model", "compile", "run ms", "launches", "kernels", "difference");
  int failed = 0, count = 0;
  for (const test::ModelFile& file : test::model_files()) {
    bool chosen = words.empty();
    for (const std::string& word : words) chosen |= file.name.find(word) != std::string::npos;
    if (!chosen) continue;
    ++count;
    if (!check(file, folder, device)) ++failed;
  }
  std::printf("%d of %d models are right\n", count - failed, count);
  return failed == 0 && count > 0 ? 0 : 1;
}
