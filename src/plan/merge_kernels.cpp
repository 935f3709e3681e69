// One list of kernels for several plans: the functions of a library are generated together, so what two of them launch is generated once.

#include <algorithm>
#include <string>
#include <unordered_map>

#include "tcc/plan/plan.h"

namespace tcc::plan {

int num_launched_kernels(const Plan& plan) {
  if (plan.constants.empty()) return static_cast<int>(plan.kernels.size());  // those of other functions are among them
  int number = 0;
  for (const std::vector<Launch>* launches : {&plan.launches, &plan.preparations}) {
    for (const Launch& launch : *launches) {
      if (launch.kind == Launch::Kind::kernel) number = std::max(number, launch.kernel + 1);
    }
  }
  return number;
}

void merge_kernels(const std::vector<Plan*>& plans) {
  std::vector<loop::Kernel> kernels;
  std::unordered_map<std::string, int> kernel_numbers;
  for (Plan* plan : plans) {
    std::vector<int> numbers;
    for (const loop::Kernel& kernel : plan->kernels) {
      const auto [at, is_new] = kernel_numbers.emplace(loop::print(kernel, "k"), static_cast<int>(kernels.size()));
      if (is_new) kernels.push_back(kernel);
      numbers.push_back(at->second);
    }
    for (std::vector<Launch>* launches : launch_lists(*plan)) {
      for (Launch& launch : *launches) {
        if (launch.kind == Launch::Kind::kernel) launch.kernel = numbers.at(static_cast<size_t>(launch.kernel));
      }
    }
  }
  for (Plan* plan : plans) plan->kernels = kernels;
}

}  // namespace tcc::plan
